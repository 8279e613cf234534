"""Which encoding a response gets: the ``Accept`` header against what can be produced.

Media ranges, q-values and specificity as in RFC 9110. One parameter means
something here, ``compression`` (``none`` or ``lz4``), and one is understood
because tesseract-core's client sends it, ``gpu_transport=none``; others
(``charset`` and the like) are left out of account, as tesseract-core does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from binref_sci import naming
from binref_sci.errors import FormatError
from binref_sci.messages import shown

COMPRESSIONS = ("none", *naming.COMPRESSIONS)
GPU_TRANSPORTS = ("none",)


@dataclass(frozen=True)
class Encoding:
    """How a response encodes its arrays."""

    output_format: str
    compression: str | None


@dataclass(frozen=True)
class _Range:
    """One media range of the header."""

    format: str | None  # None: a wildcard
    specificity: int  # 0 for */*, 1 for application/*, 2 for a type; parameters count on top
    compression: str | None
    quality: float

    def admits(self, encoding: Encoding, default: Encoding) -> bool:
        """Whether this range covers `encoding`; a compression not named is the default's."""
        if self.format not in (None, encoding.output_format):
            return False
        asked = self.compression or default.compression or "none"
        return asked == (encoding.compression or "none")


def offered_formats(*, has_output_path: bool) -> tuple[str, ...]:
    """Return what a server can produce; references need a folder they lie in."""
    return naming.OUTPUT_FORMATS if has_output_path else naming.OUTPUT_FORMATS[:2]


def negotiate(accept: str | None, *, formats: Sequence[str], default: Encoding) -> Encoding:
    """Choose the encoding of a response.

    The highest quality wins; among equals the range that the client named
    first, then the server's default.

    Parameters
    ----------
    accept
        The header, several joined by commas; None or blank means anything.
    formats
        What can be produced here.
    default
        What a client that does not care gets.

    Raises
    ------
    FormatError
        If nothing that can be produced is acceptable.

    Examples
    --------
    >>> default = Encoding("json+base64", None)
    >>> negotiate("application/json;q=0.5, */*;q=0.1", formats=naming.OUTPUT_FORMATS, default=default)
    Encoding(output_format='json', compression=None)
    >>> negotiate("application/json+binref;compression=lz4", formats=naming.OUTPUT_FORMATS, default=default)
    Encoding(output_format='json+binref', compression='lz4')
    """
    if accept is None or not accept.strip():
        return default
    ranges = [parsed for text in _split(accept, ",") if (parsed := _range(text)) is not None]
    best: tuple[float, int, int] | None = None
    chosen = default
    for preference, encoding in enumerate(_candidates(formats, default)):
        covering = [
            (number, item) for number, item in enumerate(ranges) if item.admits(encoding, default)
        ]
        if not covering:
            continue
        # The most specific range decides, so that "*/*, application/json;q=0" excludes json.
        number, decisive = max(covering, key=lambda pair: (pair[1].specificity, -pair[0]))
        rank = (decisive.quality, -number, -preference)
        if decisive.quality > 0 and (best is None or rank > best):
            best, chosen = rank, encoding
    if best is None:
        raise FormatError(_complaint(accept, formats))
    return chosen


def _candidates(formats: Sequence[str], default: Encoding) -> list[Encoding]:
    """Everything that can be produced, the default first."""
    everything = [
        Encoding(output_format, None if compression == "none" else compression)
        for output_format in formats
        for compression in COMPRESSIONS
    ]
    return sorted(
        everything,
        key=lambda item: (
            item.output_format != default.output_format,
            item.compression != default.compression,
        ),
    )


def _complaint(accept: str, formats: Sequence[str]) -> str:
    available = ", ".join(f"application/{name}" for name in formats)
    message = (
        f"cannot produce any encoding that Accept {shown(accept)} allows; available here: {available}, "
        f"with compression={' or '.join(COMPRESSIONS)}"
    )
    if "json+binref" not in formats:
        message += (
            "; application/json+binref needs a server with an output path "
            "(binref-sci serve --output-path)"
        )
    return message


def _range(text: str) -> _Range | None:
    """Read one media range; None for one that nothing here can satisfy."""
    media_type, *parameters = (part.strip() for part in _split(text, ";"))
    media_type = media_type.lower()
    values: dict[str, str] = {}
    for parameter in parameters:
        name, equals, value = parameter.partition("=")
        if equals:
            values[name.strip().lower()] = value.strip().strip('"').lower()
    if media_type == "*/*":
        output_format, specificity = None, 0
    elif media_type == "application/*":
        output_format, specificity = None, 1
    elif media_type.startswith("application/"):
        output_format, specificity = media_type.removeprefix("application/"), 2
    else:
        return None
    if values.get("gpu_transport", "none") not in GPU_TRANSPORTS:
        return None
    compression = values.get("compression")
    if compression is not None and compression not in COMPRESSIONS:
        return None
    return _Range(
        output_format,
        2 * specificity + (compression is not None),
        compression,
        _quality(values.get("q", "1")),
    )


def _quality(text: str) -> float:
    """Read a q-value; what is none counts as 0, as in tesseract-core."""
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return min(value, 1.0) if math.isfinite(value) and value >= 0 else 0.0


def _split(text: str, separator: str) -> list[str]:
    """Split at `separator` outside quotes, leaving out blanks at the top level."""
    parts, current, quoted = [], "", False
    for letter in text:
        if letter == '"':
            quoted = not quoted
        if letter == separator and not quoted:
            parts.append(current)
            current = ""
        else:
            current += letter
    parts.append(current)
    return [part for part in parts if part.strip()] or [""]
