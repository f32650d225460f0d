"""A fleet's pipeline for `trnfleet status`: JSON values, and lines with advice."""

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
"""Publishers in the list of --json, troubled ones first. `publishers` counts all."""
LONGEST = 400
_ELSEWHERE = frozenset({"not-described", "retained-withheld"})
"""Problems with their own line among the fleet's."""
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
    """Return the pipeline as JSON values.

    Unknown ones are null.
    """
    publishers = health.publishers
    counts = dataclasses.asdict(health.counts)
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
            **{state.word: publishers.count(state) for state in State},
        },
        "publisher_list": [publisher_facts(publishers, row) for row in worst_first(publishers)],
        "of_no_publisher": {
            "messages": publishers.messages_of_none,
            "lost": publishers.lost_of_none,
            "refused": publishers.refused_of_none,
        },
        "doubts": [
            {
                "publisher": doubt.publisher,
                "key": doubt.key,
                "is_unknown": doubt.is_unknown,
                "text": doubt.text,
                "path": doubt.path,
                "times": doubt.times,
                "age_s": health.at_s - doubt.at_s,
            }
            for doubt in health.doubts
        ],
        "brokers": [
            {**dataclasses.asdict(broker), "taken": broker.taken} for broker in health.brokers
        ],
        "problems": [
            {
                "name": problem.name,
                "severity": problem.severity.value,
                "text": problem.text,
                "advice": problem.advice,
                "where": problem.where or None,
            }
            for problem in health.problems
        ],
    }


def worst_first(publishers: PublisherTable) -> list[int]:
    """Return the rows of the listed publishers: by state, then by losses."""
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
    """Return the lines about publishers and brokers, and the problems, the worst first.

    Problems are shown from severity warning.
    """
    publishers = health.publishers
    states = [
        f"{publishers.count(state):,} {state.word}"
        for state in reversed(State)
        if publishers.count(state)
    ]
    rate = f", {with_unit(health.bytes_per_s, 'bytes/s')}" if health.bytes_per_s else ""
    rows = (
        [("publishers", f"{len(publishers):,}: {', '.join(states)}{rate}")]
        if len(publishers)
        else []
    )
    rows += [
        ("connection", broker_text(broker))
        for broker in health.brokers
        if broker.protocol != RECORDING
    ]
    for problem in health.problems:
        if problem.severity is not Severity.INFO and problem.name not in _ELSEWHERE:
            rows.append(
                (
                    f"  {problem.severity.value}",
                    f"{plain(problem.text, LONGEST)}. {plain(problem.advice, LONGEST)}",
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
