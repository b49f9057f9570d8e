"""A progress bar and a histogram in characters."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Sequence

_WIDTH = 40
_PARTS = " ▏▎▍▌▋▊▉"


def bar(share: float, width: int = _WIDTH) -> str:
    """A bar of `share` (0 to 1) of the width, to an eighth of a character."""
    eighths = round(min(1.0, max(0.0, share)) * width * 8)
    return ("█" * (eighths // 8) + _PARTS[eighths % 8]).rstrip()


def histogram(values: Sequence[float]) -> str:
    """How often positive values fall into ranges, each half a doubling wide: lines of range, count and bar."""
    if not values:
        return "no values"
    # Two ranges for each doubling: enough to see a tail and few enough for a screen.
    rows = Counter(math.floor(2 * math.log2(max(value, 1e-9))) for value in values)
    most = max(rows.values())
    lines: list[str] = []
    for row in range(min(rows), max(rows) + 1):
        count = rows.get(row, 0)
        low, high = 2 ** (row / 2), 2 ** ((row + 1) / 2)
        lines.append(f"{low:9.1f} to {high:9.1f} {count:8}  {bar(count / most)}".rstrip())
    return "\n".join(lines)


class Progress:
    """A bar on standard error while work goes on; nothing where that is no terminal."""

    def __init__(self, title: str, total: int):
        self._title = title
        self._total = total
        self._done = 0
        self._shown = -1
        self._draws = sys.stderr.isatty()

    def step(self) -> None:
        """One of the total is done."""
        self._done += 1
        percent = 100 * self._done // self._total
        if self._draws and percent != self._shown:
            self._shown = percent
            print(
                f"\r{bar(percent / 100):{_WIDTH}} {percent:3}% {self._title}\x1b[K", end="", file=sys.stderr, flush=True
            )

    def end(self) -> None:
        """Takes the bar away."""
        if self._draws:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
