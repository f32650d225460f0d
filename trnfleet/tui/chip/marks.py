"""Parts of a chip with alerts: links, cores, and metrics in a panel.

Acknowledged, silenced and inhibited alerts mark their part, too, so that no faulty part looks
healthy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.alerts.alert import Alert, address_of, is_below
from trnfleet.domain.alerts.signals import Scope
from trnfleet.domain.alerts.status import AlertStatus
from trnfleet.monitor.problems import places
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.state.alerts import MOST_MEMBERS, AlertSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.style import Style

    from trnfleet.domain.layout import Layout
    from trnfleet.domain.severity import Severity
    from trnfleet.monitor.alerting.engine import Alerts
    from trnfleet.monitor.alerting.store import AlertWithStatus

_LINE_OF = {"hbm_used_pct": "hbm_used_bytes"}
"""Metric line by rule figure, if the figure has no line of its own."""
_SHOWN = (AlertStatus.FIRING, AlertStatus.ACKED, AlertStatus.SILENCED, AlertStatus.INHIBITED)
"""Statuses of firing alerts, in order of precedence for a mark."""
_WORDS = {
    AlertStatus.ACKED: "acked",
    AlertStatus.SILENCED: "silenced",
    AlertStatus.INHIBITED: "inhibited",
}
_OWNER_CELLS = 12
Z_DOWN = "z_links_down"
"""Number of failed links between the instances of an UltraServer. It marks these links of its
chips."""


class ChipPart(NamedTuple):
    """A part of a chip."""

    scope: Scope
    """LINK or CORE, or CHIP for a metric. INSTANCE and ULTRASERVER for figures of the chip's
    parents."""
    name: str
    """Name of the link or core, else of the figure."""


class PartMark(NamedTuple):
    """What alerts there are about a part."""

    severity: Severity
    status: AlertStatus
    owner: str = ""
    """Operator of the acknowledgement or silence. Empty if none or unknown."""

    @property
    def glyph(self) -> str:
        return theme.SEVERITY_GLYPH[self.severity]

    @property
    def style(self) -> Style:
        """Style of its severity; quiet if acknowledged, silenced or inhibited."""
        return (
            theme.SEVERITY_STYLE[self.severity]
            if self.status is AlertStatus.FIRING
            else theme.QUIET
        )

    @property
    def note(self) -> str:
        """Its handling, such as `acked ana`.

        Empty if not handled.
        """
        return f"{_WORDS.get(self.status, '')} {plain(self.owner, _OWNER_CELLS)}".strip()


def read_marks(
    snapshot: AlertSnapshot, address: str, layout: Layout, lanes: tuple[str, ...]
) -> dict[ChipPart, PartMark]:
    """Return the marks of a chip's parts.

    Each is of the worst among the least handled alerts.

    Args:
        snapshot: The alerts.
        address: The chip's address.
        layout: Where it is.
        lanes: Names of its links.
    """
    alerts = snapshot.alerts
    far = {places.other_end(f"{address}:{lane}", layout): lane for lane in lanes}
    far.pop("", None)
    neighbours = {end.rpartition(":")[0] for end in far}
    marks: dict[ChipPart, PartMark] = {}
    for held in snapshot.active:
        alert = held.alert
        if held.status not in _SHOWN or alert.rule.figure is None:
            continue
        place = address_of(alert)
        is_near = bool(place) and is_below(address, place)
        if not is_near and (
            alert.rule.scope is not Scope.LINK
            or not any(is_below(end, place) for end in neighbours)
        ):
            continue
        mark = PartMark(held.severity, held.status, _owner(held, alerts))
        for part in _parts(alert, alerts, address, far):
            known = marks.get(part)
            if known is None or _order(mark) < _order(known):
                marks[part] = mark
    return marks


def _parts(alert: Alert, alerts: Alerts, address: str, far: dict[str, str]) -> Iterator[ChipPart]:
    """Yield the parts of a chip that a nearby alert marks."""
    scope = alert.rule.scope
    figure = alert.rule.figure or ""
    if scope in {Scope.ULTRASERVER, Scope.INSTANCE}:
        yield ChipPart(scope, figure)
        return
    members = [name for name, _, fires in alerts.members(alert, MOST_MEMBERS) if fires]
    # A watch publishes no members, but the worst of them.
    for name in members or [alert.worst or alert.target]:
        if scope is Scope.CHIP and name == address:
            yield ChipPart(Scope.CHIP, _LINE_OF.get(figure, figure))
        elif scope is Scope.LINK:
            chip, _, lane = name.rpartition(":")
            if chip == address:
                yield ChipPart(Scope.LINK, lane)
            elif name in far:
                yield ChipPart(Scope.LINK, far[name])
        elif scope is Scope.CORE and name.startswith(f"{address}/"):
            yield ChipPart(Scope.CORE, name.rpartition("/")[2])


def _owner(held: AlertWithStatus, alerts: Alerts) -> str:
    now_ns = alerts.instant.now_ns
    silences = alerts.silences
    if held.status is AlertStatus.ACKED:
        ack = silences.ack_of(held.alert, now_ns)
        return "" if ack is None else ack.owner
    if held.status is AlertStatus.SILENCED:
        hiding = silences.silences_of(held.alert, now_ns)
        return max(hiding, key=lambda silence: silence.ends_ns).who if hiding else ""
    return ""


def _order(mark: PartMark) -> tuple[int, int]:
    return _SHOWN.index(mark.status), mark.severity.rank
