"""The HTTP server of a component.

Two kinds of processes, so that no solver can hold up the answer to anyone else:

- one process speaks HTTP (`app`, `serve`). It never imports the component, never
  parses a payload and never encodes a result; it moves bytes;
- ``workers`` processes (`worker`) hold the component, one call at a time each, and
  talk to the first over a socket of their own (`channel`). In the first, `process`
  is one of them, and `pool` keeps that many alive.

A worker imports `worker` and `channel` only: not FastAPI, not uvicorn.
"""
