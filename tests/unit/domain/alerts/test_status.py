from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnfleet.domain.alerts.status import NEVER, NEXT_STATES, AlertState, Track

if TYPE_CHECKING:
    from numpy.typing import NDArray

S = 1_000_000_000
TARGETS = 6


@dataclass
class Plain:
    """One target, followed without columns."""

    state: AlertState = AlertState.INACTIVE
    since: int = 0
    fired: int | None = None
    clear: int | None = None
    silent: bool = False
    value: float = 0.0

    def step(self, now: int, look: Look, for_ns: int, keep_ns: int, *, holds_silent: bool) -> None:
        active = self.state is not AlertState.INACTIVE
        if active:
            self.since = min(self.since, now)
            self.fired = None if self.fired is None else min(self.fired, now)
            self.clear = None if self.clear is None else min(self.clear, now)
        if look.raised:
            if not active:
                self.state = AlertState.PENDING
                self.since = now
                self.fired = None
            self.clear, self.silent, self.value = None, False, look.value
        elif self.state is AlertState.PENDING:
            self.state = AlertState.INACTIVE
        elif active:
            self._without(now, look, keep_ns, holds_silent=holds_silent)
        if self.state is AlertState.PENDING and now - self.since >= for_ns:
            self.state = AlertState.FIRING
            self.fired = now

    def _without(self, now: int, look: Look, keep_ns: int, *, holds_silent: bool) -> None:
        self.silent = not look.known
        if look.known and look.held:
            # What is over keeps the value that was wrong.
            self.clear, self.value = None, look.value
        elif look.known or not holds_silent:
            self.clear = now if self.clear is None else self.clear
            if now - self.clear >= keep_ns:
                self.state = AlertState.INACTIVE


@dataclass(frozen=True)
class Look:
    """A target's condition at an instant."""

    raised: bool
    known: bool
    held: bool
    value: float


looks = st.builds(Look, st.booleans(), st.booleans(), st.booleans(), st.floats(-5, 5))
instants = st.lists(
    st.tuples(st.integers(-3, 6), st.lists(looks, min_size=TARGETS, max_size=TARGETS)),
    min_size=1,
    max_size=40,
)


def step(
    track: Track,
    now: int,
    seen: list[Look],
    for_ns: int,
    keep_ns: int,
    *,
    holds_silent: bool = True,
    waits_silent: bool = False,
) -> None:
    """Advance to an instant, with all targets known."""

    def look(
        rows: NDArray[np.int64],
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.float64]]:
        chosen = [seen[row] for row in rows.tolist()]
        known = np.array([each.known for each in chosen], np.bool_)
        held = np.array([each.known and each.held for each in chosen], np.bool_)
        return known, held, np.array([each.value if each.known else np.nan for each in chosen])

    raised = [row for row, each in enumerate(seen) if each.raised]
    track.step(
        now,
        np.array(raised, np.int64),
        np.array([seen[row].value for row in raised]),
        look,
        for_ns=for_ns,
        keep_ns=keep_ns,
        holds_silent=holds_silent,
        waits_silent=waits_silent,
    )


@given(instants, st.integers(0, 8), st.integers(0, 8), st.booleans())
def test_a_track_is_as_each_target_alone(
    played: list[tuple[int, list[Look]]], for_s: int, keep_s: int, holds_silent: bool
) -> None:
    """Columns agree with a plain state machine per target, also if time goes back."""
    track = Track()
    plain = [Plain() for _ in range(TARGETS)]
    now = 100
    for passed, seen in played:
        now += passed
        step(track, now, seen, for_s, keep_s, holds_silent=holds_silent)
        for target, look in zip(plain, seen, strict=True):
            before = target.state
            target.step(now, look, for_s, keep_s, holds_silent=holds_silent)
            assert (
                target.state is before
                or target.state in NEXT_STATES[before]
                or before is AlertState.FIRING
            )

        active = [row for row, each in enumerate(plain) if each.state is not AlertState.INACTIVE]
        assert track.rows.tolist() == active
        for place, row in enumerate(active):
            each = plain[row]
            assert AlertState(int(track.states[place])) is each.state
            assert track.since_ns[place] == each.since
            assert track.fired_ns[place] == (NEVER if each.fired is None else each.fired)
            assert track.clear_ns[place] == (NEVER if each.clear is None else each.clear)
            assert bool(track.silent[place]) == each.silent
            assert track.values[place] == each.value


def one(*, raised: bool, known: bool = True, held: bool = False) -> list[Look]:
    return [Look(raised, known, held, 1.0)]


UP, DOWN = one(raised=True), one(raised=False)
GONE, BETWEEN = one(raised=False, known=False), one(raised=False, held=True)


def state(track: Track) -> AlertState:
    return AlertState(int(track.states[0])) if len(track) else AlertState.INACTIVE


@pytest.mark.parametrize(
    ("for_ns", "keep_ns", "course"),
    [
        pytest.param(
            10 * S,
            0,
            [(0, UP, "PENDING"), (10 * S - 1, UP, "PENDING"), (10 * S, UP, "FIRING")],
            id="it fires when `for` is over, not a tick earlier",
        ),
        pytest.param(
            0,
            10 * S,
            [
                (0, UP, "FIRING"),
                (5 * S, DOWN, "FIRING"),
                (15 * S - 1, DOWN, "FIRING"),
                (15 * S, DOWN, "INACTIVE"),
            ],
            id="it ends after good values for `keep_firing_for`, not a tick earlier",
        ),
        pytest.param(0, 0, [(0, UP, "FIRING"), (1, DOWN, "INACTIVE")], id="zero is zero"),
        pytest.param(
            0,
            10,
            [
                (0, UP, "FIRING"),
                (5, DOWN, "FIRING"),
                (12, BETWEEN, "FIRING"),
                (20, DOWN, "FIRING"),
                (29, DOWN, "FIRING"),
                (30, DOWN, "INACTIVE"),
            ],
            id="a value between limit and `clear` starts no end",
        ),
        pytest.param(
            10,
            0,
            [(0, UP, "PENDING"), (5, BETWEEN, "INACTIVE")],
            id="a pending target does not profit from such a value",
        ),
        pytest.param(
            10,
            0,
            [(0, UP, "PENDING"), (5, GONE, "INACTIVE")],
            id="a pending target that falls silent is forgotten: it was never reported",
        ),
    ],
)
def test_the_course_of_a_target(
    for_ns: int, keep_ns: int, course: list[tuple[int, list[Look], str]]
) -> None:
    track = Track()
    for now, look, expected in course:
        step(track, now, look, for_ns, keep_ns)
        assert state(track) is AlertState[expected]


@pytest.mark.parametrize(("holds", "expected"), [(True, "FIRING"), (False, "INACTIVE")])
def test_silence_holds_or_resolves(*, holds: bool, expected: str) -> None:
    """A target without values stays firing or resolves.

    The end of a quiet time waits for news.
    """
    track = Track()
    step(track, 0, UP, 0, 10, holds_silent=holds)
    step(track, 1, DOWN, 0, 10, holds_silent=holds)
    step(track, 20, GONE, 0, 10, holds_silent=holds)
    assert state(track) is AlertState[expected]
    step(track, 30, DOWN, 0, 10, holds_silent=holds)
    assert state(track) is AlertState.INACTIVE


def test_a_pending_target_of_which_nothing_can_be_known_waits() -> None:
    """Unknown times do not count, the others add up.

    A target known to be over is forgotten.
    """
    track = Track()
    for begin in (0, 20, 40):
        for now in (begin, begin + 2, begin + 4):
            step(track, now, UP, 10, 0, waits_silent=True)
        assert state(track) is (AlertState.FIRING if begin == 40 else AlertState.PENDING)
        if begin < 40:
            step(track, begin + 10, GONE, 10, 0, waits_silent=True)
            step(track, begin + 19, GONE, 10, 0, waits_silent=True)
            assert state(track) is AlertState.PENDING

    over = Track()
    step(over, 0, UP, 10, 0, waits_silent=True)
    step(over, 5, DOWN, 10, 0, waits_silent=True)
    assert state(over) is AlertState.INACTIVE


def test_a_time_in_which_nobody_watched_is_left_out() -> None:
    """Pending and resolving targets have the same time left; firing ones their old start."""
    pending = Track()
    ending = Track()
    step(pending, 0, UP, 10, 0)
    step(ending, 0, UP, 0, 10)
    step(ending, 2, DOWN, 0, 10)
    for track in (pending, ending):
        track.shift(1_000)

    step(pending, 1_009, UP, 10, 0)
    step(ending, 1_011, DOWN, 0, 10)
    assert (state(pending), state(ending)) == (AlertState.PENDING, AlertState.FIRING)
    assert ending.fired_ns.tolist() == [0]
    step(pending, 1_010, UP, 10, 0)
    step(ending, 1_012, DOWN, 0, 10)
    assert (state(pending), state(ending)) == (AlertState.FIRING, AlertState.INACTIVE)


def test_targets_move_with_a_new_layout() -> None:
    """Targets retain their state under new numbers, in order; missing ones are forgotten."""
    track = Track()
    seen = [
        Look(raised, True, False, float(row))
        for row, raised in enumerate([True, False, True, True])
    ]
    step(track, 7, seen, 0, 0)

    track.move(np.array([9, -1, 4]))

    assert track.rows.tolist() == [4, 9]
    assert track.values.tolist() == [3.0, 0.0]
    assert track.fired_ns.tolist() == [7, 7]


def test_a_remembered_target_fires_since_then() -> None:
    """A restored new or pending target fires from the recorded instant on."""
    track = Track()
    step(track, 50, [Look(True, True, False, 1.0) for _ in range(2)], 100, 0)

    track.restore(5, 10, 20, 3.0)
    track.restore(1, 11, 21, 4.0)

    assert track.rows.tolist() == [0, 1, 5]
    assert track.firing.tolist() == [False, True, True]
    assert track.since_ns.tolist() == [50, 11, 10]
    assert track.fired_ns.tolist() == [NEVER, 21, 20]
    step(track, 60, [Look(True, True, False, 1.0)] * 6, 100, 0)
    assert track.firing.tolist() == [False, True, False, False, False, True]
