"""Answers that the server gives itself: JSON, errors in the form that clients know."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import orjson
from starlette.responses import Response


def new_error_id() -> str:
    """Return what an answer and the log have in common."""
    return uuid.uuid4().hex[:12]


def failure(error_id: str, message: str, status: int = 500) -> Response:
    """Return the answer for what is not the caller's fault."""
    return refusal(status, {"error_id": error_id, "message": message})


def refusal(status: int, detail: Any, headers: Mapping[str, str] | None = None) -> Response:
    """Return the answer for an error."""
    return json_response(status, {"detail": detail}, headers)


def json_response(status: int, content: Any, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer of JSON."""
    return Response(
        orjson.dumps(content), status, dict(headers or {}), media_type="application/json"
    )
