"""Subjects of acknowledgements and silences: the entity under the cursor.

A subject has the alerts about it and the matchers that select it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.address import Level
from trnfleet.domain.alerts.alert import Alert, address_of, is_below
from trnfleet.domain.alerts.matchers import Matcher, matchers_for
from trnfleet.monitor.power_groups import JOBS, RESERVATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trnfleet.monitor.alerting.store import AlertWithStatus
    from trnfleet.monitor.power_groups import PowerGroups
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
    """Matchers of its alerts in a silence's syntax; empty for the whole fleet."""
    alerts: tuple[Alert, ...] = ()
    """The alerts about it, for an acknowledgement."""


def of_place(snapshot: AlertSnapshot, address: str) -> Subject:
    """Return the subject at an address; for a core, its chip.

    Its alerts are those at or below it, else those of its ancestors. Alerts of chips grouped by
    instance have no chip label. If none of a place's alerts has its label, the matchers come from
    the alert of the narrowest group.
    """
    segments = address.split("/")[: Level.CHIP] if address else []
    place = "/".join(segments)
    inside = _alerts(held for held in snapshot.active if is_below(address_of(held.alert), place))
    alerts = inside or _alerts(snapshot.touching(place))
    if not segments:
        return Subject("", alerts)
    own = Matcher(_LABELS[Level(len(segments))], "=", place)
    if not inside or any(own.matches(alert.labels) for alert in inside):
        return Subject(str(own), alerts)
    narrowest = max(inside, key=lambda alert: alert.target.count("/"))
    return Subject(_exact((narrowest,), snapshot), alerts)


def of_job(snapshot: AlertSnapshot, job: str) -> Subject:
    """Return a job."""
    return Subject(_matcher("job", job), _alerts(snapshot.of_job(job)))


def of_reservation(
    snapshot: AlertSnapshot, reservation_id: str, rows: tuple[range, ...] = ()
) -> Subject:
    """Return a reservation as a subject, with the alerts of its instances."""
    held = (*snapshot.of_reservation(reservation_id), *snapshot.on_instances(rows))
    return Subject(_matcher("reservation", reservation_id), _alerts(held))


def of_group(snapshot: AlertSnapshot, groups: PowerGroups, row: int) -> Subject:
    """Return a rack, UltraServer, job or reservation of Power.

    Instances without a job or reservation have no matchers.
    """
    if row >= groups.size:
        return of_place(snapshot, "")
    name = groups.label(row)
    if groups.kind in {JOBS, RESERVATIONS}:
        if row == groups.size - 1:
            return Subject("")
        if groups.kind == JOBS:
            return of_job(snapshot, name)
        rows = tuple(range(member, member + 1) for member in groups.members(row).tolist())
        return of_reservation(snapshot, name, rows)
    if groups.layout.find(name) is not None:
        return of_place(snapshot, name)
    inside = (held for held in snapshot.active if held.alert.labels.get("rack") == name)
    return Subject(_matcher("rack", name), _alerts(inside))


def of_alerts(snapshot: AlertSnapshot, alerts: Iterable[Alert]) -> Subject | None:
    """Return a subject for some alerts; None for no alert.

    Its matchers select them and no other firing alert.
    """
    members = tuple(alerts)
    return Subject(_exact(members, snapshot), members) if members else None


def _exact(alerts: Sequence[Alert], snapshot: AlertSnapshot) -> str:
    chosen = {alert.fingerprint for alert in alerts}
    others = (
        held.alert.labels
        for held in snapshot.active
        if held.alert.fired_ns is not None and held.alert.fingerprint not in chosen
    )
    return " ".join(map(str, matchers_for([alert.labels for alert in alerts], others)))


def _alerts(alerts: Iterable[AlertWithStatus]) -> tuple[Alert, ...]:
    return tuple(held.alert for held in alerts)


def _matcher(label: str, value: str) -> str:
    return str(Matcher(label, "=", value))
