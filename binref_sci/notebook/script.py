"""What of the player runs in a browser: one script and one style sheet, made of parts.

A notebook's front end takes a widget's script as one text and fetches nothing beside it, and an
exported page has to hold all of it. So the parts of the script, which are ES modules of their own
in the folder `browser`, are joined here: each after those that it imports from, and without its
imports of them, as all share one scope then.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "browser"

WIDGET: Final = (
    "pure/words",
    "pure/ticks",
    "pure/order",
    "pure/clock",
    "pure/times",
    "pure/plan",
    "pure/cache",
    "pure/rates",
    "pure/bytes",
    "pure/colours",
    "pure/windows",
    "pure/series",
    "pure/keys",
    "model/channel",
    "model/kernel",
    "model/rest",
    "model/playhead",
    "model/pace",
    "model/look",
    "model/frames",
    "model/demand",
    "model/asking",
    "model/questions",
    "model/pins",
    "model/run",
    "model/scales",
    "model/telemetry",
    "model/times",
    "model/sync",
    "model/screen",
    "model/player",
    "view/icons",
    "view/dom",
    "view/canvas",
    "view/axes",
    "view/bar",
    "view/curve",
    "view/paper",
    "view/pointer",
    "view/panel",
    "view/layout",
    "view/bars",
    "view/monitor",
    "view/stage",
    "view/head",
    "view/readout",
    "view/timeline",
    "view/controls",
    "view/sliders",
    "view/colourpanel",
    "view/series",
    "view/help",
    "view/snapshot",
    "view/commands",
    "view/display",
    "widget",
)
"""Parts of the widget, in the order in which they are joined."""

PAGE: Final = (*WIDGET, "page/stub", "page/embedded", "page/start")
"""Parts of an exported page: the widget, and what answers it without a kernel."""

STYLE: Final = (
    "base",
    "head",
    "stage",
    "readout",
    "timeline",
    "controls",
    "sliders",
    "colours",
    "series",
    "help",
    "contrast",
)
"""Parts of the style sheet, in the order in which they are joined."""

_IMPORT_OF_PARTS = re.compile(r'^import \{[^{}]*\} from "\.\.?/[\w/]+\.js";\n', re.MULTILINE)


def widget_script() -> str:
    """The ES module of the widget, whose default export anywidget calls."""
    return _joined_script(WIDGET)


def page_script() -> str:
    """The ES module of an exported page, which has `start` besides."""
    return _joined_script(PAGE)


def style() -> str:
    """The style sheet of both."""
    return "\n".join(_read(f"style/{part}.css") for part in STYLE)


def _joined_script(parts: tuple[str, ...]) -> str:
    return "\n".join(_IMPORT_OF_PARTS.sub("", _read(f"{part}.js")) for part in parts)


def _read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")
