"""What a request says beside its body, checked before the body is taken in."""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection

from fastapi import Request
from starlette.exceptions import HTTPException

from binref_sci.errors import PayloadError
from binref_sci.messages import fault, shortened, shown
from binref_sci.naming import checked_run_id

_JSON_TYPE = re.compile(r"application/(json|json\+[a-z0-9]+|[a-z0-9.-]+\+json)")


def run_id_of(request: Request, active: Collection[str]) -> str:
    """Return the run id that the client asks for, or a new one.

    Raises
    ------
    HTTPException
        If it cannot name a run, or a call of this id has not ended.
    """
    asked = request.query_params.getlist("run_id")
    if not asked:
        return uuid.uuid4().hex
    try:
        if len(asked) > 1:
            raise PayloadError(f"run_id is given {len(asked)} times; give it once")
        run_id = checked_run_id(asked[0])
    except PayloadError as error:
        entry = fault(["query", "run_id"], str(error), "run_id")
        # Starlette declares text; FastAPI takes whatever JSON has.
        raise HTTPException(422, [entry]) from error  # type: ignore[arg-type]
    if run_id in active:
        raise HTTPException(409, already_running(run_id))
    return run_id


def already_running(run_id: str) -> str:
    """Return what is said of a run id that is in use."""
    return (
        f"run_id {run_id!r} is in use by a call that has not ended; its run directory can hold "
        "one response at a time. Wait, or choose another run_id"
    )


def check_content_type(request: Request) -> None:
    """Refuse a body that does not say it is JSON.

    Not a formality: forms and plain text are what a web page may post to a server on
    this machine without asking.
    """
    content_type = request.headers.get("content-type", "")
    media_type = content_type.partition(";")[0].strip().lower()
    if not _JSON_TYPE.fullmatch(media_type):
        raise HTTPException(
            415,
            f"the body must be JSON: send 'Content-Type: application/json', not {shown(content_type)}",
        )
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("", "identity"):
        raise HTTPException(
            415,
            f"a body with 'Content-Encoding: {shortened(coding, 200)}' is not understood; send it "
            'as it is (arrays may be compressed one by one, with "compression": "lz4")',
        )


def accept_of(request: Request) -> str | None:
    """Return what a client accepts, or None if it does not say."""
    values = request.headers.getlist("accept")
    return ", ".join(values) if values else None
