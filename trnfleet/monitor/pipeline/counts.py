"""Counts of the pipeline from publishers to the store: messages applied, and failures.

They always add up (`unaccounted`, `unaccounted_ticks`):

    read = messages + late + contested + duplicates + undescribed + undecodable + misplaced
           + rejected + others + foreign + pending
    sent = accepted + mended + lost + backlog + passed_over

`pending` is telemetry waiting for its layout. An undecodable message has no number: it also counts
as lost.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace


@dataclass(slots=True)
class PipelineCounts:
    """Counts since the start.

    All only grow, except `lost`: late messages reduce it.
    """

    read: int = 0
    """All messages received by the monitor, each once."""
    others: int = 0
    """Messages applied other than telemetry: descriptors, presence, events, jobs, alerts and the
    like."""
    foreign: int = 0
    """Messages of another fleet, ignored."""
    messages: int = 0
    """Telemetry messages that were applied."""
    chips: int = 0
    """Chip updates in them."""
    sent: int = 0
    """Ticks published between the first and newest message of each topic and boot."""
    accepted: int = 0
    """Messages newer than all before them of their topic. All are applied except another
    revision's."""
    mended: int = 0
    """Late messages counted as lost before."""
    passed_over: int = 0
    """Ticks left out here between two messages, if known for the topic; not lost."""
    lost: int = 0
    """Ticks of a topic never received; without `shed` and `backlog`."""
    backlog: int = 0
    """Ticks that the publisher sends as backlog, as its presence says; not lost."""
    unheard: int = 0
    """Lost ticks due to this monitor. As far as known, it heard nothing, was joining a large fleet,
    or was overloaded."""
    gaps: int = 0
    """Messages with lost ticks of their topic before them."""
    shed: int = 0
    """Telemetry dropped here for newer messages of its topic, because the monitor was behind."""
    late: int = 0
    """Messages received after a newer one of their topic, or from a publisher's former boot."""
    contested: int = 0
    """Messages on a path since described by another publisher."""
    old: int = 0
    """Messages more than a minute behind the wall clock by source time. They are applied."""
    duplicates: int = 0
    undescribed: int = 0
    """Telemetry without a descriptor, or without one of its boot and revision; not lost."""
    undecodable: int = 0
    """Payloads or topics in violation of the protocol."""
    misplaced: int = 0
    """Payloads with another identity than their topic."""
    rejected: int = 0
    """Messages beyond a limit, and retained ones of a class without retained messages."""
    unusable: int = 0
    """Impossible values in telemetry. They are not available; the rest of their messages counts."""
    unknown_keys: int = 0
    """Values in telemetry under names unknown as metrics."""
    dropped: int = 0
    """Messages dropped by the transport before reading: queue full, or too large."""
    layouts_held: int = 0
    """Times a publisher's instance changes had to wait, after too many of them."""
    internal_errors: int = 0
    """Failures of the monitor's own work."""
    last_problem: str = ""
    """The last rejected message or failure, in one line of plain text."""
    refused: dict[str, int] = field(default_factory=dict, init=False)
    """Undecodable, misplaced and rejected messages by topic class; `other` without a class."""
    failed_kinds: dict[str, int] = field(default_factory=dict, init=False)
    """Failures of each kind."""

    def unaccounted(self, pending: int) -> int:
        """Return the difference between messages read and messages accounted for: 0.

        Args:
            pending: Telemetry waiting for its layout.
        """
        known = self.messages + self.late + self.contested + self.duplicates + self.undescribed
        refused = self.undecodable + self.misplaced + self.rejected
        return self.read - known - refused - self.others - self.foreign - pending

    @property
    def unaccounted_ticks(self) -> int:
        """Difference between published ticks and ticks received or missing: 0.

        Published ticks are known from sequence numbers.
        """
        return self.sent - self.accepted - self.mended - self.lost - self.backlog - self.passed_over

    def copy(self) -> PipelineCounts:
        """Return a copy."""
        twin = replace(self)
        twin.refused.update(self.refused)
        twin.failed_kinds.update(self.failed_kinds)
        return twin
