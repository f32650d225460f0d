"""The pipeline of a fleet as `trnfleet status` prints it: JSON values, and lines with what to do."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from trnfleet.domain.quantities import counted, duration, with_unit
from trnfleet.domain.severity import Severity
from trnfleet.monitor.pipeline.publishers import State
from trnfleet.text import plain
from trnfleet.wire.ports import RECORDING

if TYPE_CHECKING:
    from trnfleet.monitor.pipeline.brokers import BrokerHealth
    from trnfleet.monitor.pipeline.health import PipelineHealth
    from trnfleet.monitor.pipeline.publishers import PublisherTable

MOST_PUBLISHERS = 1_000
"""Publishers in the list of --json, those with trouble first; `publishers` counts all."""
LONGEST = 400
_ELSEWHERE = frozenset({"not-described", "retained-withheld"})
"""Problems that have a line of their own among the fleet's."""
# Columns of a publisher that are printed, under their names.
_COUNTS = (
    "paths",
    "chips",
    "messages",
    "size_bytes",
    "lost",
    "late",
    "duplicates",
    "old",
    "refused",
    "restarts",
)
_FIGURES = (
    "for_s",
    "quiet_s",
    "messages_per_s",
    "bytes_per_s",
    "lag_max_s",
    "skew_s",
    "skew_to_median_s",
)


def pipeline_facts(health: PipelineHealth) -> dict[str, Any]:
    """Return the pipeline as JSON values; what is not known is null."""
    publishers, counts = health.publishers, dataclasses.asdict(health.counts)
    return {
        "messages_per_s": health.messages_per_s,
        "bytes_per_s": health.bytes_per_s,
        "lag_s": health.lag_s,
        "clock_skew_s": health.clock_skew_s,
        "own_clock_skew_s": publishers.own_skew_s,
        "late_s": health.late_s,
        "unheard_s": health.outage_s,
        "overloaded_s": health.overloaded_s,
        "counts": {name: value for name, value in counts.items() if isinstance(value, int)},
        "pending": health.pending,
        "recent": health.recent._asdict(),
        "publishers": {
            "all": len(publishers),
            **{each.word: publishers.count(each) for each in State},
        },
        "publisher_list": [publisher_facts(publishers, row) for row in worst_first(publishers)],
        "of_no_publisher": {
            "messages": publishers.messages_of_none,
            "lost": publishers.lost_of_none,
            "refused": publishers.refused_of_none,
        },
        "brokers": [{**dataclasses.asdict(each), "taken": each.taken} for each in health.brokers],
        "problems": [
            {
                "name": each.name,
                "severity": each.severity.value,
                "text": each.text,
                "advice": each.advice,
                "where": each.where or None,
            }
            for each in health.problems
        ],
    }


def worst_first(publishers: PublisherTable) -> list[int]:
    """Return the rows of the publishers that are listed: by state, then by what was lost."""
    order = np.lexsort((-publishers.lost, -publishers.state.astype(np.int64)))
    rows: list[int] = order[:MOST_PUBLISHERS].tolist()
    return rows


def publisher_facts(publishers: PublisherTable, row: int) -> dict[str, Any]:
    """Return a publisher as JSON values."""
    lag_s = publishers.lag_median_s(np.array([row]))[0]
    return {
        "client": publishers.names[row],
        "state": State(publishers.state[row]).word,
        "boot": publishers.boots[row] or None,
        **{name: int(getattr(publishers, name)[row]) for name in _COUNTS},
        **{name: _or_none(getattr(publishers, name)[row]) for name in _FIGURES},
        "lag_s": _or_none(lag_s),
    }


def pipeline_rows(health: PipelineHealth) -> list[tuple[str, str]]:
    """Return the lines about publishers and brokers, and the problems from a warning on, the worst first."""
    publishers = health.publishers
    states = [
        f"{publishers.count(each):,} {each.word}"
        for each in reversed(State)
        if publishers.count(each)
    ]
    rate = f", {with_unit(health.bytes_per_s, 'bytes/s')}" if health.bytes_per_s else ""
    rows = (
        [("publishers", f"{len(publishers):,}: {', '.join(states)}{rate}")]
        if len(publishers)
        else []
    )
    rows += [
        ("connection", broker_text(each)) for each in health.brokers if each.protocol != RECORDING
    ]
    for each in health.problems:
        if each.severity is not Severity.INFO and each.name not in _ELSEWHERE:
            rows.append(
                (
                    f"  {each.severity.value}",
                    f"{plain(each.text, LONGEST)}. {plain(each.advice, LONGEST)}",
                )
            )
    return rows


def broker_text(broker: BrokerHealth) -> str:
    """Return a broker and the connection to it in a line."""
    state = "connected" if broker.connected else "NOT CONNECTED"
    words = [f"{plain(broker.address, 120)}: {state} for {duration(broker.for_s)}"]
    if broker.protocol:
        words.append(f"MQTT {plain(broker.protocol, 8)}")
    words.append("TLS" if broker.is_secure else "no TLS")
    if broker.reconnects:
        words.append(counted(broker.reconnects, "reconnect"))
    words.append(f"{counted(broker.waiting, 'message')} waiting")
    figures = broker.figures
    if figures is not None:
        said = [plain(figures.version, 60)] if figures.version else []
        said += [f"up {duration(figures.uptime_s)}"] if figures.uptime_s is not None else []
        said += [counted(figures.clients, "client")] if figures.clients is not None else []
        said += (
            [f"{figures.dropped:,} dropped for slow readers"] if figures.dropped is not None else []
        )
        words.append(f"it says: {', '.join(said)}")
    return ", ".join(words)


def _or_none(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
