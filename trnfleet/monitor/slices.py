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

import itertools
import math
from collections.abc import Generator
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Sequence

    from trnfleet.clock import Clock
    from trnfleet.wire.ports import Envelope, LinkStatus, Source

T = TypeVar("T")

Slices: TypeAlias = Generator[None, None, T]
"""Work in slices that returns a `T`."""
DONE: Final = object()
"""Return value of `next` at the end of work in slices."""

SLICE_BYTES = 1_500_000
SLICE_MESSAGES = 96
"""Fewest and first number of messages in a slice. About a millisecond of work on samples of chips.
"""
MOST_SLICE_MESSAGES = 768
"""Most messages in a slice. Frames applied together take 2 ms for it, half a millisecond of it
whatever their number."""
SLICE_S = 0.0015
"""Target duration of a slice."""
WHOLE_MESSAGES = 256
WHOLE_S = 0.008
"""Most messages, and work, of a batch to be applied in one slice.

Only if no other batch waits. Most of a slice's cost does not depend on its messages, and a key
waits for one such slice at most.
"""
EACH_FROM = 32
"""Fewest messages of a slice for its cost per message to count."""


REST_AFTER_S = 0.002
"""Work before an equally long rest. A key needs a dozen turns of the loop to reach the screen, and
without rests a slice would precede each of them."""
SHORT_S = 0.008
"""Work before the first rest. A pass over a small fleet is shorter, and a key meanwhile has its
turns in less."""
TURN_AFTER_S = 0.001
"""Work before a turn of the loop. Most slices of a small fleet are a few microseconds, less than a
turn."""
PASS_EVERY_S = (0.2, 1.0)
"""Shortest and longest time between the beginnings of two passes."""
EXPECTED_AFTER_S = 0.9
"""Seconds after a tick before the next one is expected.

Applies if nothing arrived during the pass, for sources that publish each second or less often.
"""
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

GATHER_S = 0.05
"""Seconds to gather messages between two batches. Many in a batch cost much less than one by one.
"""
GATHER_FIRST_S = 0.01
FEW = 64
"""`GATHER_S` at the start of a tick, for batches of fewer messages than this.

A tick starts with the first telemetry while none waits.
"""
GATHER_BEHIND_S = 0.01
"""`GATHER_S` for a reader with more messages waiting. Time for keys and painting between two
batches."""

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


class Rests:
    """How long work waits after each of its slices."""

    def __init__(self) -> None:
        self._worked_s = 0.0
        self._turn_s = 0.0
        self._short_s = SHORT_S
        """Work that is left before the first rest."""

    def after(self, slice_s: float) -> float | None:
        """Return the seconds to wait after a slice of `slice_s` seconds.

        As many as worked since the last rest or beyond `SHORT_S`, or 0 if no rest is due. None if
        the loop need not have a turn yet, either.
        """
        self._turn_s += slice_s
        self._worked_s += max(0.0, slice_s - self._short_s)
        self._short_s = max(0.0, self._short_s - slice_s)
        if self._turn_s < TURN_AFTER_S:
            return None
        self._turn_s = 0.0
        if self._worked_s < REST_AFTER_S:
            return 0.0
        rest_s = self._worked_s
        self._worked_s = 0.0
        return rest_s


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
        self._period_s = 0.0
        """Publishing period of the usual source."""
        self._done = -1
        self._done_s = -math.inf

    def waits(self, now_s: Callable[[], float], store: Revised, period_s: float) -> Iterator[float]:
        """Yield the seconds to wait before a pass, one wait after the other.

        Args:
            now_s: The monotonic clock.
            store: What changes.
            period_s: Publishing period of the usual source.
        """
        self._period_s, until_s = period_s, now_s() + WHOLE_WITHIN_S
        while store.revision != self._done and period_s >= PASS_EVERY_S[1]:
            at_s = now_s()
            rest_s = min(self.applied_s + WHOLE_AFTER_S, until_s) - at_s
            if rest_s <= 0 and at_s < until_s and not store.has_heard_all(self._done_s):
                rest_s = min(WHOLE_AFTER_S / 2, until_s - at_s)
            if rest_s <= 0:
                return
            yield rest_s

    def pause_s(
        self, own_s: float, begun_s: float, ended_s: float, store: Revised, *, is_overloaded: bool
    ) -> float:
        """Return the seconds until the next pass may be considered.

        Args:
            own_s: Work of the pass.
            begun_s: Monotonic seconds at its beginning.
            ended_s: Monotonic seconds at its end.
            store: The store.
            is_overloaded: Whether messages need the time more than passes do.
        """
        shortest, longest = OVERLOADED_EVERY_S if is_overloaded else PASS_EVERY_S
        if store.revision == self._done and self._period_s >= PASS_EVERY_S[1]:
            shortest = max(shortest, self.applied_s + EXPECTED_AFTER_S - begun_s)
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


async def gathered(source: Source, topics: Container[str], clock: Clock) -> list[Envelope]:
    """Return the next messages of a source.

    At the start of a tick, wait a moment for more of its messages.

    Args:
        source: Source of the messages.
        topics: Topics of described telemetry: somebody may be waiting for anything else.
        clock: The clock.
    """
    is_idle = not source.status.waiting
    batch = await source.take()
    if is_idle and 0 < len(batch) < FEW and all(message.topic in topics for message in batch):
        await clock.sleep(GATHER_FIRST_S)
        if source.status.waiting:
            batch += await source.take()
    return batch


async def let_in(link: LinkStatus, slice_messages: int, clock: Clock) -> None:
    """Let the transport receive waiting messages before more are applied.

    Only received messages can be shed. The transport receives a few messages in a turn of the loop;
    without this a monitor that is behind would leave them to age in the broker's queue. It ends
    after the messages of `LET_IN` slices: a flood must not block all application.

    Args:
        link: Where they come in.
        slice_messages: Messages of a slice.
        clock: The clock.
    """
    first = link.received
    while link.received - first < LET_IN * slice_messages:
        received = link.received
        await clock.sleep(0)
        if link.received == received:
            return


class BatchSlicing:
    """Slices of batches: as many messages as take about `SLICE_S`, judged by the last ones.

    A slow slice makes the next one shorter by half at most. Time used by other processes does not
    count: shorter slices cost more per message, and a monitor that is behind would stay behind.
    """

    def __init__(self) -> None:
        self.messages = SLICE_MESSAGES
        """Messages of the next slice, but for `SLICE_BYTES`."""
        self._each_s = SLICE_S / SLICE_MESSAGES
        """Seconds per message in the last slice of many."""

    def end(self, batch: Sequence[Envelope], begin: int, *, is_alone: bool = False) -> int:
        """Return where the slice ends that begins at a place of a batch.

        Args:
            batch: The messages.
            begin: The place.
            is_alone: Whether nothing waits behind the batch.
        """
        is_whole = is_alone and len(batch) <= min(WHOLE_MESSAGES, WHOLE_S / self._each_s)
        part = batch[begin : begin + max(self.messages, WHOLE_MESSAGES if is_whole else 0)]
        sizes = [len(envelope.payload) for envelope in part]
        if sum(sizes) < SLICE_BYTES:
            return begin + len(part)
        reached = (
            n for n, size in enumerate(itertools.accumulate(sizes), 1) if size >= SLICE_BYTES
        )
        return begin + next(reached)

    def note(self, count: int, took_s: float) -> None:
        """Note the processor time that a slice took."""
        if count >= EACH_FROM and took_s > 0:
            self._each_s = took_s / count
        if took_s > SLICE_S:
            self.messages = max(SLICE_MESSAGES, self.messages // 2, int(count * SLICE_S / took_s))
        elif count == self.messages:
            by_time = count * SLICE_S / took_s if took_s > 0 else math.inf
            self.messages = int(min(MOST_SLICE_MESSAGES, 2 * count, by_time))


def batch_slices(batch: list[Envelope]) -> list[list[Envelope]]:
    """Return a batch in slices of about a millisecond each, for any messages."""
    slicing = BatchSlicing()
    end = 0
    parts: list[list[Envelope]] = []
    while end < len(batch):
        begin = end
        end = slicing.end(batch, end)
        parts.append(batch[begin:end])
    return parts
