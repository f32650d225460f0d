"""A tape in memory with keyframes, and what a monitor knows in a form that can be compared."""

from __future__ import annotations

import bisect
import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from trnfleet.wire.ports import Keyframe, Stored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnfleet.monitor.monitor import Monitor
    from trnfleet.wire.ports import Envelope

STATE_CLASSES = {"node", "job", "reservation", "alert", "ack", "silence", "publisher"}


class KeyedTape:
    """The port `Tape` on a list; a keyframe stands before the first message of every `every_s` seconds."""

    def __init__(self, *, every_s: float = 10.0, root: str = "trnfleet") -> None:
        self.stored: list[Stored] = []
        self.keyframes: list[Keyframe] = []
        self._every_ns = round(every_s * 1e9)
        self._root = root
        self._state: dict[str, Stored] = {}
        self._values: dict[str, Stored] = {}
        self._due_ns = 0

    @property
    def start_ns(self) -> int:
        """Time of the first message."""
        return self.stored[0].time_ns

    @property
    def end_ns(self) -> int:
        """Time of the last message."""
        return self.stored[-1].time_ns

    def put(self, time_ns: int, envelopes: list[Envelope]) -> None:
        """Record what came at a time."""
        if self.stored and time_ns >= self._due_ns:
            state = [*self._state.values(), *self._values.values()]
            self.keyframes.append(Keyframe(self.stored[-1].time_ns, state, has_values=True))
            self._due_ns = time_ns + self._every_ns
        for envelope in envelopes:
            stored = Stored(time_ns, envelope)
            self.stored.append(stored)
            kind = envelope.topic.split("/")[self._root.count("/") + 3]
            if kind == "telemetry":
                self._values[envelope.topic] = stored
            elif kind in STATE_CLASSES:
                if envelope.payload:
                    self._state[envelope.topic] = stored
                else:
                    self._state.pop(envelope.topic, None)

    def cut(self, before_ns: int) -> None:
        """Forget what came before a time."""
        self.stored = [each for each in self.stored if each.time_ns >= before_ns]
        self.keyframes = [each for each in self.keyframes if each.time_ns >= before_ns]

    def keyframe(self, at_ns: int) -> Keyframe | None:
        """Return the newest keyframe at or before a moment."""
        place = bisect.bisect_right(self.keyframes, at_ns, key=lambda each: each.time_ns)
        return self.keyframes[place - 1] if place else None

    def read(self, after_ns: int, until_ns: int) -> Iterator[Stored]:
        """Yield the messages of a span."""
        begin = bisect.bisect_right(self.stored, after_ns, key=lambda each: each.time_ns)
        for number in range(begin, len(self.stored)):
            if self.stored[number].time_ns > until_ns:
                return
            yield self.stored[number]


def values_of(monitor: Monitor) -> dict[str, Any]:
    """Return what the store, jobs, publishers and reservations hold; columns as lists, ages in whole milliseconds."""
    store, now_s = monitor.store, monitor.clock.monotonic_s()

    def ages(seen_s: np.ndarray[Any, Any]) -> list[int | None]:
        return [None if np.isinf(each) else round((now_s - each) * 1000) for each in seen_s.tolist()]

    numbers = monitor.ingest.publishers.names()
    return {
        "instances": store.layout.instances,
        "columns": {name: column.tolist() for name, column in store.columns.items()},
        "chip_ages": ages(store.chip_seen_s),
        "instance_ages": ages(store.instance_seen_s),
        "chip_ts_ns": store.chip_ts_ns.tolist(),
        "chip_state": store.chip_state.tolist(),
        "period_s": store.period_s.tolist(),
        "publishers": [numbers.get(number) for number in store.publisher_of.tolist()],
        "jobs": {name: job.model_dump() for name, job in monitor.ingest.jobs.items()},
        "job_of": store.job_of.tolist(),
        "clients": monitor.ingest.publishers.clients(),
        "reservations": sorted(
            (each.message.model_dump_json(), each.rows, each.idle_per_h)
            for each in monitor.reservations.table()
        ),
    }


def rollups_of(monitor: Monitor) -> dict[str, Any]:
    """Return the fleet's figures that follow from the store."""
    summary = monitor.summary()
    names = (
        "chips", "live_chips", "stale_chips", "offline_chips", "jobs", "nc_util_pct", "mfu_pct", "power_w",
        "it_power_w", "tflops", "hbm_traffic_bytes_per_s", "link_tx_bytes_per_s", "temperature_c", "monitor_time",
    )  # fmt: skip  # a list of names
    return {name: getattr(summary, name) for name in names}


def alerts_of(monitor: Monitor) -> dict[str, Any]:
    """Return every alert with what views show of it, what happened, and what was counted."""
    alerts = monitor.alerts
    return {
        "active": [
            (
                each.name, each.target, each.state.value, each.since_ns, each.fired_ns, each.value, each.members,
                each.chips, each.place, each.text, each.cause, each.inhibited_by, each.is_silent, each.is_flapping,
            )
            for each in alerts.active()
        ],
        "history": [(each.at_ns, each.kind, each.alert.name, each.alert.target) for each in alerts.history],
        "counts": alerts.counts(),
        "pipeline": dataclasses.replace(monitor.counts),
        "events": [(each.ts_ns, each.name, each.path) for each in monitor.events.newest_first()],
    }  # fmt: skip  # a table
