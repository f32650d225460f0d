"""Counts of the way from publishers to the store: what was applied, and what went wrong.

They add up, whatever comes (`unaccounted`, `unaccounted_ticks`):

    read = messages + late + contested + duplicates + undescribed + undecodable + misplaced + rejected + others + foreign + pending
    sent = accepted + mended + lost + passed_over

`pending` is what waits for its descriptor's layout. A message that could not be decoded has no number: it is among the lost, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from trnfleet.monitor.copies import copied


@dataclass(slots=True)
class PipelineCounts:
    """Counts since the start; all only grow, but `lost`, which late messages mend."""

    read: int = 0
    """Messages of any kind that came to the monitor, each once."""
    others: int = 0
    """Messages of other classes than telemetry that were taken: descriptors, presence, events, jobs, alerts and the like."""
    foreign: int = 0
    """Messages of another fleet, which are left alone."""
    messages: int = 0
    """Telemetry messages that were applied."""
    chips: int = 0
    """Chip updates in them."""
    sent: int = 0
    """Ticks that were published between the first and the newest message of each topic and boot, as the sequence numbers say."""
    accepted: int = 0
    """Messages that were newer than all before them of their topic; all but those of another revision are applied."""
    mended: int = 0
    """Late messages that were taken for lost before."""
    passed_over: int = 0
    """Ticks between two messages that were left out here, as far as that is known of the topic; not lost."""
    lost: int = 0
    """Ticks of a topic that never came; what was left out here is `shed`."""
    unheard: int = 0
    """Those of them that were lost while nothing could be heard here, as far as that shows, or while the monitor joined a large fleet or did
    not keep up."""
    gaps: int = 0
    """Messages before which ticks of their topic were lost."""
    shed: int = 0
    """Telemetry that was left out here for newer messages of its topic, because the monitor was behind."""
    late: int = 0
    """Messages that came after a newer one of their topic, or from a publisher's former boot."""
    contested: int = 0
    """Messages of a publisher on a path that another publisher has described since."""
    old: int = 0
    """Messages whose source time was more than a minute behind the wall clock; they are applied."""
    duplicates: int = 0
    undescribed: int = 0
    """Telemetry for which no descriptor, or none of its boot and revision, was known; it is not lost."""
    undecodable: int = 0
    """Payloads or topics that are not what the protocol says."""
    misplaced: int = 0
    """Payloads whose identity is not their topic's."""
    rejected: int = 0
    """Messages beyond a limit, and retained ones of a class that is not retained."""
    dropped: int = 0
    """Messages that the transport dropped before they were read: queue full, or too large."""
    layouts_held: int = 0
    """Times that a publisher's changes of its instances had to wait, because it had made too many."""
    internal_errors: int = 0
    """Failures of the monitor's own work."""
    last_problem: str = ""
    """The last rejected message or failure, in one line of plain text."""
    refused: dict[str, int] = field(default_factory=dict, init=False)
    """Undecodable, misplaced and rejected messages by the class of their topic; `other` for a topic of none."""
    failed_kinds: dict[str, int] = field(default_factory=dict, init=False)
    """Failures of each kind."""

    def unaccounted(self, pending: int) -> int:
        """Return by how much what was read differs from what became of it: 0.

        Args:
            pending: Telemetry that waits for its descriptor's layout.
        """
        known = self.messages + self.late + self.contested + self.duplicates + self.undescribed
        refused = self.undecodable + self.misplaced + self.rejected
        return self.read - known - refused - self.others - self.foreign - pending

    @property
    def unaccounted_ticks(self) -> int:
        """By how much what was published, by sequence numbers, differs from what came and what is missing: 0."""
        return self.sent - self.accepted - self.mended - self.lost - self.passed_over

    def copy(self) -> PipelineCounts:
        """Return a copy."""
        return copied(
            self,
            refused=self.refused.copy(),
            failed_kinds=self.failed_kinds.copy(),
        )
