"""Telemetry written into rows: frames as they come, JSON samples many at once.

Rows without any value are left out: of an instance that boots, or whose agent hangs, all values are not available in a
message. The store keeps the last values of such a row with the time at which they came, so that they turn stale.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trnfleet.domain.metrics import CHIP_METRICS, INSTANCE_METRICS, Scope
from trnfleet.errors import WireError
from trnfleet.monitor.ingest.rejects import MisplacedError, RejectedError
from trnfleet.wire.frame_head import is_cbor
from trnfleet.wire.frames import to_store_codes
from trnfleet.wire.ports import CONTENT_TYPE_CBOR
from trnfleet.wire.telemetry import decode_sample, decode_samples, split_codes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from trnfleet.monitor.ingest.frame_rows import Gaps
    from trnfleet.monitor.ingest.topic_state import TopicState
    from trnfleet.monitor.pipeline.counts import PipelineCounts
    from trnfleet.monitor.sources.contests import Contests
    from trnfleet.monitor.store.store import Store
    from trnfleet.wire.limits import Limits
    from trnfleet.wire.ports import Envelope
    from trnfleet.wire.telemetry import Head, Sample

_NOT_ITS_OWN = "identity in the payload is not the topic's"


_TOPS = {size: (1 << 8 * size) - 1 for size in (1, 2, 4, 8)}
"""The code that means not available, by a wire type's bytes."""


class ReportingRows(NamedTuple):
    """The rows of a message that have any value."""

    rows: slice | NDArray[np.int64]
    """Their rows in the store."""
    mask: NDArray[np.bool_] | None
    """Mask of them among the rows of the message; None for all."""

    def of(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return an array's rows that have any value."""
        return array if self.mask is None else array[self.mask]


def reporting_rows(
    columns: Mapping[str, NDArray[Any]], rows: slice | NDArray[np.int64]
) -> ReportingRows:
    """Return the rows of a message in which any value is available.

    Args:
        columns: Wire codes of a message, (rows,) or (rows, width) each; without columns every row reports.
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
        "_contests", "_counts", "_decoded", "_heard_since_s", "_limits", "_links_since_s", "_now_s", "_sampled", "_samples", "_store",
    )  # fmt: skip  # names, not lines

    def __init__(
        self,
        store: Store,
        counts: PipelineCounts,
        limits: Limits,
        now_s: float,
        contests: Contests,
        heard_since_s: float,
        links_since_s: tuple[float, ...] = (),
    ) -> None:
        """Begin a batch.

        Args:
            store: Its layout is the one that topics are bound to.
            counts: The counters.
            limits: Limits on messages.
            now_s: Monotonic seconds at which the messages came.
            contests: Gets the messages of two publishers on one path.
            heard_since_s: Monotonic seconds since which the sources have been heard without a break.
            links_since_s: The same of each connection, where there are several.
        """
        self._store = store
        self._counts = counts
        self._limits = limits
        self._now_s = now_s
        self._contests = contests
        self._heard_since_s, self._links_since_s = heard_since_s, links_since_s
        self._samples: dict[int, tuple[TopicState, Sample]] = {}
        """One of a row, by its topic's identity."""
        self._sampled: set[str] = set()
        """Paths of their descriptors, which may have frames as well."""
        self._decoded: dict[int, Sample | WireError] = {}
        """By their places in the batch."""

    def decode(self, batch: Sequence[Envelope], topics: Mapping[str, TopicState]) -> None:
        """Decode the JSON samples among the messages of a batch, whatever becomes of them."""
        samples = [
            number
            for number, envelope in enumerate(batch)
            if envelope.content_type != CONTENT_TYPE_CBOR
            and envelope.topic in topics
            and not envelope.retain
            and len(envelope.payload) <= self._limits.payload_bytes
            and not is_cbor(envelope)
        ]
        decoded = decode_samples([batch[number].payload for number in samples], self._limits)
        self._decoded = dict(zip(samples, decoded, strict=True))

    def take(self, topic: TopicState, envelope: Envelope, number: int) -> Head | None:
        """Write a message of a described topic, or keep it for `finish`; return its head unless it is not new.

        Args:
            topic: Its topic.
            envelope: The message.
            number: Its place in the batch.

        Raises:
            WireError: it is rejected.
        """
        payload = envelope.payload
        if envelope.retain:
            # It may have been retained for any length of time: it is no news.
            raise RejectedError("retained telemetry")
        if len(payload) > self._limits.payload_bytes:
            raise WireError(
                f"telemetry of {len(payload)} bytes is over the limit of {self._limits.payload_bytes}"
            )
        if is_cbor(envelope):
            return self._write_frame(topic, payload, envelope.shed)
        sample = self._decoded.get(number)
        if sample is None:
            # The first of its topic.
            sample = decode_sample(payload, self._limits)
        if isinstance(sample, WireError):
            raise sample
        if sample.path != topic.path or sample.is_chip != topic.is_chip:
            raise MisplacedError(_NOT_ITS_OWN)
        counts = self._counts
        if not self._is_newest(topic, sample.head, envelope.shed):
            return None
        if id(topic) in self._samples:
            # Each sample counts, whatever batch it comes in.
            self.finish()
        self._samples[id(topic)] = topic, sample
        if topic.descriptor is not None:
            self._sampled.add(topic.descriptor.path)
        counts.messages += 1
        return sample.head

    def finish(self) -> None:
        """Write the samples that were kept."""
        samples, self._samples = self._samples.values(), {}
        self._sampled.clear()
        store, now_s = self._store, self._now_s
        for is_chip, metrics in ((True, CHIP_METRICS), (False, INSTANCE_METRICS)):
            chosen = [each for each in samples if each[1].is_chip is is_chip]
            if not chosen:
                continue
            places = np.array(
                [_first(topic.chips if is_chip else topic.instances) for topic, _ in chosen]
            )
            codes = {
                metric.name: each
                for metric, each in split_codes([sample.codes for _, sample in chosen], metrics)
            }
            # Neighbours come one after the other, and a slice is written in less time than rows by number.
            is_run = int(places[-1] - places[0]) == len(places) - 1 and bool(
                (np.diff(places) == 1).all()
            )
            rows = slice(int(places[0]), int(places[-1]) + 1) if is_run else places
            reporting = reporting_rows(codes, rows)
            for name, each in codes.items():
                store.columns[name][reporting.rows] = reporting.of(each)
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
        descriptor, decoder = topic.descriptor, topic.decoder
        if descriptor is None or decoder is None:
            raise WireError("a frame for a single chip")
        frame = decoder.decode(payload, self._limits)
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
        store, now_s = self._store, self._now_s
        columns = store.columns
        chips, instances = (
            reporting_rows(frame.chip, topic.chips),
            reporting_rows(frame.instance, topic.instances),
        )
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

    def _is_newest(self, topic: TopicState, head: Head, shed: int) -> bool:
        counts, store = self._counts, self._store
        lost = counts.lost
        contested = counts.contested
        is_newest = topic.is_newest(head, counts, shed)
        if counts.contested > contested and topic.descriptor is not None:
            self._contests.note(
                topic.path, topic.former_client, topic.descriptor.publisher, self._now_s
            )
        if counts.lost > lost:
            seen_s = (
                store.chip_seen_s[_first(topic.chips)]
                if topic.is_chip
                else store.instance_seen_s[_first(topic.instances)]
            )
            instance = (
                store.layout.instance_of_chip[_first(topic.chips)]
                if topic.is_chip
                else _first(topic.instances)
            )
            if seen_s < self._since_s(int(instance)):
                counts.unheard += counts.lost - lost
        return is_newest

    def note_gaps(self, gaps: Gaps) -> None:
        """Count what is missing before frames that were applied many at once."""
        counts = self._counts
        counts.lost += int(gaps.lost.sum())
        counts.gaps += len(gaps.lost)
        since_s = (
            np.array([self._since_s(instance) for instance in gaps.instances.tolist()])
            if self._links_since_s
            else self._heard_since_s
        )
        counts.unheard += int(gaps.lost[gaps.seen_s < since_s].sum())

    def _since_s(self, instance: int) -> float:
        """Return since when an instance could be heard without a break, over any of its connections."""
        if not self._links_since_s:
            return self._heard_since_s
        links = int(self._store.links_of[instance])
        over = [each for number, each in enumerate(self._links_since_s) if links >> number & 1]
        return max(self._heard_since_s, min(over, default=-math.inf))


def _first(rows: slice | NDArray[np.int64]) -> int:
    return int(rows.start) if isinstance(rows, slice) else int(rows[0])
