"""What of the player runs in a browser: one script and one style sheet, made of parts.

A notebook's front end takes a widget's script as one text and fetches nothing beside it, and an
exported page has to hold all of it. So the parts, which are ES modules of their own in the folder
`browser`, are joined here: each comes after those that it imports from, and their imports of each
other are left out, as all of them then share one scope.
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

PAGE: Final = (*WIDGET, "standalone")
"""Parts of an exported page: the widget, and what answers it without a kernel."""

_SIBLINGS = re.compile(r'^import \{[^{}]*\} from "\.\.?/[\w/]+\.js";\n', re.MULTILINE)


def widget_script() -> str:
    """The ES module of the widget, whose default export anywidget calls."""
    return _joined(WIDGET)


def page_script() -> str:
    """The ES module of an exported page, which has `start` besides."""
    return _joined(PAGE)


def style() -> str:
    """The style sheet of both."""
    return (FOLDER / "player.css").read_text(encoding="utf-8")


def _joined(parts: tuple[str, ...]) -> str:
    texts = ((FOLDER / f"{part}.js").read_text(encoding="utf-8") for part in parts)
    return "\n".join(_SIBLINGS.sub("", text) for text in texts)
