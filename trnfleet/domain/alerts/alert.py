"""Alerts: one for each rule and target, with its members counted.

Its fingerprint follows from the fleet, the rule and the target alone, so it is the same in every
monitor.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trnfleet.domain.address import NO_NAMES, Level, Names
from trnfleet.domain.alerts.signals import LEVEL_OF, Scope
from trnfleet.domain.alerts.status import AlertState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.domain.alerts.silences import Ack, Silence
    from trnfleet.domain.severity import Severity

LEAST_ID = 4
"""Fewest digits of a shortened id, if no other id begins with them."""
_LEVEL_LABELS = ("cluster", "ultraserver", "instance", "chip")


@dataclass(slots=True, eq=False)
class Alert:
    """One alert; only the evaluation writes to it. Instants are nanoseconds of monitor time."""

    rule: Rule
    target: str
    """Its subject. An address (empty for the fleet), a job, a reservation, a publisher, or the
    pipeline."""
    fingerprint: str
    state: AlertState = AlertState.PENDING
    since_ns: int = 0
    """Begin of the condition of the first member."""
    fired_ns: int | None = None
    """Begin of firing; None while it is pending."""
    resolved_ns: int | None = None
    """Time of its resolution; None while it goes on."""
    members: int = 1
    """Firing targets of the rule (pending targets while the alert is pending)."""
    chips: int = 0
    """Chips of these targets; 0 if unknown."""
    place: str = ""
    """Address to navigate to: the deepest one with all members, or a job's cause. Empty for the
    fleet and without an address."""
    rack: str = ""
    """Rack of all members, such as `rack-b`; empty if unknown or several."""
    worst: str = ""
    """The member with the worst value."""
    value: float | None = None
    """Value of that member in the figure's unit; None without a number."""
    text: str = ""
    """The value where it is a text, such as a job's state."""
    job: str = ""
    """The job running there, or the job that is its subject."""
    silence: str = "silent"
    """State of members without values: silent, or refused messages."""
    is_silent: bool = False
    """Whether nothing is known of any member at present: it fires as last known."""
    inhibited_by: str = ""
    """Fingerprint of the inhibiting alert; empty if not inhibited."""
    cause: str = ""
    """Probable cause, an address with its fault; empty if unknown."""
    times: int = 0
    """Number of starts within the flap window, this one included."""
    is_flapping: bool = False
    """Whether it comes and goes often and is held until quiet for a while."""
    revision: int = 0
    """Goes up with every change."""
    subsystem: str = ""
    """Part of the fleet that its rule is about."""
    figure: str = ""
    """The figure compared by its rule; empty for missing telemetry."""
    published_title: str = ""
    """Its short text as a watch published it; empty where its rule has it."""
    published_summary: str = ""
    """Summary published by a cell's watch; empty if the rule has it."""
    cell: str = ""
    """Cells whose watches evaluate it, separated by commas; empty if evaluated here."""
    is_unobserved: bool = False
    """Whether no relay sees its cell at present: it fires as last known."""
    cell_ack: Ack | None = None
    """Its acknowledgement in its cell."""
    cell_silence: Silence | None = None
    """The silence hiding it in its cell."""
    names: Names = NO_NAMES
    """Display names for its texts; labels keep segments."""
    labels: dict[str, str] = field(default_factory=dict)
    """Labels for matchers and receivers."""

    @property
    def name(self) -> str:
        return self.rule.name

    @property
    def severity(self) -> Severity:
        return self.rule.severity

    @property
    def is_active(self) -> bool:
        return self.state in {AlertState.PENDING, AlertState.FIRING}


def fingerprint_of(fleet: str, rule: str, target: str) -> str:
    """Return the fingerprint of an alert: 16 hexadecimal digits, one segment of a topic."""
    said = f"{fleet}\0{rule}\0{target}".encode()
    return hashlib.blake2b(said, digest_size=8).hexdigest()


def labels_of(fleet: str, rule: Rule, target: str, job: str = "", rack: str = "") -> dict[str, str]:
    """Return an alert's labels: the rule's own, and its place.

    Args:
        fleet: The fleet's name.
        rule: The alert's rule.
        target: Its target.
        job: The job running there.
        rack: Name of the rack of all its members.
    """
    labels = {
        **rule.labels,
        "alertname": rule.name,
        "severity": rule.severity.value,
        "fleet": fleet,
        "scope": rule.scope.value,
        "target": target or fleet,
    }
    if rule.scope in LEVEL_OF:
        segments = target.partition(":")[0].split("/") if target else []
        for number, name in enumerate(_LEVEL_LABELS[: len(segments)]):
            labels[name] = "/".join(segments[: number + 1])
        if rack and len(segments) >= Level.ULTRASERVER:
            labels["rack"] = "/".join((*segments[: Level.ULTRASERVER], rack))
        if job:
            labels["job"] = job
    elif rule.scope is not Scope.PIPELINE:
        labels[rule.scope.value] = target
    return labels


def address_of(alert: Alert) -> str:
    """Return the address to go to; empty without one.

    For a job's alert, the address of its cause.
    """
    if alert.rule.scope is Scope.JOB:
        return alert.cause.partition(" ")[0].partition(":")[0]
    if alert.place:
        return alert.place
    return alert.target.partition(":")[0] if alert.rule.scope in LEVEL_OF else ""


def cause_address(alert: Alert) -> str:
    """Return the address of the probable cause, else of the alert; empty without either."""
    return alert.cause.partition(" ")[0] if alert.cause else address_of(alert)


def has_id(known: str, text: str) -> bool:
    """Return whether a text is an alert or silence id, or its beginning."""
    return len(text) >= LEAST_ID and known.startswith(text.lower())


def named(text: str, alerts: Iterable[Alert]) -> list[Alert]:
    """Return the alerts named by a text.

    The text is a fingerprint, a rule, a place as printed, or a rule and a place.
    """
    text = text.strip()
    known = list(alerts)
    matches = [alert for alert in known if has_id(alert.fingerprint, text)]
    if matches or not text:
        return matches
    rule, _, place = text.partition(" ")
    of_rule = [alert for alert in known if alert.name == rule]
    if of_rule and not place:
        return of_rule
    place = place.strip() if of_rule else text
    among = of_rule or known
    return [alert for alert in among if place == alert.target] or [
        alert for alert in among if place in _place_names(alert)
    ]


def _place_names(alert: Alert) -> set[str]:
    """Return the spellings of an alert's place: in full, and shortened as on the screen."""
    own = address_of(alert)
    names = {
        alert.target,
        own,
        alert.worst,
        alert.worst.partition(":")[0],
        alert.labels.get("rack", ""),
    }
    if alert.rack:
        names.add(f"{own} {rack_text(alert.rack)}")
    short = {name.split("/", 2)[-1] for name in names}
    return {*names, *short, *(name.split("/", 1)[-1] for name in names)}


def rack_text(rack: str) -> str:
    """Return a rack's name for people: `rack B` of `rack-b`."""
    return rack.replace("rack-", "rack ").upper().replace("RACK", "rack")


def is_below(address: str, other: str) -> bool:
    """Return whether an address equals another one or is below it.

    Everything is below the fleet's address, the empty one.
    """
    return not other or address == other or address.startswith((other + "/", other + ":"))


def common_place(addresses: list[str]) -> str:
    """Return the deepest address above or equal to all addresses."""
    if not addresses:
        return ""
    shared = addresses[0].partition(":")[0].split("/")
    for address in addresses[1:]:
        segments = address.partition(":")[0].split("/")
        same = 0
        for one, other in zip(shared, segments, strict=False):
            if one != other:
                break
            same += 1
        shared = shared[:same]
    return "/".join(shared)
