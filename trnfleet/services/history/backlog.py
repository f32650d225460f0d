"""Minutes of backlog: telemetry of an outage, sent late.

Its minutes are mostly written already. Its rows are further rows of them, which readers add up.
They have no increases: the counters' growth during an outage is in the minute after it.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from trnfleet.domain.address import Level, level_of, parent
from trnfleet.domain.durations import MINUTE_NS
from trnfleet.domain.layout import Layout
from trnfleet.domain.metrics import CHIP_METRICS, Scope
from trnfleet.domain.minutes import MINUTE_COLUMNS, MinuteRows, Part, joined
from trnfleet.errors import WireError
from trnfleet.monitor.minutes.minutes import SILENT_S, UNKNOWN, CounterValues, MinuteSums
from trnfleet.wire.frame_head import is_cbor
from trnfleet.wire.frames import is_above, is_known, limited, to_store_codes
from trnfleet.wire.telemetry import Head, decode_sample, split_codes
from trnfleet.wire.topics import TopicClass, build_topic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from trnfleet.monitor.ingest.topic_state import TopicState
    from trnfleet.monitor.monitor import Monitor
    from trnfleet.monitor.sources.descriptors import CompactDescriptor
    from trnfleet.wire.ports import Envelope

MOST_HOSTS = 2_048
"""Most hosts with an open minute, 20 KB each. Beyond it the oldest minute is closed."""
MOST_ROWS_BYTES = 32 * 2**20
"""Most memory of closed minutes; then they are returned at once."""
MOST_AGE_MINUTES = 1_440
"""Oldest backlog used. Each minute is a file: a publisher could write any number of them."""


@dataclass(slots=True)
class _OpenMinute:
    """A host with its open minute."""

    layout: Layout
    columns: dict[str, NDArray[Any]]
    """The newest values of its chips."""
    counters: CounterValues
    minute: int = 0
    sums: MinuteSums | None = None
    touched_s: float = 0.0
    came: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Boot and sequence number of the newest message of each topic."""


class BacklogMinutes:
    """The backlog of one fleet, by hosts and minutes."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self._hosts: OrderedDict[str, _OpenMinute] = OrderedDict()
        """By path; the longest silent first."""
        self._closed: list[MinuteRows] = []
        self._bytes = 0
        self._since_s = 0.0
        """Monotonic seconds of the first closed minute."""
        self.messages = 0
        """Messages used."""
        self.unused = 0
        """Messages not used: invalid, not described, or too old."""
        self.repeated = 0
        """Messages that had come before, live or as backlog."""

    def add(self, batch: list[tuple[str, Envelope]]) -> None:
        """Add messages with their paths, in order."""
        monitor = self._monitor
        now_s = monitor.clock.monotonic_s()
        newest = monitor.moment().time_ns // MINUTE_NS
        for path, envelope in batch:
            try:
                is_new = self._add(path, envelope, now_s, newest)
            except WireError:
                self.unused += 1
            else:
                self.messages += is_new
                self.repeated += not is_new

    def _add(self, path: str, envelope: Envelope, now_s: float, newest: int) -> bool:
        """Add a message; return whether it had not come before.

        Raises:
            WireError: it cannot be used.
        """
        ingest = self._monitor.ingest
        is_chip = level_of(path) is Level.CHIP
        host_path = parent(path) if is_chip else path
        live = build_topic(self._monitor.fleet_name, TopicClass.TELEMETRY, path, self._monitor.root)
        state = ingest.topics.states.get(live)
        descriptor = ingest.descriptors.get(host_path)
        if state is None or descriptor is None or descriptor.instances != (host_path,):
            raise WireError("backlog without a descriptor and live telemetry")
        head, codes, rows = _decode(path, envelope, state, descriptor, is_chip=is_chip)
        if not newest - MOST_AGE_MINUTES <= head.ts_ns // MINUTE_NS <= newest:
            raise WireError("backlog of the future, or too old")
        host = self._host(host_path, descriptor.types[0])
        if not _is_new(host, state, path, head):
            return False
        if head.boot == descriptor.boot:
            state.leave_frame_rows()
            state.tracker.mend(head.seq, ingest.counts)
        if codes:
            self._put(host, head.ts_ns // MINUTE_NS, codes, rows, descriptor, now_s)
        return True

    def _host(self, path: str, kind: str) -> _OpenMinute:
        host = self._hosts.get(path)
        if host is not None and host.layout.type_of(0).name == kind:
            self._hosts.move_to_end(path)
            return host
        self._close(path)
        while len(self._hosts) >= MOST_HOSTS:
            self._close(next(iter(self._hosts)))
        layout = Layout.of([(path, kind)])
        chips = layout.chips
        host = self._hosts[path] = _OpenMinute(
            layout, {metric.name: metric.blank(chips) for metric in CHIP_METRICS},
            CounterValues(chips),
        )  # fmt: skip
        return host

    def _put(
        self,
        host: _OpenMinute,
        minute: int,
        codes: Mapping[str, NDArray[Any]],
        rows: slice,
        descriptor: CompactDescriptor,
        now_s: float,
    ) -> None:
        if host.sums is None or minute != host.minute:
            self._give_out(host)
            host.minute = minute
            host.sums = MinuteSums(host.layout)
            host.sums.tick_s[:] = descriptor.period_s * descriptor.clock.speed
        host.touched_s = now_s
        for metric in CHIP_METRICS:
            host.columns[metric.name][rows] = codes.get(metric.name, metric.top)
        host.sums.add(host, rows, {})
        host.counters.put(host, rows)

    def _close(self, path: str) -> None:
        host = self._hosts.pop(path, None)
        if host is not None:
            self._give_out(host)

    def _give_out(self, host: _OpenMinute) -> None:
        sums = host.sums
        if sums is None:
            return
        host.sums = None
        numbers = np.flatnonzero(sums.count)
        figures = sums.columns(numbers, host.counters)
        for column in MINUTE_COLUMNS:
            if column.part is Part.INCREASE:
                figures[column.name] = np.full(len(numbers), UNKNOWN, np.uint64)
        rows = MinuteRows(
            host.minute,
            host.layout.instances,
            np.zeros(len(numbers), np.int32),
            numbers.astype(np.int16),
            sums.covered_s(numbers),
            (),
            np.full(len(numbers), -1, np.int32),
            figures,
            int(sums.count.sum()),
        )
        if not self._closed:
            self._since_s = host.touched_s
        self._closed.append(rows)
        self._bytes += rows.nbytes

    def close(self, *, at_end: bool = False) -> list[MinuteRows]:
        """Return the minutes that are over, oldest first: now and then, for each is a file.

        Args:
            at_end: Whether no more will come.
        """
        now_s = self._monitor.clock.monotonic_s()
        while self._hosts:
            path, oldest = next(iter(self._hosts.items()))
            if not at_end and now_s - oldest.touched_s < SILENT_S:
                break
            self._close(path)
        if not self._closed or not (
            at_end or now_s - self._since_s >= SILENT_S or self._bytes >= MOST_ROWS_BYTES
        ):
            return []
        closed = sorted(self._closed, key=_minute_of)
        self._closed = []
        self._bytes = 0
        return [joined([*group]) for _, group in itertools.groupby(closed, key=_minute_of)]


def _minute_of(rows: MinuteRows) -> int:
    return rows.minute


def _is_new(host: _OpenMinute, state: TopicState, path: str, head: Head) -> bool:
    """Return whether a message has not been received before, live or as backlog."""
    boot, seq = host.came.get(path, ("", -1))
    described = state.descriptor
    is_new = (boot != head.boot or head.seq > seq) and not (
        described is not None and described.boot == head.boot and state.tracker.has(head.seq)
    )
    if is_new:
        host.came[path] = head.boot, head.seq
    return is_new


def _decode(
    path: str,
    envelope: Envelope,
    state: TopicState,
    descriptor: CompactDescriptor,
    *,
    is_chip: bool,
) -> tuple[Head, dict[str, NDArray[Any]], slice]:
    """Return a message's head, its chips' codes and their rows.

    No codes for an instance's own metrics.

    Raises:
        WireError: it is invalid, or not what its descriptor announces.
    """
    if not is_cbor(envelope):
        sample = decode_sample(envelope.payload)
        if sample.path != path or sample.is_chip != is_chip:
            raise WireError("identity in the payload is not the topic's")
        if not is_chip:
            return sample.head, {}, slice(0)
        number = int(path.rpartition("/chip")[2])
        codes = {metric.name: column for metric, column in split_codes([sample])}
        return sample.head, codes, slice(number, number + 1)
    if state.decoder is None:
        raise WireError("a frame for a single chip")
    frame = state.decoder.decode(envelope.payload)
    if frame.path != path:
        raise WireError("identity in the payload is not the topic's")
    columns = [
        column for column in descriptor.columns if is_known(column) and column.per is Scope.CHIP
    ]
    most = dict(limited(columns))
    codes = {}
    for column in columns:
        raw = frame.chip[column.name]
        if column in most and is_above(raw, most[column]):
            raw = np.where(raw > most[column], np.iinfo(raw.dtype).max, raw)
        codes[column.name] = to_store_codes(column, raw)
    return frame.head, codes, slice(0, state.chip_count)
