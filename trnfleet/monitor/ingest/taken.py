"""Applied telemetry, dated by the clocks of its sources and counted for its publishers.

This is the last step of ingest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from trnfleet.monitor.ingest.frame_rows import Undated
from trnfleet.monitor.ingest.rejects import reject
from trnfleet.monitor.sources.clock_columns import DatedMessages
from trnfleet.monitor.sources.clocks import LATE_FROM_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.monitor.ingest.topic_state import TopicState
    from trnfleet.monitor.pipeline.counts import PipelineCounts
    from trnfleet.monitor.pipeline.traffic import PublisherTraffic
    from trnfleet.monitor.sources.clock_columns import ClockColumns
    from trnfleet.wire.ports import Envelope


@dataclass(slots=True)
class Taken:
    """The new telemetry of a batch, not dated yet."""

    enters: bool
    """Whether the batch is one of many messages."""
    many: list[Undated] = field(default_factory=list)
    """Messages applied in bulk."""
    single: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    """Messages applied singly, in the form of `Undated`."""
    wall_ns: int = 0
    """Wall clock of their arrival."""
    lags_s: list[float] = field(default_factory=list)
    """The lags of all that was dated."""

    def add(self, number: int, ts_ns: int, topic: TopicState, size_bytes: int) -> None:
        """Add a message."""
        self.single.append((number, ts_ns, topic.clock, topic.row, size_bytes))

    def date(
        self,
        batch: Sequence[Envelope],
        clocks: ClockColumns,
        counts: PipelineCounts,
        traffic: PublisherTraffic,
        now_s: float,
        *,
        root: str,
    ) -> None:
        """Update source clocks from the applied messages in order of arrival.

        Count the messages for their publishers.
        """
        undated = self._release()
        if undated is None:
            return
        try:
            dated = clocks.take(undated.clocks, undated.ts_ns, now_s, self.wall_ns)
        except Exception:  # noqa: BLE001  only what cannot be reckoned with is rejected
            undated, dated = self._date_each(
                undated, batch, clocks, counts, traffic, now_s, root=root
            )
        lags_s = dated.lags_s
        behind_s = dated.behind_s
        late = dated.late_s > LATE_FROM_S
        if late.any():
            counts.old += int(late.sum())
            for row in undated.rows[late].tolist():
                traffic.delay(row)
            lags_s = np.where(late, np.nan, lags_s)
            behind_s = np.where(late, np.nan, behind_s)
            self.lags_s += lags_s[~late].tolist()
        else:
            self.lags_s += lags_s.tolist()
        traffic.take(undated.rows, undated.sizes, lags_s, behind_s, now_s)

    def _release(self) -> Undated | None:
        """Return and forget the undated messages, in order.

        None without any.
        """
        parts = self.many
        self.many = []
        if self.single:
            parts.append(Undated(*np.array(self.single, np.int64).T))
            self.single = []
        if len(parts) < 2:
            return parts[0] if parts else None
        joined = Undated(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
        return joined.of(np.argsort(joined.numbers, kind="stable"))

    def _date_each(
        self,
        undated: Undated,
        batch: Sequence[Envelope],
        clocks: ClockColumns,
        counts: PipelineCounts,
        traffic: PublisherTraffic,
        now_s: float,
        *,
        root: str,
    ) -> tuple[Undated, DatedMessages]:
        """Date messages singly and reject failing ones.

        Return the others.
        """
        chosen: list[int] = []
        dated: list[DatedMessages] = []
        for place in range(len(undated.numbers)):
            one = undated.of(slice(place, place + 1))
            try:
                dated.append(clocks.take(one.clocks, one.ts_ns, now_s, self.wall_ns))
            except Exception as error:  # noqa: BLE001  no message, not even one that finds a bug, stops the reader
                reject(counts, batch[int(one.numbers[0])], error, root=root)
                traffic.refuse(int(one.rows[0]), now_s)
            else:
                chosen.append(place)
        columns = [
            np.concatenate([np.zeros(0), *arrays]) for arrays in zip(*dated, strict=True)
        ] or [np.zeros(0)] * 3
        return undated.of(np.array(chosen, np.int64)), DatedMessages(*columns)
