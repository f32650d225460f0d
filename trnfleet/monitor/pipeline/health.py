"""The pipeline of a fleet at a moment, as one value.

It has publishers, brokers, counts, lag, clocks and problems. Status line, `status`, the Events
view, the rules about publishers and the pipeline, and exporters read it, and compute none of it
themselves. Its figures add up:

    broker      received = taken + waiting + shed + dropped + oversize
    read        = messages + late + contested + duplicates + undescribed + refused + others
                + foreign + pending
    sent        = accepted + mended + lost + passed_over, by the sequence numbers of topics
    publishers  the sum of a column, with the share of unknown publishers, = the count of that
                name: messages, lost, late, duplicates, old, refused
    brokers     the sum of taken = read, after the current batch

`dropped` of the counts is the sum of `dropped` and `oversize` of all brokers; `shed` is the sum of
theirs.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.monitor.pipeline.publishers import State

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trnfleet.monitor.pipeline.brokers import BrokerHealth
    from trnfleet.monitor.pipeline.counts import PipelineCounts
    from trnfleet.monitor.pipeline.doubts import KeyDoubt
    from trnfleet.monitor.pipeline.problem import PipelineProblem
    from trnfleet.monitor.pipeline.publishers import PublisherTable

RECENT_S = 60.0
"""Time in which a growing count is a current problem."""


class Recent(NamedTuple):
    """Increase of counts within the last `RECENT_S`, or since the start."""

    lost: int = 0
    shed: int = 0
    dropped: int = 0
    undecodable: int = 0
    misplaced: int = 0
    rejected: int = 0
    undescribed: int = 0
    late: int = 0
    duplicates: int = 0
    internal_errors: int = 0
    layouts_held: int = 0
    dropped_by_brokers: int = 0
    """Messages dropped by brokers, by their own figures."""

    @property
    def refused(self) -> int:
        """Undecodable, misplaced and rejected messages."""
        return self.undecodable + self.misplaced + self.rejected


COUNTED = Recent._fields[:-1]
"""Names of the counts among them."""


@dataclass(frozen=True, slots=True, eq=False)
class PipelineHealth:
    """The pipeline at a moment; nothing in it changes."""

    at_s: float
    """Monotonic seconds."""
    publishers: PublisherTable
    brokers: tuple[BrokerHealth, ...]
    counts: PipelineCounts
    """A copy of the counts."""
    pending: int
    """Telemetry messages that wait for their descriptor's layout."""
    recent: Recent
    messages_per_s: float | None
    """Telemetry messages per second; 0 for a dead feed, None before the second message."""
    quiet_s: float | None
    """Seconds since the last telemetry; None if there never was any."""
    lag_s: float | None
    """Wall seconds from source to here, by the clocks; None while no chip is live."""
    clock_skew_s: float
    """Lead of the worst source clock over ours in seconds (negative: behind). 0 if none is off by
    more than 5 s."""
    late_s: float
    """Delay of the latest telemetry behind the wall clock; 0 up to a minute."""
    unheard_s: float
    """Seconds without any connection."""
    outage_s: float
    """The same, or seconds without connection to one of several brokers."""
    overloaded_s: float
    """Seconds since the monitor fell behind its sources."""
    contested: Mapping[str, int]
    """Paths described by two publishers at once, by the names of the two."""
    undescribed_chips: int
    """Chips that publish at present without a descriptor."""
    undescribed_paths: int
    """Other paths that do."""
    doubts: tuple[KeyDoubt, ...] = ()
    """Unusable values and names in telemetry, latest first."""
    recording_problem: str = ""
    """Why recording stopped. Empty while all is well, and without recording."""
    problems: tuple[PipelineProblem, ...] = ()
    """The problems, worst first."""

    @property
    def publishers_online(self) -> int:
        """Publishers that are not offline."""
        return len(self.publishers) - self.publishers.count(State.OFFLINE)

    @property
    def bytes_per_s(self) -> float:
        """Bytes of telemetry per second, of all publishers with a known rate."""
        rates = self.publishers.bytes_per_s
        return float(rates[rates == rates].sum())  # noqa: PLR0124  NaN is the one value unlike itself

    def figure(self, name: str) -> float | None:
        """Return a figure for the rules about the pipeline.

        None if unknown.

        Raises:
            AttributeError: the name is unknown.
        """
        if name == "lost":
            # Losses while nothing was heard, or during an overload, are reported separately.
            return float(self.counts.lost - self.counts.unheard)
        if name == "clock_skew_s":
            return abs(self.clock_skew_s)
        if name == "unheard_s":
            return self.outage_s
        if name == "recording_stopped":
            return float(bool(self.recording_problem))
        if name == "withholds_retained":
            return float(any(broker.withholds_retained for broker in self.brokers))
        if name in _OWN:
            value: float | None = getattr(self, name)
            return value
        return float(getattr(self.counts, name))


_OWN = frozenset({field.name for field in fields(PipelineHealth)})
