"""Alerts: one for each rule and target, with its members counted.

Its fingerprint follows from the fleet, the rule and the target alone, so that every monitor gives it the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

try:
    # By itself, since hashlib loads OpenSSL, which takes 3.7 MiB and is of no other use without TLS.
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

from trnfleet.domain.alerts.signals import LEVEL_OF, Scope
from trnfleet.domain.alerts.status import AlertState

if TYPE_CHECKING:
    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.domain.alerts.silences import Ack, Silence
    from trnfleet.domain.severity import Severity

_LEVEL_LABELS = ("cluster", "ultraserver", "instance", "chip")


@dataclass(slots=True, eq=False)
class Alert:
    """One alert; only the evaluation writes to it. Instants are nanoseconds of monitor time."""

    rule: Rule
    target: str
    """Its subject: an address (empty for the fleet), a job, a reservation, a publisher, or the pipeline."""
    fingerprint: str
    state: AlertState = AlertState.PENDING
    since_ns: int = 0
    """Begin of the condition of the first member."""
    fired_ns: int | None = None
    """Begin of firing; None while it is pending."""
    resolved_ns: int | None = None
    """Time of its resolution; None while it goes on."""
    members: int = 1
    """Targets of the rule that fire (that are pending, while the alert is)."""
    chips: int = 0
    """Chips that these are or have; 0 where that is not known."""
    place: str = ""
    """Address that leads there: the deepest one that has all members; empty for the fleet and for what has none."""
    rack: str = ""
    """Name of the rack that has all members, where these are in several of its instances, such as `rack-b`; else empty."""
    worst: str = ""
    """The member whose value is the farthest out."""
    value: float | None = None
    """That member's value, in the figure's unit; None where there is no number."""
    text: str = ""
    """The value where it is a text, such as a job's state."""
    job: str = ""
    """The job that runs there, or that it is about."""
    is_silent: bool = False
    """Whether nothing is known of any member at present: it fires as last known."""
    inhibited_by: str = ""
    """Fingerprint of the alert that inhibits it; empty for none."""
    cause: str = ""
    """Its probable cause, where that is known: an address with what is wrong there."""
    times: int = 0
    """Number of times that it began to fire within the flap window, this time counted."""
    is_flapping: bool = False
    """Whether it comes and goes so often that it is held until it has been quiet for a while."""
    revision: int = 0
    """Goes up with every change."""
    subsystem: str = ""
    """What part of the fleet its rule is about."""
    figure: str = ""
    """What its rule compares; empty for telemetry that does not come."""
    published_title: str = ""
    """Its short text as a watch published it; empty where its rule has it."""
    published_summary: str = ""
    """Its line as a watch published it, of an alert of a cell; empty where its rule has it."""
    cell: str = ""
    """The cell that it is of, whose watch looks after it; of several with commas. Empty for what is evaluated here."""
    is_unobserved: bool = False
    """Whether no relay sees its cell at present: it fires as last known."""
    cell_ack: Ack | None = None
    """The acknowledgement that it has in its cell."""
    cell_silence: Silence | None = None
    """The silence that hides it in its cell."""
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
    return blake2b(said, digest_size=8).hexdigest()


def labels_of(fleet: str, rule: Rule, target: str, job: str = "") -> dict[str, str]:
    """Return an alert's labels: the rule's own, and where it is."""
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
        if job:
            labels["job"] = job
    elif rule.scope is not Scope.PIPELINE:
        labels[rule.scope.value] = target
    return labels


def address_of(alert: Alert) -> str:
    """Return the address to go to; empty where there is none."""
    if alert.place:
        return alert.place
    return alert.target.partition(":")[0] if alert.rule.scope in LEVEL_OF else ""


def cause_address(alert: Alert) -> str:
    """Return the address of an alert's probable cause, else that of the alert itself; empty where there is neither."""
    return alert.cause.partition(" ")[0] if alert.cause else address_of(alert)


def is_below(address: str, other: str) -> bool:
    """Return whether an address is another one or below it; everything is below the fleet's, which is empty."""
    return not other or address == other or address.startswith((other + "/", other + ":"))


def common_place(addresses: list[str]) -> str:
    """Return the deepest address that has all of some."""
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
