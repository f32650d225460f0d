"""A fleet with a few alert rules, the app over it, and a looped-back operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.monitor.feed import Feed, ultraservers
from support.tui.alerts import rule
from trnfleet.domain.alerts.rules import Rule
from trnfleet.errors import BrokerError
from trnfleet.monitor.alerting.engine import Alerts
from trnfleet.monitor.alerting.operator import OperatorActions
from trnfleet.tui.alerts.view import AlertsView
from trnfleet.tui.app.app import FleetApp
from trnfleet.wire.ports import Envelope, LinkStatus, PublishResult

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trnfleet.monitor.monitor import Monitor

NASTY = "\x1b]0;x\x07[@click=app.quit]x[/]"
RULES = (
    rule(
        "overheated",
        "critical",
        runbook="Look at the fans.",
        runbook_url="https://wiki.example/fans",
        description="Heat kills.",
    ),
    rule("throttled", "warning", figure="throttle_pct", above=5.0),
    rule("power-high", "warning", figure="power_w", above=450.0, **{"for": "30s"}),
    Rule.model_validate(
        {
            "name": "job-failed",
            "scope": "job",
            "severity": "critical",
            "figure": "state",
            "equals": "failed",
            "summary": "job {job} is {value}",
        }
    ),
    Rule.model_validate(
        {
            "name": "ends-soon",
            "scope": "reservation",
            "severity": "info",
            "figure": "ends_in_s",
            "below": 1e6,
            "summary": "{target} ends in {value}",
        }
    ),
)


class Loopback:
    """A publisher with its messages returned at once, or not."""

    def __init__(self, monitor: Monitor) -> None:
        self.status = LinkStatus(broker="memory", connected=True, connects=1)
        self.sent: list[Envelope] = []
        self._monitor = monitor
        self.problem = ""

    async def publish(self, batch: Iterable[Envelope]) -> PublishResult:
        if self.problem:
            raise BrokerError(self.problem)
        batch = list(batch)
        self.sent += batch
        self.status.sent += len(batch)
        self._monitor.apply(batch)
        return PublishResult(len(batch))


def alerts_feed(instances: list[tuple[str, str]] | None = None) -> Feed:
    """Return a calm fleet with `RULES`."""
    feed = Feed(ultraservers(2) if instances is None else instances)
    alerts = Alerts("demo", RULES)
    feed.monitor.ingest.alerts = alerts
    feed.set("temperature_c", 50.0)
    feed.set("power_w", 300.0)
    feed.describe()
    feed.tick()
    return feed


def chips_at(feed: Feed, address: str) -> slice:
    """Return the chips below an address."""
    node = feed.layout.find(address)
    assert node is not None
    chips = feed.layout.chip_range(node)
    return slice(chips.start, chips.stop)


def alerts_app(
    feed: Feed, *, can_write: bool = True, is_loud: bool = False
) -> tuple[FleetApp, Loopback]:
    """Return the app over a fleet, and the operator's publisher."""
    publisher = Loopback(feed.monitor)
    operator = OperatorActions("demo", publisher=publisher if can_write else None, owner="ann")  # type: ignore[arg-type]
    return FleetApp(
        feed.monitor, clock=feed.clock, operator=operator, bell=is_loud, notify=is_loud
    ), publisher


def alerts_view(app: FleetApp) -> AlertsView:
    """Return the Alerts view, which is shown."""
    assert isinstance(app.page, AlertsView)
    return app.page
