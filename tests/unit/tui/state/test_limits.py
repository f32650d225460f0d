"""Values for marking figures, from the rules in force."""

from __future__ import annotations

import pytest
from support.monitor.feed import Feed, ultraservers
from support.tui.alerts import rule

from trnfleet.domain.address import Level
from trnfleet.domain.severity import Severity
from trnfleet.monitor.alerting.engine import Alerts
from trnfleet.monitor.store.findings import HOT_C
from trnfleet.services.files.rules import load_rules
from trnfleet.tui.metric_display import DISPLAY
from trnfleet.tui.state.limits import MarkLimits

TEMPERATURE = DISPLAY["temperature_c"]


@pytest.mark.parametrize("level", [Level.CHIP, Level.INSTANCE, Level.FLEET])
def test_figures_are_marked_from_where_rules_fire(level: Level) -> None:
    """The shipped rule fires above 85 degrees of any chip.

    The maximum of the levels above is marked by it.
    """
    feed = Feed(ultraservers(1))
    limits = MarkLimits(feed.monitor)
    assert limits.severity(TEMPERATURE, HOT_C - 1.0, level) is None
    assert limits.severity(TEMPERATURE, HOT_C, level) is Severity.WARNING
    feed.monitor.ingest.alerts = Alerts(feed.fleet, load_rules())
    assert limits.severity(TEMPERATURE, 85.0, level) is None
    assert limits.severity(TEMPERATURE, 85.1, level) is Severity.WARNING
    assert limits.severity(TEMPERATURE, float("nan"), level) is None
    warm = rule("warm", "warning", above=60.0)
    hot = rule("hot", "critical", above=70.0)
    feed.monitor.ingest.alerts = Alerts(feed.fleet, [warm, hot])
    found = [limits.severity(TEMPERATURE, value, level) for value in (60.0, 65.0, 75.0)]
    assert found == [None, Severity.WARNING, Severity.CRITICAL]


def test_a_figure_without_a_rule_of_its_own() -> None:
    """The table of displays has its limit.

    A chip limit does not apply to a mean of many; a lower limit makes no mark.
    """
    feed = Feed(ultraservers(1))
    busy = rule("busy", figure="nc_util_pct", above=50.0)
    dark = rule("dark", figure="power_w", above=None, below=90.0)
    feed.monitor.ingest.alerts = Alerts(feed.fleet, [busy, dark])
    limits = MarkLimits(feed.monitor)
    assert limits.severity(TEMPERATURE, HOT_C, Level.CHIP) is Severity.WARNING
    assert limits.severity(DISPLAY["nc_util_pct"], 60.0, Level.CHIP) is Severity.CRITICAL
    assert limits.severity(DISPLAY["nc_util_pct"], 60.0, Level.INSTANCE) is None
    assert limits.severity(DISPLAY["power_w"], 80.0, Level.CHIP) is None
