"""tesseract-core itself, unpatched, in an environment of its own, to talk to over HTTP."""
