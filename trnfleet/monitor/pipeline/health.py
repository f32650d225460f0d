"""The pipeline of a fleet at a moment, as one value: publishers, brokers, counts, lag, clocks and what is wrong.

Status line, `status`, the Events view, the rules about publishers and the pipeline, and exporters read this value, and compute none
of it themselves. Its figures add up:

    broker      received = taken + waiting + shed + dropped + oversize
    read        = messages + late + contested + duplicates + undescribed + refused + others + foreign + pending
    sent        = accepted + mended + lost + passed_over, by the sequence numbers of topics
    publishers  the sum of a column and what has no known publisher = the count of that name: messages, lost, late, duplicates, old,
                refused
    brokers     the sum of what was taken = read, once the batch that is being applied is

`dropped` of the counts is what all brokers' connections dropped, with what was too large; `shed` is what they left out.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.monitor.pipeline.publishers import State

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trnfleet.monitor.pipeline.brokers import BrokerHealth
    from trnfleet.monitor.pipeline.counts import PipelineCounts
    from trnfleet.monitor.pipeline.problem import PipelineProblem
    from trnfleet.monitor.pipeline.publishers import PublisherTable

RECENT_S = 60.0
"""Time over which a count that grows is told as a problem of now."""


class Recent(NamedTuple):
    """What was added to counts within the last `RECENT_S`, or since the start."""

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
    """What brokers say that they dropped."""

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
    """Telemetry messages a second; 0 for a dead feed, None where none has come twice."""
    quiet_s: float | None
    """Seconds since telemetry came; None where none ever has."""
    lag_s: float | None
    """Wall seconds from source to here, as far as clocks tell; None while no chip is live."""
    clock_skew_s: float
    """By how much the most wrong clock of a source is ahead of ours (behind: negative); 0 where none is off by more than 5 s."""
    late_s: float
    """By how much the latest telemetry is behind the wall clock; 0 up to a minute."""
    unheard_s: float
    """Seconds for which nothing could be heard at all."""
    outage_s: float
    """The same, or seconds for which one of several brokers could not be reached."""
    overloaded_s: float
    """Seconds for which the monitor has not kept up with its sources."""
    contested: Mapping[str, int]
    """Paths that two publishers describe at once, by the names of the two."""
    undescribed_chips: int
    """Chips that publish at present without a descriptor."""
    undescribed_paths: int
    """Other paths that do."""
    recording_problem: str = ""
    """The reason why what comes is not recorded any more; empty while all is well, and where nothing is recorded."""
    problems: tuple[PipelineProblem, ...] = ()
    """What is wrong, the worst first."""

    @property
    def publishers_online(self) -> int:
        """Publishers that are not offline."""
        return len(self.publishers) - self.publishers.count(State.OFFLINE)

    @property
    def bytes_per_s(self) -> float:
        """Bytes of telemetry a second, of all publishers whose rate is known."""
        rates = self.publishers.bytes_per_s
        return float(rates[rates == rates].sum())  # noqa: PLR0124  NaN is the one value unlike itself

    def figure(self, name: str) -> float | None:
        """Return a figure of the rules about the pipeline; None where it is not known.

        Raises:
            AttributeError: there is none of that name.
        """
        if name == "lost":
            # What was lost while nothing could be heard, or this monitor did not keep up, is told as that.
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
            found: float | None = getattr(self, name)
            return found
        return float(getattr(self.counts, name))


_OWN = frozenset({each.name for each in fields(PipelineHealth)})
