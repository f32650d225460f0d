"""Telemetry that was applied, dated by the clocks of its sources and counted for its publishers: the end of its way."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING

from trnfleet.monitor.ingest.rejects import reject
from trnfleet.monitor.sources.clocks import LATE_FROM_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.monitor.ingest.topics import TopicState
    from trnfleet.monitor.pipeline.counts import PipelineCounts
    from trnfleet.monitor.pipeline.traffic import PublisherTraffic
    from trnfleet.wire.ports import Envelope

_NUMBER_OF = itemgetter(0)


@dataclass(slots=True)
class Taken:
    """The telemetry of a batch that was newer than all before it, and has yet to be dated."""

    enters: bool
    """Whether the batch is one of many messages."""
    numbers: list[int] = field(default_factory=list)
    """Places in the batch."""
    ts_ns: list[int] = field(default_factory=list)
    topics: list[TopicState] = field(default_factory=list)
    wall_ns: int = 0
    """Wall clock at which they came."""
    lags_s: list[float] = field(default_factory=list)
    """The lags of all that was dated."""

    def date(
        self, batch: Sequence[Envelope], counts: PipelineCounts, traffic: PublisherTraffic, now_s: float, wall_ns: int, *, root: str
    ) -> None:  # fmt: skip  # one line of what is given
        """Learn the clocks of sources from what was applied, in the order in which it came, and count it for their publishers."""
        rows: list[int] = []
        sizes: list[int] = []
        row_lags_s: list[float] = []
        behind_s: list[float] = []
        order = sorted(zip(self.numbers, self.ts_ns, self.topics, strict=True), key=_NUMBER_OF)
        self.numbers, self.ts_ns, self.topics = [], [], []
        for number, ts_ns, topic in order:
            lag_s = behind = math.nan
            clock = topic.clock
            if clock is not None:
                try:
                    lag_s = clock.take(ts_ns, now_s, wall_ns)
                except Exception as error:  # noqa: BLE001  no message, not even one that finds a bug, stops the reader
                    reject(counts, batch[number], error, root=root)
                    traffic.refuse(topic.row)
                else:
                    if clock.late_s > LATE_FROM_S:
                        counts.old += 1
                        traffic.delay(topic.row)
                        lag_s = math.nan
                    else:
                        self.lags_s.append(lag_s)
                        behind = clock.behind_s
            rows.append(topic.row)
            sizes.append(len(batch[number].payload))
            row_lags_s.append(lag_s)
            behind_s.append(behind)
        if rows:
            traffic.take(rows, sizes, row_lags_s, behind_s, now_s)
