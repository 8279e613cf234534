"""``python -m benchmarks.gate``: fails unless the player reaches a third of its bars.

Run by itself and not among the tests: what shares the machine with it would be measured.
"""

from __future__ import annotations

import sys

from benchmarks import player


def main() -> int:
    rows = list(player.rows(part=1 / 3))
    for row in rows:
        print("  ".join(row.cells()))
    return int(not rows or not all(row.passed for row in rows))


if __name__ == "__main__":
    sys.exit(main())
