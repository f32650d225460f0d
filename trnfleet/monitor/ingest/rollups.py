"""Roll-ups of relays: frames for the store's rows known from roll-ups only."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trnfleet.monitor.ingest.sequence import SequenceTracker, Verdict
from trnfleet.monitor.sources.clocks import LATE_FROM_S
from trnfleet.wire.rollups import decode_rollup, decode_rollup_head
from trnfleet.wire.topics import TopicClass

if TYPE_CHECKING:
    from trnfleet.monitor.ingest.missing import MissingState
    from trnfleet.monitor.pipeline.counts import PipelineCounts
    from trnfleet.monitor.sources.clocks import Timebase
    from trnfleet.monitor.sources.descriptors import Descriptors
    from trnfleet.monitor.sources.publishers import Publishers
    from trnfleet.monitor.store.store import Store
    from trnfleet.wire.limits import Limits
    from trnfleet.wire.ports import Envelope


class _Sequence:
    """The sequence of a block's frames through one boot of its relay."""

    def __init__(self, boot: str) -> None:
        self.boot = boot
        self.former_boot = ""
        self.tracker = SequenceTracker()


class RollupFrames:
    """Applies the frames of all described blocks."""

    def __init__(
        self,
        descriptors: Descriptors,
        publishers: Publishers,
        timebase: Timebase,
        missing: MissingState,
        limits: Limits,
    ) -> None:
        self._descriptors = descriptors
        self._publishers = publishers
        self._timebase = timebase
        self._missing = missing
        self._limits = limits
        self._sequences: dict[str, _Sequence] = {}
        self._dated: tuple[object, float] = None, math.nan
        """Clock, source time and arrival of the frame before, and its lag."""

    def keep(self) -> None:
        """Forget the sequences of blocks no longer described."""
        self._sequences = {
            path: sequence
            for path, sequence in self._sequences.items()
            if self._descriptors.get(path) is not None
        }

    def take(
        self,
        path: str,
        envelope: Envelope,
        store: Store,
        counts: PipelineCounts,
        now_s: float,
        wall_ns: int,
    ) -> float | None:
        """Apply a frame and return its lag in wall seconds.

        None if not applied or late.

        Raises:
            WireError: it is not a frame, or contradicts its descriptor.
        """
        fields, head, revision = decode_rollup_head(envelope.payload, self._limits)
        descriptor = self._descriptors.get(path)
        form = None if descriptor is None else descriptor.rollup
        sequence = self._sequences.get(path)
        if (
            descriptor is None
            or form is None
            or (head.boot, revision) != (form.boot, form.revision)
        ):
            if sequence is not None and head.boot == sequence.former_boot:
                # The last frames of a relay from which another has taken over.
                counts.late += 1
                return None
            counts.undescribed += 1
            self._missing.hear(TopicClass.NODE, path)
            return None
        frame = decode_rollup(fields, head, form)
        if sequence is None or sequence.boot != head.boot:
            former = "" if sequence is None else sequence.boot
            sequence = self._sequences[path] = _Sequence(head.boot)
            sequence.former_boot = former
        traffic = self._publishers.traffic
        row = traffic.row_of(descriptor.publisher)
        lost = counts.lost
        late = counts.late
        duplicates = counts.duplicates
        verdict = sequence.tracker.accept(head.seq, counts, envelope.shed, ts_ns=head.ts_ns)
        traffic.miss(row, counts.lost - lost, counts.late - late, counts.duplicates - duplicates)
        if verdict is not Verdict.NEWEST:
            return None
        store.rolled.put(path, frame, descriptor.instances, (*form.totals, *form.counters), now_s)
        counts.messages += 1
        counts.chips += int(form.chips.sum())
        clock = self._timebase.clock(descriptor.clock, descriptor.period_s)
        # All frames of a relay's second have one time: from the second frame on, a simultaneous one
        # has no information about the clock.
        moment = (clock, head.ts_ns, now_s, wall_ns)
        if moment != self._dated[0]:
            self._dated = moment, clock.take(head.ts_ns, now_s, wall_ns)
        lag_s = self._dated[1]
        traffic.describe(row, descriptor.period_s, descriptor.boot)
        is_old = clock.late_s > LATE_FROM_S
        if is_old:
            counts.old += 1
            traffic.delay(row)
        known = (math.nan, math.nan) if is_old else (lag_s, clock.behind_s)
        traffic.take([row], [len(envelope.payload)], [known[0]], [known[1]], now_s)
        return None if is_old else lag_s
