"""A playback moved by hand.

It stores requests; only the test changes its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.clock import NS_PER_S
from trnfleet.errors import TrnfleetError
from trnfleet.monitor.fleet_state import LiveOrPast
from trnfleet.monitor.replay.controls import RATES, Mode

if TYPE_CHECKING:
    from collections.abc import Container
    from pathlib import Path

    from trnfleet.monitor.monitor import Monitor
    from trnfleet.monitor.replay.marks import Mark

START_NS = 1_767_571_200_000_000_000
"""2026-01-05T00:00:00Z."""


class FakePlayback:
    """A `Playback` of 600 s of a recording; every request is in `wishes`."""

    def __init__(self, monitor: Monitor, *, is_file: bool = False) -> None:
        self.state = LiveOrPast(monitor)
        self.live = None if is_file else monitor
        self.mode = Mode.PLAYING if is_file else Mode.LIVE
        self.rate = self.reached_rate = 1.0
        self.loops = False
        self.start_ns = START_NS
        self.end_ns = START_NS + 600 * NS_PER_S
        self.position_ns = self.start_ns if is_file else self.end_ns
        self.surveyed_ns = self.end_ns
        self.marks: list[Mark] = []
        self.seeking = False
        self.note = ""
        self.revision = 0
        self.is_recording = not is_file
        self.recording_problem = ""
        self.one_in = 1
        self.wishes: list[tuple[object, ...]] = []
        self.moments: dict[int, int] = {}
        """Places by the fleet's time."""
        self.refuses = ""
        """Why nothing is saved."""

    @property
    def shows_past(self) -> bool:
        return self.mode is not Mode.LIVE

    @property
    def is_live_possible(self) -> bool:
        return self.live is not None

    @property
    def window_s(self) -> float:
        return (self.end_ns - self.start_ns) / NS_PER_S

    def show(self, monitor: Monitor, position_ns: int, mode: Mode = Mode.PLAYING) -> None:
        """Show another monitor, as a playback does on arrival."""
        self.position_ns = position_ns
        self.mode = mode
        self.state.at = monitor
        self.revision += 1

    def _wish(self, *wish: object) -> None:
        self.wishes.append(wish)
        self.revision += 1

    def play(self) -> None:
        self._wish("play")
        self.mode = Mode.PLAYING

    def pause(self) -> None:
        self._wish("pause")
        self.mode = Mode.PAUSED

    def toggle(self) -> None:
        self._wish("toggle")
        self.mode = Mode.PLAYING if self.mode is Mode.PAUSED else Mode.PAUSED

    def faster(self) -> None:
        self._wish("faster")
        self.rate = next((rate for rate in RATES if rate > self.rate), self.rate)

    def slower(self) -> None:
        self._wish("slower")
        self.rate = next((rate for rate in reversed(RATES) if rate < self.rate), self.rate)

    def toggle_loop(self) -> None:
        self._wish("loop")
        self.loops = not self.loops

    def step(self, seconds: float) -> None:
        self._wish("step", seconds)
        self._to(self.position_ns + round(seconds * NS_PER_S))

    def seek(self, time_ns: int) -> None:
        self._wish("seek", time_ns)
        self._to(time_ns)

    def _to(self, time_ns: int) -> None:
        self.note = "start of history: nothing earlier" if time_ns < self.start_ns else ""
        self.position_ns = min(max(time_ns, self.start_ns), self.end_ns)
        if self.mode is Mode.LIVE:
            self.mode = Mode.PLAYING

    def go_live_or_end(self) -> None:
        self._wish("end")
        self.position_ns = self.end_ns
        if self.live is not None:
            self.mode, self.state.at = Mode.LIVE, self.live

    def go_start(self) -> None:
        self._wish("start")
        self._to(self.start_ns)

    def next_mark(self, kinds: Container[str], direction: int) -> bool:
        names = tuple(kind for kind in ("alert", "resolved", "event") if kind in kinds)
        self._wish("mark", names, direction)
        return bool(self.marks)

    def moment_of(self, fleet_ns: int) -> int | None:
        return self.moments.get(fleet_ns)

    async def save(self, path: Path) -> int:
        self._wish("save", str(path))
        if self.refuses:
            raise TrnfleetError(self.refuses)
        return 12
