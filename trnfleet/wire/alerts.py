"""Messages about alerts: the state of each, published by `trnfleet watch`, acknowledgements and silences. All are retained.

A resolved alert is published as that, and cleared later by an empty message. Times are RFC 3339 in UTC, monitor time.

A relay publishes the alerts of its cell on a top broker below the cell's name, so that no `watch` there takes them for its own.

A withdrawn acknowledgement or silence stays as a tombstone until the end that it would have had, so that nobody who was away
meanwhile restores it. A tombstone lasts from its beginning for a millisecond: readers that do not know the field take it
for one that is over.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from trnfleet.domain.severity import Severity  # noqa: TC001  pydantic reads the types
from trnfleet.wire.messages import Message, Name, Text
from trnfleet.wire.values import Figure, Instant, Revision  # noqa: TC001  pydantic reads the types

Fingerprint = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]
Line = Annotated[str, StringConstraints(max_length=1_000)]
LabelName = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]{0,63}$")]
Label = Annotated[str, StringConstraints(max_length=400)]
Url = Annotated[str, StringConstraints(max_length=2_000)]
"""A link: 400 characters of an operator's, and a fleet, a rule and a target in %-codes."""
Origin = Annotated[str, StringConstraints(max_length=64)]
Count = Annotated[int, Field(ge=0, le=1_000_000_000)]


class AlertMessage(Message):
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
    """Name of the rack that has all its members, where these are in several of its instances."""
    worst: Label = ""
    """The member whose value is the farthest out."""
    subsystem: Label = ""
    """What part of the fleet its rule is about, such as `link`: alerts of one subsystem and place are one problem."""
    figure: Label = ""
    """What its rule compares, such as `link_up`; empty for telemetry that does not come."""
    labels: Annotated[dict[LabelName, Label], Field(max_length=40)] = Field(default_factory=dict)
    summary: Line
    title: Line = ""
    """A few words, without the place."""
    description: Line = ""
    runbook: Line = ""
    runbook_url: Url = ""
    generator_url: Url = ""
    """Link to where the alert can be looked at, where the operator of the watch gave one."""
    cause: Line = ""
    value: Figure | None = None
    members: Count = 1
    chips: Count = 0
    since: Instant
    """Begin of the present pending state: its condition holds since then."""
    fired: Instant
    """Begin of firing."""
    resolved: Instant | None = None
    inhibited_by: Fingerprint | None = None
    """Alert that inhibits this one."""
    flapping: bool = False
    times: Count = 0
    """Number of times that it began to fire within the flap window."""
    told: Annotated[dict[Name, Text], Field(max_length=16)] = Field(default_factory=dict)
    """Last notification of this state by receiver. Another `watch` that takes over, or the same one after a restart, goes on
    from there."""
    watch: Name
    """Client id of the `watch` that published it."""


class Handling(BaseModel):
    """An acknowledgement or a silence under which an alert of a cell is, as far as others need it."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    who: Annotated[str, StringConstraints(max_length=200)]
    why: Line = ""
    at: Instant
    until: Instant


class CellAlertMessage(AlertMessage):
    """An alert of a cell on a top broker, as the cell's relay passes it on, with what people in the cell do about it."""

    cell: Name
    ack: Handling | None = None
    silence: Handling | None = None
    """The silence that hides it and ends last."""

    @property
    def path(self) -> str:
        """Path of its topic."""
        return f"{self.cell}/{self.fingerprint}"


class AckMessage(Message):
    """An acknowledgement of an alert."""

    fingerprint: Fingerprint
    owner: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    note: Line = ""
    at: Instant
    until: Instant
    alert: Label = ""
    """Rule and target, for readers of the topic."""
    revision: Revision = 0
    """Goes up with each message of the topic; 0 for writers before this field."""
    withdrawn_until: Instant | None = None
    """Only of one that was withdrawn: the end that it would have had."""


class SilenceMessage(Message):
    """A silence: alerts that match cause no notifications."""

    id: Name
    matchers: Annotated[tuple[Label, ...], Field(min_length=1, max_length=32)]
    """Written as `label="value"`, with `=`, `!=`, `=~` or `!~`; all must hold."""
    starts: Instant
    until: Instant
    who: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    why: Line = ""
    revision: Revision = 0
    """As an acknowledgement's."""
    source: Origin = ""
    """Where it was made, if not here: `alertmanager`, or the name of another receiver."""
    not_applied: Line = ""
    """Reason why it hides nothing here: of one made elsewhere with matchers that have no equivalent."""
    withdrawn_until: Instant | None = None
