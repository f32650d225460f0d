"""Messages about alerts: alert states from `trnfleet watch`, acknowledgements and silences.

All are retained. A resolved alert is published as resolved, and cleared later by an empty message.
Times are RFC 3339 in UTC, monitor time.

A relay publishes the alerts of its cell on a top broker below the cell's name, so that no `watch`
there treats them as its own.

A withdrawn acknowledgement or silence remains as a tombstone until its original end, so that no
client absent meanwhile restores it. A tombstone lasts for one millisecond from its beginning:
readers without the field treat it as ended.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from trnfleet.domain.alerts.matchers import MOST_MATCHERS
from trnfleet.domain.expressions import LONGEST
from trnfleet.domain.severity import Severity  # noqa: TC001  read at run time
from trnfleet.wire.messages import Name, Text  # noqa: TC001  read at run time
from trnfleet.wire.structs import Message, WireStruct
from trnfleet.wire.values import Figure, Instant, Revision  # noqa: TC001  read at run time

Fingerprint = Annotated[str, Meta(pattern=r"^[0-9a-f]{16}\Z")]
Line = Annotated[str, Meta(max_length=1_000)]
LabelName = Annotated[str, Meta(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]{0,63}\Z")]
Label = Annotated[str, Meta(max_length=400)]
MatcherText = Annotated[str, Meta(max_length=LONGEST)]
Url = Annotated[str, Meta(max_length=2_000)]
"""A link: 400 characters from the operator, plus a fleet, rule and target in %-codes."""
Origin = Annotated[str, Meta(max_length=64)]
Count = Annotated[int, Meta(ge=0, le=1_000_000_000)]


class AlertMessage(Message, frozen=True, kw_only=True):
    """The state of an alert."""

    fingerprint: Fingerprint
    rule: Name
    severity: Severity
    state: Literal["firing", "resolved"]
    target: Label
    """An address, a job, a reservation, a publisher, or `pipeline`; empty for the fleet."""
    place: Label = ""
    """The deepest address that has all its members."""
    rack: Label = ""
    """Name of the rack common to all its members."""
    worst: Label = ""
    """The member with the most extreme value."""
    subsystem: Label = ""
    """Part of the fleet its rule is about, such as `link`. Alerts of one subsystem and place are
    one problem."""
    figure: Label = ""
    """Value compared by its rule, such as `link_up`; empty for missing telemetry."""
    labels: Annotated[dict[LabelName, Label], Meta(max_length=40)] = msgspec.field(
        default_factory=dict
    )
    summary: Line
    title: Line = ""
    """A few words, without the place."""
    description: Line = ""
    runbook: Line = ""
    runbook_url: Url = ""
    generator_url: Url = ""
    """Link to a view of the alert, if configured for the watch."""
    cause: Line = ""
    value: Figure | None = None
    value_text: Line = ""
    """The value as people read it, with its unit."""
    members: Count = 1
    chips: Count = 0
    since: Instant
    """Begin of the present pending state: its condition is true since then."""
    fired: Instant
    """Begin of firing."""
    resolved: Instant | None = None
    inhibited_by: Fingerprint | None = None
    """Alert that inhibits this one."""
    flapping: bool = False
    times: Count = 0
    """Times it began to fire within the flap window."""
    told: Annotated[dict[Name, Text], Meta(max_length=16)] = msgspec.field(default_factory=dict)
    """Last notification of this state by receiver. Another `watch` after a takeover, or the same
    one after a restart, continues from there."""
    watch: Name
    """Client id of the `watch` that published it."""


class Handling(WireStruct, frozen=True, kw_only=True):
    """An acknowledgement or a silence of a cell's alert, reduced for readers elsewhere."""

    who: Annotated[str, Meta(max_length=200)]
    why: Line = ""
    at: Instant
    until: Instant


class CellAlertMessage(AlertMessage, frozen=True, kw_only=True):
    """A cell's alert on a top broker, forwarded by the cell's relay.

    It includes the acknowledgement or silence in the cell.
    """

    cell: Name
    ack: Handling | None = None
    silence: Handling | None = None
    """The silence that hides it and ends last."""

    @property
    def path(self) -> str:
        """Path of its topic."""
        return f"{self.cell}/{self.fingerprint}"


class AckMessage(Message, frozen=True, kw_only=True):
    """An acknowledgement of an alert."""

    fingerprint: Fingerprint
    owner: Annotated[str, Meta(min_length=1, max_length=64)]
    note: Line = ""
    at: Instant
    until: Instant
    alert: Label = ""
    """Rule and target, for readers of the topic."""
    revision: Revision = 0
    """Goes up with each message of the topic; 0 for writers before this field."""
    withdrawn_until: Instant | None = None
    """Original end; only of a withdrawn acknowledgement."""


class SilenceMessage(Message, frozen=True, kw_only=True):
    """A silence: alerts that match cause no notifications."""

    id: Name
    matchers: Annotated[tuple[MatcherText, ...], Meta(min_length=1, max_length=MOST_MATCHERS)]
    """Written as `label="value"`, with `=`, `!=`, `=~` or `!~`; all must match."""
    starts: Instant
    until: Instant
    who: Annotated[str, Meta(min_length=1, max_length=64)]
    why: Line = ""
    revision: Revision = 0
    """As an acknowledgement's."""
    source: Origin = ""
    """Where it was made, if not here: `alertmanager`, or the name of another receiver."""
    not_applied: Line = ""
    """Reason for not applying it here. For one created elsewhere, with matchers without an
    equivalent."""
    withdrawn_until: Instant | None = None
