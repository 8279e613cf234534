"""What the exit codes of the command line mean."""

from __future__ import annotations

from typing import Final

EXIT_COMPONENT: Final = 1
EXIT_CALLER: Final = 2
EXIT_INTERRUPTED: Final = 130  # 128 + SIGINT, as shells have it
EXIT_TERMINATED: Final = 143  # 128 + SIGTERM
