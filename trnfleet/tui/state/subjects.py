"""Subjects of acknowledgements and silences: what the cursor is on, with the alerts about it and the matchers that pick it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.address import Level
from trnfleet.domain.alerts.alert import address_of, is_below
from trnfleet.domain.alerts.matchers import Matcher
from trnfleet.tui.format.alerts import matchers_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.monitor.alerting.store import AlertWithStatus
    from trnfleet.tui.state.alerts import AlertSnapshot

_LABELS = {
    Level.CLUSTER: "cluster",
    Level.ULTRASERVER: "ultraserver",
    Level.INSTANCE: "instance",
    Level.CHIP: "chip",
}


class Subject(NamedTuple):
    """Something that alerts may be about."""

    matchers: str
    """Matchers of its alerts, as a silence has them; empty for the fleet, of which nothing in particular is meant."""
    alerts: tuple[Alert, ...] = ()
    """The alerts about it: what an acknowledgement is for."""


def of_place(snapshot: AlertSnapshot, address: str) -> Subject:
    """Return what is at an address, a core's chip for a core; its alerts are those at it or below, else those of what it is part of.

    Alerts of chips that a rule groups by instance have no label of a chip: where none of a place's alerts has its label, the matchers are
    those of the alert of the narrowest group.
    """
    segments = address.split("/")[: Level.CHIP] if address else []
    place = "/".join(segments)
    inside = _alerts(each for each in snapshot.active if is_below(address_of(each.alert), place))
    alerts = inside or _alerts(snapshot.touching(place))
    if not segments:
        return Subject("", alerts)
    own = Matcher(_LABELS[Level(len(segments))], "=", place)
    if not inside or any(own.matches(each.labels) for each in inside):
        return Subject(str(own), alerts)
    narrowest = max(inside, key=lambda each: each.target.count("/"))
    return Subject(matchers_of(narrowest.labels), alerts)


def of_job(snapshot: AlertSnapshot, job: str) -> Subject:
    """Return a job."""
    return Subject(_matcher("job", job), _alerts(snapshot.of_job(job)))


def of_reservation(
    snapshot: AlertSnapshot, reservation_id: str, rows: tuple[range, ...] = ()
) -> Subject:
    """Return a reservation; its alerts are also those of the instances that it holds."""
    held = (*snapshot.of_reservation(reservation_id), *snapshot.on_instances(rows))
    return Subject(_matcher("reservation", reservation_id), _alerts(held))


def of_alerts(alerts: Iterable[Alert]) -> Subject | None:
    """Return what alerts have in common; None for no alert."""
    found = tuple(alerts)
    if not found:
        return None
    shared = dict(found[0].labels)
    for alert in found[1:]:
        shared = {name: value for name, value in shared.items() if alert.labels.get(name) == value}
    return Subject(matchers_of(shared), found)


def _alerts(found: Iterable[AlertWithStatus]) -> tuple[Alert, ...]:
    return tuple(each.alert for each in found)


def _matcher(label: str, value: str) -> str:
    return str(Matcher(label, "=", value))
