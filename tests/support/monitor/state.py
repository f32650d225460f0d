"""A monitor's state in a comparable form."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec
import numpy as np

from trnfleet.domain.metrics import BY_NAME
from trnfleet.monitor.replay.packed_snapshot import PackedSnapshot
from trnfleet.wire.messages import encode_message

if TYPE_CHECKING:
    from trnfleet.monitor.monitor import Monitor
    from trnfleet.monitor.store.store import Store

T = TypeVar("T")


def unpacked(thing: T) -> T:
    """Return a part of a monitor as a restored monitor has it."""
    monitor: Any = SimpleNamespace(state=lambda: thing, revision=SimpleNamespace(events=0))
    part: Any = PackedSnapshot(monitor).unpack()
    return cast("T", part)


def values_of(monitor: Monitor) -> dict[str, Any]:
    """Return the store, jobs, publishers and reservations.

    Columns are lists, ages are whole milliseconds.
    """
    store, now_s = monitor.store, monitor.clock.monotonic_s()

    def ages(seen_s: np.ndarray[Any, Any]) -> list[int | None]:
        return [
            None if np.isinf(each) else round((now_s - each) * 1000) for each in seen_s.tolist()
        ]

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
        "jobs": {name: msgspec.structs.asdict(job) for name, job in monitor.ingest.jobs.items()},
        "job_of": store.job_of.tolist(),
        "clients": monitor.ingest.publishers.clients(),
        "reservations": sorted(
            (encode_message(each.message).decode(), each.rows, each.idle_per_h)
            for each in monitor.reservations.table()
        ),
    }


def rollups_of(monitor: Monitor) -> dict[str, Any]:
    """Return the fleet's figures derived from the store."""
    summary = monitor.summary()
    names = (
        "chips",
        "live_chips",
        "stale_chips",
        "offline_chips",
        "jobs",
        "nc_util_pct",
        "mfu_pct",
        "power_w",
        "it_power_w",
        "tflops",
        "hbm_traffic_bytes_per_s",
        "link_tx_bytes_per_s",
        "temperature_c",
        "monitor_time",
    )
    return {name: getattr(summary, name) for name in names}


def alerts_of(monitor: Monitor) -> dict[str, Any]:
    """Return every alert as shown in views, the news, and the counters."""
    alerts = monitor.alerts
    return {
        "active": [
            (
                each.name,
                each.target,
                each.state.value,
                each.since_ns,
                each.fired_ns,
                each.value,
                each.members,
                each.chips,
                each.place,
                each.text,
                each.cause,
                each.inhibited_by,
                each.is_silent,
                each.is_flapping,
            )
            for each in alerts.active()
        ],
        "history": [
            (each.at_ns, each.kind, each.alert.name, each.alert.target) for each in alerts.history
        ],
        "counts": alerts.counts(),
        "pipeline": dataclasses.replace(monitor.counts),
        "events": [(each.ts_ns, each.name, each.path) for each in monitor.events.newest_first()],
    }


def stored_difference(one: Store, other: Store) -> list[str]:
    """Return the metrics with differences between two stores.

    All if the layouts differ.
    """
    if one.layout.instances != other.layout.instances:
        return list(BY_NAME)
    return [
        name
        for name, column in one.columns.items()
        if not np.array_equal(column, other.columns[name])
    ]
