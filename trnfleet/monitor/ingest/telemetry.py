"""Telemetry written into rows: frames on arrival, JSON samples in bulk.

Rows without any value are left out: a booting instance, or one with a hanging agent, has no values
in a message. The store preserves the last values of such a row with their arrival time, so they
become stale.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trnfleet.domain.metrics import BY_NAME, Scope
from trnfleet.errors import WireError
from trnfleet.monitor.ingest.rejects import MisplacedError, RejectedError
from trnfleet.monitor.ingest.topics import covering_path
from trnfleet.wire.frame_head import is_cbor
from trnfleet.wire.frames import Frame, FrameColumnsError, is_above, to_store_codes
from trnfleet.wire.telemetry import Doubt, Head, Sample, decode_sample, reason_above, split_codes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from trnfleet.monitor.ingest.frame_rows import Gaps
    from trnfleet.monitor.ingest.topic_state import TopicState
    from trnfleet.monitor.pipeline.counts import PipelineCounts
    from trnfleet.monitor.pipeline.doubts import TelemetryDoubts
    from trnfleet.monitor.sources.contests import Contests
    from trnfleet.monitor.store.store import Store
    from trnfleet.wire.limits import Limits
    from trnfleet.wire.messages import ColumnSpec
    from trnfleet.wire.ports import Envelope

_NOT_ITS_OWN = "identity in the payload is not the topic's"


_TOPS = {size: (1 << 8 * size) - 1 for size in (1, 2, 4, 8)}
"""The code for "not available", by the wire type's bytes."""


class ReportingRows(NamedTuple):
    """The rows of a message with any value."""

    rows: slice | NDArray[np.int64]
    """Their rows in the store."""
    mask: NDArray[np.bool_] | None
    """Their mask among the rows of the message; None for all."""

    def of(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return an array's rows that have any value."""
        return array if self.mask is None else array[self.mask]


def reporting_rows(
    columns: Mapping[str, NDArray[Any]], rows: slice | NDArray[np.int64]
) -> ReportingRows:
    """Return the rows of a message with any available value.

    Args:
        columns: Wire codes of a message, (rows,) or (rows, width) each; without columns every row
            reports.
        rows: The message's rows in the store.
    """
    silent: NDArray[np.bool_] | None = None
    for codes in columns.values():
        missing = codes == _TOPS[codes.dtype.itemsize]
        # As a rule the first column has all its values.
        if not missing.any():
            return ReportingRows(rows, None)
        if missing.ndim > 1:
            missing = missing.all(axis=1)
        silent = missing if silent is None else silent & missing
        if not silent.any():
            return ReportingRows(rows, None)
    if silent is None:
        return ReportingRows(rows, None)
    reports = ~silent
    return ReportingRows(
        np.arange(rows.start, rows.stop)[reports] if isinstance(rows, slice) else rows[reports],
        reports,
    )


class TelemetryBatch:
    """Writes the telemetry of one batch into a store."""

    __slots__ = (
        "_backlogs",
        "_contests",
        "_counts",
        "_doubts",
        "_heard_since_s",
        "_limits",
        "_links_since_s",
        "_now_s",
        "_sampled",
        "_samples",
        "_store",
    )

    def __init__(
        self,
        store: Store,
        counts: PipelineCounts,
        limits: Limits,
        now_s: float,
        contests: Contests,
        doubts: TelemetryDoubts,
        heard_since_s: float,
        backlogs: Mapping[int, range],
        links_since_s: tuple[float, ...] = (),
    ) -> None:
        """Start a batch.

        Args:
            store: The store. Topics are bound to its layout.
            counts: The counters.
            limits: Limits on messages.
            now_s: Monotonic seconds of the messages' arrival.
            contests: Receives the messages of two publishers on one path.
            doubts: Receives unusable values and names.
            heard_since_s: Monotonic seconds since the sources have been heard without a break.
            backlogs: Sequence numbers that come as backlog, by the number of the boot.
            links_since_s: `heard_since_s` per connection, if there are several.
        """
        self._store = store
        self._counts = counts
        self._limits = limits
        self._now_s = now_s
        self._contests = contests
        self._doubts = doubts
        self._heard_since_s = heard_since_s
        self._backlogs = backlogs
        self._links_since_s = links_since_s
        self._samples: dict[int, tuple[TopicState, Sample]] = {}
        """One of a row, by its topic's identity."""
        self._sampled: set[str] = set()
        """Descriptor paths of these samples. They may have frames as well."""

    def take(self, topic: TopicState, envelope: Envelope) -> Head | None:
        """Write a message of a described topic, or store it for `finish`.

        Return its head, or None if it is not new.

        Args:
            topic: Its topic.
            envelope: The message.

        Raises:
            WireError: it is rejected.
        """
        payload = envelope.payload
        if envelope.retain:
            # It may have been retained for any length of time: it is no news.
            raise RejectedError("retained telemetry")
        if len(payload) > self._limits.payload_bytes:
            raise WireError(
                f"telemetry of {len(payload)} bytes is over the limit of"
                f" {self._limits.payload_bytes}"
            )
        if is_cbor(envelope):
            return self._write_frame(topic, payload, envelope.shed)
        sample = decode_sample(payload, self._limits)
        if sample.path != topic.path or sample.is_chip != topic.is_chip:
            raise MisplacedError(_NOT_ITS_OWN)
        counts = self._counts
        if not self._is_newest(topic, sample.head, envelope.shed):
            return None
        for doubt in sample.doubts:
            self._note(topic, doubt)
        if id(topic) in self._samples:
            # Each sample counts, whatever batch it comes in.
            self.finish()
        self._samples[id(topic)] = topic, sample
        if topic.descriptor is not None:
            self._sampled.add(topic.descriptor.path)
        counts.messages += 1
        return sample.head

    def finish(self) -> None:
        """Write the stored samples."""
        samples = self._samples.values()
        self._samples = {}
        self._sampled.clear()
        store = self._store
        now_s = self._now_s
        for is_chip in (True, False):
            chosen = [pair for pair in samples if pair[1].is_chip is is_chip]
            if not chosen:
                continue
            places = np.array(
                [_first(topic.chips if is_chip else topic.instances) for topic, _ in chosen]
            )
            codes = {
                metric.name: column
                for metric, column in split_codes([sample for _, sample in chosen])
            }
            # Neighbours come one after the other, and a slice is written in less time than rows by
            # number.
            is_run = int(places[-1] - places[0]) == len(places) - 1 and bool(
                (np.diff(places) == 1).all()
            )
            rows = slice(int(places[0]), int(places[-1]) + 1) if is_run else places
            reporting = reporting_rows(codes, rows)
            for name, values in codes.items():
                store.columns[name][reporting.rows] = reporting.of(values)
            if is_chip:
                store.chip_seen_s[reporting.rows] = now_s
                store.chip_ts_ns[reporting.rows] = reporting.of(
                    np.array([sample.head.ts_ns for _, sample in chosen], np.int64)
                )
                store.publisher_of[store.layout.instance_of_chip[places]] = [
                    topic.publisher for topic, _ in chosen
                ]
                self._counts.chips += (
                    len(chosen) if reporting.mask is None else int(reporting.mask.sum())
                )
            else:
                store.instance_seen_s[reporting.rows] = now_s

    def _write_frame(self, topic: TopicState, payload: bytes, shed: int) -> Head | None:
        descriptor = topic.descriptor
        decoder = topic.decoder
        if descriptor is None or decoder is None:
            raise WireError("a frame for a single chip")
        try:
            frame = decoder.decode(payload, self._limits)
        except FrameColumnsError as error:
            form = (error.head.boot, error.revision)
            if error.path != topic.path or form == (descriptor.boot, descriptor.revision):
                raise
            # Another publisher of the host may have other metrics, as may another revision.
            if self._is_newest(topic, error.head, shed):
                self._counts.undescribed += 1
            return None
        if frame.path != topic.path:
            raise MisplacedError(_NOT_ITS_OWN)
        counts = self._counts
        if not self._is_newest(topic, frame.head, shed):
            return None
        if frame.revision != descriptor.revision:
            counts.undescribed += 1
            return None
        if self._sampled and descriptor.path in self._sampled:
            # What came before it is written before it.
            self.finish()
        for column, most in topic.limited:
            self._clear_impossible(topic, column, most, frame)
        store = self._store
        now_s = self._now_s
        columns = store.columns
        chips = reporting_rows(frame.chip, topic.chips)
        instances = reporting_rows(frame.instance, topic.instances)
        for name in topic.same_chip:
            columns[name][chips.rows] = chips.of(frame.chip[name])
        for name in topic.same_instance:
            columns[name][instances.rows] = instances.of(frame.instance[name])
        for column in topic.foreign:
            rows, values = (
                (chips, frame.chip) if column.per is Scope.CHIP else (instances, frame.instance)
            )
            columns[column.name][rows.rows] = rows.of(to_store_codes(column, values[column.name]))
        store.chip_seen_s[chips.rows] = now_s
        store.chip_ts_ns[chips.rows] = frame.head.ts_ns
        store.instance_seen_s[instances.rows] = now_s
        store.publisher_of[topic.instances] = topic.publisher
        counts.messages += 1
        counts.chips += topic.chip_count if chips.mask is None else int(chips.mask.sum())
        return frame.head

    def _clear_impossible(
        self, topic: TopicState, column: ColumnSpec, most: int, frame: Frame
    ) -> None:
        """Mark codes above the metric's limit as not available, and count them."""
        values = frame.chip if column.per is Scope.CHIP else frame.instance
        codes = values[column.name]
        if not is_above(codes, most):
            return
        top = np.iinfo(codes.dtype).max
        impossible = (codes > most) & (codes != top)
        reason = reason_above(BY_NAME[column.name], float(codes[impossible].max()) * column.scale)
        self._note(topic, Doubt(column.name, reason, column.per is Scope.CHIP))
        values[column.name] = np.where(impossible, codes.dtype.type(top), codes)

    def _note(self, topic: TopicState, doubt: Doubt) -> None:
        publisher = "" if topic.descriptor is None else topic.descriptor.publisher
        self._doubts.note(publisher, topic.path, doubt, self._now_s, self._counts)

    def _is_newest(self, topic: TopicState, head: Head, shed: int) -> bool:
        counts = self._counts
        store = self._store
        lost = counts.lost
        foreign = counts.contested + counts.undescribed
        is_newest = topic.is_newest(head, counts, shed)
        if topic.descriptor is not None and counts.contested + counts.undescribed > foreign:
            self._note_foreign(topic, head)
        missing = counts.lost - lost
        if missing > 0 and topic.publisher in self._backlogs:
            missing = self._without_backlog(missing, head.seq, topic.publisher)
            counts.lost = lost + missing
            counts.gaps -= not missing
        if missing > 0:
            instance = (
                store.layout.instance_of_chip[_first(topic.chips)]
                if topic.is_chip
                else _first(topic.instances)
            )
            if self._seen_s(topic) < self._since_s(int(instance)):
                counts.unheard += missing
        return is_newest

    def _without_backlog(self, missing: int, seq: int, publisher: int) -> int:
        """Return how many ticks missing before a message are lost.

        The others come as backlog, which monitors do not receive.
        """
        waiting = self._backlogs.get(publisher, range(0))
        late = max(0, min(waiting.stop, seq) - max(waiting.start, seq - missing))
        self._counts.backlog += late
        return missing - late

    def _note_foreign(self, topic: TopicState, head: Head) -> None:
        """Note a message of a boot not described.

        It was counted before.
        """
        described = topic.descriptor
        counts = self._counts
        if described is None or head.boot == described.boot:
            return
        contested = self._contests.note(
            covering_path(topic.path),
            head.boot,
            described.publisher,
            self._now_s,
            self._seen_s(topic),
        )
        if contested and head.boot != topic.former_boot:
            counts.undescribed -= 1
            counts.contested += 1

    def _seen_s(self, topic: TopicState) -> float:
        """Return when the described publisher of a topic was heard last."""
        store = self._store
        if topic.is_chip:
            return float(store.chip_seen_s[_first(topic.chips)])
        return float(store.instance_seen_s[_first(topic.instances)])

    def note_gaps(self, gaps: Gaps) -> NDArray[np.int64]:
        """Count the messages missing before frames applied in bulk, and return the lost ones."""
        counts = self._counts
        lost = gaps.lost
        if self._backlogs:
            columns = (lost.tolist(), gaps.seq.tolist(), gaps.publishers.tolist())
            lost = np.array([*map(self._without_backlog, *columns)], np.int64)
        counts.lost += int(lost.sum())
        counts.gaps += int(np.count_nonzero(lost))
        since_s = (
            np.array([self._since_s(instance) for instance in gaps.instances.tolist()])
            if self._links_since_s
            else self._heard_since_s
        )
        counts.unheard += int(lost[gaps.seen_s < since_s].sum())
        return lost

    def _since_s(self, instance: int) -> float:
        """Return since when an instance has been audible, over any of its connections."""
        if not self._links_since_s:
            return self._heard_since_s
        links = int(self._store.links_of[instance])
        over = [
            since_s for number, since_s in enumerate(self._links_since_s) if links >> number & 1
        ]
        return max(self._heard_since_s, min(over, default=-math.inf))


def _first(rows: slice | NDArray[np.int64]) -> int:
    return int(rows.start) if isinstance(rows, slice) else int(rows[0])
