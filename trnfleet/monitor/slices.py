"""Slicing protocol: long work in the event loop in slices, with other tasks in between.

* Long work is a generator of type `Slices[T]`. It yields None after each slice of a few
  milliseconds and returns its result. A part is called with `result = yield from part()`. The top
  caller steps it and sleeps between two steps.
* While it waits at a yield, messages are applied: values change, and a new layout may replace the
  rows. So work on rows notes `store.generation` when it begins and ends each slice with
  `yield from checkpoint(store, generation)` instead of a bare `yield`. It publishes its results all
  at once at the end: an abandoned run changes nothing.
* `LayoutChanged` abandons the work up to the stage of the pass that began it: earlier row numbers
  mean other instances now. It is not caught on the way: `failures.guarded` passes it on, and the
  monitor ends the stage. The next pass runs on the new layout.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from trnfleet.clock import Clock
    from trnfleet.wire.ports import Envelope, LinkStatus

T = TypeVar("T")

Slices: TypeAlias = Generator[None, None, T]
"""Work in slices that returns a `T`."""
DONE: Final = object()
"""Return value of `next` at the end of work in slices."""

SLICE = 256
"""Most messages, topics, descriptors or alerts handled one by one in a slice. Two to three
milliseconds of work on samples of chips."""
ROWS_A_SLICE = 250_000
"""Rows of columns handled in one slice: a few milliseconds."""
SLICE_BYTES = 1_500_000
"""Size at which a slice of fewer messages ends."""
REST_AFTER_S = 0.002
"""Work before an equally long rest. A key needs a dozen turns of the loop to reach the screen, and
without rests a slice would precede each of them."""
PASS_EVERY_S = (0.2, 1.0)
"""Shortest and longest time between the beginnings of two passes."""
PASS_SHARE = 0.06
"""Largest share of time for passes. The next one waits accordingly."""
OVERLOADED_EVERY_S = (1.0, 2.0)
"""`PASS_EVERY_S` while the monitor is behind. Passes then use half of `PASS_SHARE`; samples are
still recorded for each second."""
WHOLE_AFTER_S = 0.1
"""Seconds without a message before a tick counts as complete."""
WHOLE_WITHIN_S = 0.3
"""Longest wait for a complete tick, and lateness of a tick each second. Assumed, for busy machines.
"""

GATHER_S = 0.03
"""Seconds to gather messages between two batches. Many in a batch cost much less than one by one.
"""
LET_IN = 2
"""Most slices of messages received between two slices of work. More would only be shed (measured).
"""


class LayoutChanged(Exception):  # noqa: N818  an event that ends a computation, as StopIteration does
    """The store has a newer layout than the work began with."""


class Generation(Protocol):
    """Anything with rows numbered by a layout, such as the store."""

    generation: int


class Revised(Protocol):
    """Anything with changing values, such as the store."""

    revision: int

    def has_heard_all(self, since_s: float) -> bool:
        """Return whether all live rows have had messages since then."""


def require(laid: Generation, generation: int) -> None:
    """Raise unless the layout is the one that the work began with.

    Raises:
        LayoutChanged: it is another one.
    """
    if laid.generation != generation:
        raise LayoutChanged


def checkpoint(laid: Generation, generation: int) -> Slices[None]:
    """End a slice of work on rows.

    Raises:
        LayoutChanged: the layout was replaced while other tasks ran.
    """
    yield
    require(laid, generation)


def finish(work: Slices[T]) -> T:
    """Return the result of work run in one go, for tests and one-shot commands."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result


class PassPacing:
    """Start times of passes: after a tick, not amid its messages.

    A pass amid a tick would be followed by another, and both would be painted. A tick is over when
    everything live has been heard since the last pass and no message has arrived for
    `WHOLE_AFTER_S`. Ticks faster than one a second are not awaited, and none for more than
    `WHOLE_WITHIN_S`. Without any messages there is still a pass each second, for alerts and charts;
    a tick that is only a little late has none before it.
    """

    def __init__(self) -> None:
        self.applied_s = -math.inf
        """Monotonic seconds at which messages were applied last."""
        self._done = -1
        self._done_s = -math.inf

    def waits(self, now_s: Callable[[], float], store: Revised, period_s: float) -> Iterator[float]:
        """Yield the seconds to wait before a pass, one wait after the other.

        Args:
            now_s: The monotonic clock.
            store: What changes.
            period_s: Publishing period of the usual source.
        """
        until_s = now_s() + WHOLE_WITHIN_S
        while store.revision != self._done and period_s >= PASS_EVERY_S[1]:
            at_s = now_s()
            rest_s = min(self.applied_s + WHOLE_AFTER_S, until_s) - at_s
            if rest_s <= 0 and at_s < until_s and not store.has_heard_all(self._done_s):
                rest_s = min(WHOLE_AFTER_S / 2, until_s - at_s)
            if rest_s <= 0:
                return
            yield rest_s

    @staticmethod
    def pause_s(own_s: float, begun_s: float, ended_s: float, *, is_overloaded: bool) -> float:
        """Return the seconds until the next pass may be considered.

        Args:
            own_s: Work of the pass.
            begun_s: Monotonic seconds at its beginning.
            ended_s: Monotonic seconds at its end.
            is_overloaded: Whether messages need the time more than passes do.
        """
        shortest, longest = OVERLOADED_EVERY_S if is_overloaded else PASS_EVERY_S
        share = PASS_SHARE / 2 if is_overloaded else PASS_SHARE
        return min(longest, max(shortest, own_s / share)) - (ended_s - begun_s)

    def is_due(self, now_s: float, store: Revised) -> bool:
        """Return whether a pass begins now, and note it."""
        longest_s = PASS_EVERY_S[1]
        is_late = (
            now_s - self._done_s >= longest_s
            and now_s - self.applied_s >= longest_s + WHOLE_WITHIN_S
        )
        if store.revision == self._done and not is_late:
            return False
        self._done = store.revision
        self._done_s = now_s
        return True


async def let_in(link: LinkStatus, clock: Clock) -> None:
    """Let the transport receive waiting messages before more are applied.

    Only received messages can be shed. The transport receives a few messages in a turn of the loop;
    without this a monitor that is behind would leave them to age in the broker's queue. It ends
    after the messages of `LET_IN` slices: a flood must not block all application.

    Args:
        link: Where they come in.
        clock: The clock.
    """
    first = link.received
    while link.received - first < LET_IN * SLICE:
        received = link.received
        await clock.sleep(0)
        if link.received == received:
            return


def batch_slices(batch: Iterable[Envelope]) -> Iterator[list[Envelope]]:
    """Yield a batch in slices."""
    part: list[Envelope] = []
    size = 0
    for envelope in batch:
        part.append(envelope)
        size += len(envelope.payload)
        if len(part) == SLICE or size >= SLICE_BYTES:
            yield part
            part = []
            size = 0
    if part:
        yield part
