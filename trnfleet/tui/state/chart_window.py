"""The span of charts, remembered while the app runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.domain.quantities import duration

if TYPE_CHECKING:
    from collections.abc import Callable

WINDOWS_S = (60, 300, 900, 3_600, 21_600, None)
"""Spans to choose from in wall seconds; None for the whole history."""
LONG_WINDOWS_S = (*WINDOWS_S[:-1], 86_400, 7 * 86_400, 30 * 86_400, None)
"""The same with a folder of history."""
_USUAL = 1
LEAST_ALL_S = WINDOWS_S[0]
MOST_ALL_S = 86_400
"""Seconds that history keeps at most."""


class ChartWindow:
    """The span that charts show."""

    def __init__(self) -> None:
        self._place = _USUAL
        self.kept_s: list[Callable[[], int]] = []
        """Each returns how many seconds back a folder of history reaches; none without one."""

    @property
    def spans_s(self) -> tuple[int | None, ...]:
        """The spans to choose from."""
        return LONG_WINDOWS_S if self.kept_s else WINDOWS_S

    @property
    def place(self) -> int:
        """Number of the chosen span."""
        return self._place

    def step(self, by: int) -> None:
        """Choose a longer span, or a shorter one if `by` is negative.

        Stops at the longest and the shortest.
        """
        self._place = min(len(self.spans_s) - 1, max(0, self._place + by))

    def span_s(self, end_s: int) -> int:
        """Return the span in wall seconds.

        Args:
            end_s: Seconds from the first sample to the chart's end: the most the samples can cover.
        """
        chosen = self.spans_s[self._place]
        if chosen is not None:
            return chosen
        own_s = min(MOST_ALL_S, max(LEAST_ALL_S, end_s))
        return max([own_s, *(reach() for reach in self.kept_s)])

    def reach_back(self, seconds: float) -> None:
        """Widen the span to cover some seconds, or to the longest."""
        places = [
            number
            for number, span_s in enumerate(self.spans_s)
            if span_s is not None and span_s >= seconds
        ]
        self._place = max(self._place, min(places, default=len(self.spans_s) - 1))

    def title(self, end_s: int) -> str:
        """Return the span in words, such as `5 min` or `all: 2 h 10 min`."""
        span_s = self.span_s(end_s)
        for size_s, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
            if span_s == 86_400 and unit == "d":
                continue
            if self.spans_s[self._place] is not None and not span_s % size_s:
                return f"{span_s // size_s} {unit}"
        return f"all: {duration(span_s)}"
