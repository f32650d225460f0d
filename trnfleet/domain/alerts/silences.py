"""Silences and acknowledgements: both are made by people and have an end.

Intervals are half-open: `[starts, ends)`.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.alerts.matchers import Matcher, all_match

if TYPE_CHECKING:
    from collections.abc import Mapping


class Span(enum.Enum):
    """Position of an instant relative to an interval."""

    TO_COME = "to come"
    ACTIVE = "active"
    OVER = "over"


def span_at(now_ns: int, starts_ns: int, ends_ns: int) -> Span:
    """Return the position of an instant relative to `[starts_ns, ends_ns)`."""
    if now_ns >= ends_ns:
        return Span.OVER
    return Span.TO_COME if now_ns < starts_ns else Span.ACTIVE


class Edition(NamedTuple):
    """A message of an acknowledgement or silence, with the fields that decide which counts."""

    revision: int
    begins_ns: int
    withdrawn_until_ns: int | None = None
    """Original end, if withdrawn."""

    def is_replaced_by(self, other: Edition) -> bool:
        """Return whether another message replaces this one.

        It must be written later, not an older message restored.
        """
        if other.revision != self.revision:
            # A writer before revisions has 0; a later beginning shows that its message is a new
            # one.
            return other.revision > self.revision or (
                not other.revision and other.begins_ns > self.begins_ns
            )
        return (
            self.withdrawn_until_ns is None
            or other.withdrawn_until_ns is not None
            or (not other.revision and other.begins_ns > self.begins_ns)
        )


class Silence(NamedTuple):
    """A silence: alerts with matching labels do not notify."""

    id: str
    matchers: tuple[Matcher, ...]
    starts_ns: int
    ends_ns: int
    who: str
    why: str
    revision: int = 0
    source: str = ""
    """Where it was made, such as `alertmanager`; empty for here."""
    not_applied: str = ""
    """Reason why it hides nothing here; empty where it does."""

    def span(self, now_ns: int) -> Span:
        """Return the position of an instant relative to it."""
        return span_at(now_ns, self.starts_ns, self.ends_ns)

    @property
    def whose(self) -> str:
        """Its owner, and where it was made if not here."""
        return f"{self.who} at {self.source}" if self.source else self.who

    def covers(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels match, at any time."""
        return not self.not_applied and all_match(self.matchers, labels)


class Ack(NamedTuple):
    """An acknowledgement of an alert. It ends at its end, or when the alert resolves."""

    fingerprint: str
    owner: str
    note: str
    at_ns: int
    ends_ns: int
    revision: int = 0

    def span(self, now_ns: int) -> Span:
        """Return the position of an instant relative to it."""
        return span_at(now_ns, self.at_ns, self.ends_ns)
