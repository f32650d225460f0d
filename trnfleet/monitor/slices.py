"""The slicing protocol: long work in the event loop, cut into slices between which other tasks run.

* Long work is a generator of type `Slices[T]`. It yields None after each slice of a few milliseconds and returns its result;
  a part of it is called with `result = yield from part()`. The caller at the top steps it and sleeps between two steps.
* While it waits at a yield, messages are applied: values change, and a new layout may replace the rows. Work on rows
  therefore notes `store.generation` when it begins and ends each slice with `yield from checkpoint(store, generation)`
  instead of a bare `yield`. It publishes its results all at once at the end, so that an abandoned run changes nothing.
* `LayoutChanged` abandons the work up to the stage of the pass that began it: row numbers that were computed before mean
  other instances now. It is not caught on the way; `failures.guarded` lets it through, and the monitor ends the stage.
  The next pass runs on the new layout.
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
"""What `next` returns at the end of work in slices."""

SLICE_BYTES = 1_500_000
SLICE_MESSAGES = 96
"""Messages that are applied in one slice, at first and at least: about a millisecond of work on samples of chips."""
MOST_SLICE_MESSAGES = 768
"""The same at most. Of frames that are applied together these take 2 ms, of which a part of half a millisecond does not depend on their number."""
SLICE_S = 0.0015
"""Work of a slice that is neither made longer nor shorter."""
WHOLE_MESSAGES, WHOLE_S = 256, 0.008
"""Messages of a batch, and work on them, up to which it is one slice where no other waits behind it: most of what a part costs does not depend
on its messages, and a key waits for one such slice at most."""
EACH_FROM = 32
"""Messages of a slice from which on it tells what each of them takes."""


REST_AFTER_S = 0.002
"""Work after which it rests for as long: a key takes a dozen turns of the loop until it is on the screen, and without rests a slice
would stand before each of them."""
SHORT_S = 0.008
"""Work before the first rest: of a pass over a small fleet that is all of it, and a key that comes meanwhile has its turns in less."""
TURN_AFTER_S = 0.001
"""Work after which the loop has a turn: of a small fleet most slices are a few microseconds, less than a turn itself takes."""
PASS_EVERY_S = (0.2, 1.0)
"""Shortest and longest time between the beginnings of two passes."""
EXPECTED_AFTER_S = 0.9
"""Time after a tick of sources that publish each second, or less often, before which no other one is looked for where nothing came during the pass."""
PASS_SHARE = 0.06
"""Share of time that passes may take; the next one waits accordingly."""
OVERLOADED_EVERY_S = (1.0, 2.0)
"""The same times while the monitor does not keep up, in which passes take half of that share; samples are taken for each second still."""
WHOLE_AFTER_S = 0.1
"""Time without a message after which a tick of the sources is taken to be whole."""
WHOLE_WITHIN_S = 0.3
"""Longest wait for a tick to be whole, and lateness of a tick that comes each second; assumed, for busy machines."""

GATHER_S = 0.05
"""Time in which messages gather between two batches: many in a batch cost much less than one by one."""
GATHER_FIRST_S, FEW = 0.01, 64
"""The same after the first telemetry that comes while none waits, as a tick begins to, where that is less than this number of messages."""
GATHER_BEHIND_S = 0.01
"""The same of a reader that is behind, for whom more waits already: the time that keys and painting have between two batches."""

LET_IN = 2
"""Slices whose messages are taken in at most between two slices of work. More would only be shed (measured)."""


class LayoutChanged(Exception):  # noqa: N818  an event that ends a computation, as StopIteration does
    """The store has another layout than the one that the work began with."""


class Generation(Protocol):
    """Anything whose rows are numbered by a layout: the store."""

    generation: int


class Revised(Protocol):
    """Anything whose values change: the store."""

    revision: int

    def has_heard_all(self, since_s: float) -> bool:
        """Return whether something has come since then of all that is live."""


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
    """Return the result of work that is done in one go, for tests and one-shot commands."""
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
        """Return the seconds to wait after a slice that took `slice_s`: as many as were worked since the last rest or beyond `SHORT_S`, or none yet.

        None where the loop need not have a turn yet, either.
        """
        self._turn_s += slice_s
        self._worked_s += max(0.0, slice_s - self._short_s)
        self._short_s = max(0.0, self._short_s - slice_s)
        if self._turn_s < TURN_AFTER_S:
            return None
        self._turn_s = 0.0
        if self._worked_s < REST_AFTER_S:
            return 0.0
        rest_s, self._worked_s = self._worked_s, 0.0
        return rest_s


class PassPacing:
    """When passes begin: after a tick of the sources, not amid its messages, since that pass is followed by another and both are painted.

    A tick is over when all that is live has been heard since the last pass and no message has come for `WHOLE_AFTER_S`. Ticks that come faster than each second are not waited for, and none for more than `WHOLE_WITHIN_S`. Without any messages there is
    a pass each second, too, by which alerts and charts go on; one that only is a little late has none before it.
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
        """Return the seconds until the next pass is thought of.

        Args:
            own_s: Work of the pass.
            begun_s: Monotonic seconds at its begin.
            ended_s: And at its end.
            store: What changes.
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
        self._done, self._done_s = store.revision, now_s
        return True


async def gathered(source: Source, topics: Container[str], clock: Clock) -> list[Envelope]:
    """Return what a source has next; of a tick whose first messages are here, with what comes in a moment after them.

    Args:
        source: Where messages come from.
        topics: Those of telemetry that is described: anything else may be what somebody waits for.
        clock: The clock.
    """
    is_idle = not source.status.waiting
    batch = await source.take()
    if is_idle and 0 < len(batch) < FEW and all(each.topic in topics for each in batch):
        await clock.sleep(GATHER_FIRST_S)
        if source.status.waiting:
            batch += await source.take()
    return batch


async def let_in(link: LinkStatus, slice_messages: int, clock: Clock) -> None:
    """Let the transport take in what has come, before more is applied: only what is here can be shed.

    The transport takes a few messages in a turn of the loop; without this a monitor that is behind would leave them to the
    broker's queue, where they grow old. It ends after those of `LET_IN` slices: a flood must not keep all from being applied.

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
    """The parts in which batches are applied: as many messages as take about `SLICE_S`, by what the last ones took.

    A slice that took long makes the next one shorter by half at most. What others on the machine take does not count: shorter slices cost more
    for each message, with which a monitor that is behind would stay behind.
    """

    def __init__(self) -> None:
        self.messages = SLICE_MESSAGES
        """Messages of the next slice, but for `SLICE_BYTES`."""
        self._each_s = SLICE_S / SLICE_MESSAGES
        """What a message took of the last slice of many."""

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
    """Return a batch in parts that take about a millisecond each to apply, whatever its messages are."""
    slicing, end = BatchSlicing(), 0
    parts: list[list[Envelope]] = []
    while end < len(batch):
        begin, end = end, slicing.end(batch, end)
        parts.append(batch[begin:end])
    return parts
