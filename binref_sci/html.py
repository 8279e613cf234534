"""Facts as a small piece of HTML: escaped, without script, readable on any background.

Colours are the page's own (``currentColor``), so a dark theme needs no second set. What is
folded opens without JavaScript.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

MOST_BYTES: Final = 40_000
"""Rows beyond are counted, not shown: a notebook keeps every output."""

_LONGEST: Final = 200  # characters of one cell
_LEFT: Final = "…"

_STYLE: Final = """<style>
.binref-facts{font-family:var(--jp-content-font-family,system-ui,sans-serif);font-size:13px;
line-height:1.5;color:inherit;background:transparent}
.binref-facts>div{padding-bottom:4px;border-bottom:1px solid color-mix(in srgb,currentColor 25%,transparent)}
.binref-facts table{border-collapse:collapse;background:transparent;color:inherit;margin:4px 0;font-size:inherit}
.binref-facts tr,.binref-facts td,.binref-facts th{background:transparent;color:inherit;text-align:left;
padding:1px 12px 1px 0;border:0;font-weight:normal;vertical-align:top}
.binref-facts thead th,.binref-facts tbody th{opacity:.65;white-space:nowrap}
.binref-facts td{font-family:var(--jp-code-font-family,ui-monospace,monospace);overflow-wrap:anywhere}
.binref-facts summary{cursor:pointer}
.binref-facts small{border:1px solid currentColor;border-radius:8px;padding:0 7px;margin-left:6px;font-size:11px}
</style>"""


@dataclass(frozen=True)
class Section:
    """A table that can be folded away.

    Parameters
    ----------
    heading
        Beside the arrow; the number of rows is added.
    columns
        Headings of the cells.
    rows
        Cells as plain text.
    folded
        Whether it is closed at first.
    """

    heading: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    folded: bool = False


def facts_html(
    kind: str,
    summary: str,
    facts: Iterable[tuple[str, str]],
    sections: Iterable[Section] = (),
    *,
    state: str = "",
) -> str:
    """Return facts about an object as HTML of less than 50 kB.

    Parameters
    ----------
    kind
        Name of the class.
    summary
        In one line; plain text, as all that follows.
    facts
        Pairs of name and value.
    sections
        Tables below.
    state
        Of a run, or of files; shown as a badge.

    Examples
    --------
    >>> made = facts_html("Array", "(2)", [("name", "<b>")])
    >>> "&lt;b&gt;" in made, "<script" in made
    (True, False)
    """
    badge = f"<small>{_text(state)}</small>" if state else ""
    rows = "".join(f"<tr><th>{_text(k)}</th><td>{_text(v)}</td></tr>" for k, v in facts)
    head = f"<b>{_text(kind)}</b> {_text(summary)}{badge}"
    made = [
        f'{_STYLE}<div class="binref-facts"><div>{head}</div><table><tbody>{rows}</tbody></table>'
    ]
    spent = sum(map(_size, made))
    for section in sections:
        if not section.rows:
            continue
        head = "".join(f"<th>{_text(column)}</th>" for column in section.columns)
        lines: list[str] = []
        for row in section.rows:
            line = f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>"
            if spent + _size(line) > MOST_BYTES:
                break
            spent += _size(line)
            lines.append(line)
        if len(lines) < len(section.rows):
            more = len(section.rows) - len(lines)
            lines.append(f'<tr><td colspan="{len(section.columns)}">{_LEFT} {more} more</td></tr>')
        made.append(
            f"<details{'' if section.folded else ' open'}>"
            f"<summary>{_text(section.heading)} ({len(section.rows)})</summary>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></details>"
        )
    return "".join([*made, "</div>"])


def size_text(nbytes: int) -> str:
    """Return a number of bytes for people.

    Examples
    --------
    >>> size_text(512), size_text(3 * 2**20)
    ('512 B', '3.00 MiB')
    """
    size, unit = float(nbytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if size < 1000:
            break
        size, unit = size / 1024, larger
    return (
        f"{nbytes} B"
        if unit == "B"
        else f"{size:.3g} {unit}"
        if size >= 10
        else f"{size:.2f} {unit}"
    )


def sizes_text(dims: Sequence[str] | None, shape: Sequence[int]) -> str:
    """Return lengths of axes, with their names if they have any.

    Examples
    --------
    >>> sizes_text(("time", "x"), (10, 4)), sizes_text(None, (4,))
    ('(time: 10, x: 4)', '(4,)')
    """
    if dims is None or len(dims) != len(shape):
        return str(tuple(shape))
    return f"({', '.join(f'{dim}: {length}' for dim, length in zip(dims, shape, strict=True))})"


def _text(text: str) -> str:
    short = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + _LEFT
    # A file's name may hold bytes that are no text, which nothing could save.
    return html.escape(short.encode("utf-8", "replace").decode())


def _size(text: str) -> int:
    return len(text.encode())
