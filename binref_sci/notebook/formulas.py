"""Text as matplotlib can draw it: a formula that it cannot read is shown as it is written."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.mathtext import MathTextParser

_PARSER: Final[MathTextParser[Any]] = MathTextParser("path")
_DOLLAR: Final = re.compile(r"(?<!\\)\$")


@lru_cache(maxsize=512)
def drawable(text: str) -> str:
    r"""Return text with the dollars escaped of what is no formula that matplotlib knows.

    Examples
    --------
    >>> drawable("pressure [$N/m^2$]")
    'pressure [$N/m^2$]'
    >>> drawable(r"ratio $\frac{")
    'ratio \\$\\frac{'
    """
    if "$" not in text:
        return text
    try:
        for line in text.split("\n"):  # of which matplotlib reads each by itself
            _PARSER.parse(line)
    except ValueError:
        return _DOLLAR.sub(r"\\$", text)
    return text


def mend(ax: Axes) -> None:
    """Make the labels and the title of axes drawable, whoever has put them there."""
    legend = ax.get_legend()
    named = [] if legend is None else legend.get_texts()
    for text in (ax.title, ax.xaxis.label, ax.yaxis.label, *named):
        text.set_text(drawable(text.get_text()))
