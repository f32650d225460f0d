"""From telemetry to rows: frames are written as they come, JSON samples many at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trnfleet.domain.metrics import CHIP_METRICS, INSTANCE_METRICS, Scope
from trnfleet.errors import WireError
from trnfleet.monitor.ingest.rejects import MisplacedError, RejectedError
from trnfleet.monitor.ingest.silence import speaking
from trnfleet.wire.frame_head import is_cbor
from trnfleet.wire.frames import to_store_codes
from trnfleet.wire.telemetry import decode_sample, split_codes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.monitor.ingest.sequence import Pipeline
    from trnfleet.monitor.ingest.topics import TopicState
    from trnfleet.monitor.store.store import Store
    from trnfleet.wire.limits import Limits
    from trnfleet.wire.ports import Envelope
    from trnfleet.wire.telemetry import Head, Sample

_NOT_ITS_OWN = "identity in the payload is not the topic's"


class TelemetryBatch:
    """Writes the telemetry of one batch into a store."""

    __slots__ = ("_counts", "_limits", "_now_s", "_samples", "_store")

    def __init__(self, store: Store, counts: Pipeline, limits: Limits, now_s: float) -> None:
        """Begin a batch.

        Args:
            store: Where values go, in whose layout topics are bound.
            counts: Gets what was applied, and what was not.
            limits: What may come.
            now_s: Monotonic seconds, which freshness goes by.
        """
        self._store = store
        self._counts = counts
        self._limits = limits
        self._now_s = now_s
        self._samples: dict[int, tuple[TopicState, Sample]] = {}
        """One of a row, by its topic's identity."""

    def take(self, topic: TopicState, envelope: Envelope) -> Head | None:
        """Write a message of a described topic, or keep it for `finish`; return its head unless nothing new is in it.

        Raises:
            WireError: it is refused.
        """
        payload = envelope.payload
        if envelope.retain:
            # Whoever kept it, nobody knows for how long: it is no news.
            raise RejectedError("retained telemetry")
        if len(payload) > self._limits.payload_bytes:
            raise WireError(
                f"telemetry of {len(payload)} bytes is over the limit of {self._limits.payload_bytes}"
            )
        if is_cbor(envelope):
            return self._write_frame(topic, payload)
        sample = decode_sample(payload, self._limits)
        if sample.path != topic.path or sample.is_chip != topic.is_chip:
            raise MisplacedError(_NOT_ITS_OWN)
        counts = self._counts
        if not topic.is_newest(sample.head, counts):
            return None
        if id(topic) in self._samples:
            # Each is news of its own, whatever batch it comes in.
            self.finish()
        self._samples[id(topic)] = topic, sample
        counts.messages += 1
        return sample.head

    def finish(self) -> None:
        """Write the samples that were kept."""
        samples, self._samples = self._samples.values(), {}
        store, now_s = self._store, self._now_s
        for is_chip, metrics in ((True, CHIP_METRICS), (False, INSTANCE_METRICS)):
            chosen = [each for each in samples if each[1].is_chip is is_chip]
            if not chosen:
                continue
            places = np.array([_first(topic.chips if is_chip else topic.instances) for topic, _ in chosen])
            codes = {
                metric.name: each
                for metric, each in split_codes([sample.codes for _, sample in chosen], metrics)
            }
            told = speaking(codes, places)
            for name, each in codes.items():
                store.columns[name][told.rows] = told.of(each)
            if is_chip:
                store.chip_seen_s[told.rows] = now_s
                store.chip_ts_ns[told.rows] = told.of(
                    np.array([sample.head.ts_ns for _, sample in chosen], np.int64)
                )
                store.publisher_of[store.layout.instance_of_chip[places]] = [
                    topic.publisher for topic, _ in chosen
                ]
                self._counts.chips += len(chosen) if told.mask is None else int(told.mask.sum())
            else:
                store.instance_seen_s[told.rows] = now_s

    def _write_frame(self, topic: TopicState, payload: bytes) -> Head | None:
        descriptor, decoder = topic.descriptor, topic.decoder
        if descriptor is None or decoder is None:
            raise WireError("a frame for a single chip")
        frame = decoder.decode(payload, self._limits)
        if frame.path != topic.path:
            raise MisplacedError(_NOT_ITS_OWN)
        counts = self._counts
        if not topic.is_newest(frame.head, counts):
            return None
        if frame.revision != descriptor.revision:
            counts.undescribed += 1
            return None
        store, now_s = self._store, self._now_s
        columns = store.columns
        chips, instances = speaking(frame.chip, topic.chips), speaking(frame.instance, topic.instances)
        for name in topic.same_chip:
            columns[name][chips.rows] = chips.of(frame.chip[name])
        for name in topic.same_instance:
            columns[name][instances.rows] = instances.of(frame.instance[name])
        for column in topic.foreign:
            rows, values = (chips, frame.chip) if column.per is Scope.CHIP else (instances, frame.instance)
            columns[column.name][rows.rows] = rows.of(to_store_codes(column, values[column.name]))
        store.chip_seen_s[chips.rows] = now_s
        store.chip_ts_ns[chips.rows] = frame.head.ts_ns
        store.instance_seen_s[instances.rows] = now_s
        store.publisher_of[topic.instances] = topic.publisher
        counts.messages += 1
        counts.chips += topic.chip_count if chips.mask is None else int(chips.mask.sum())
        return frame.head


def _first(rows: slice | NDArray[np.int64]) -> int:
    return int(rows.start) if isinstance(rows, slice) else int(rows[0])
