"""The subscriptions of a monitor, and its PUE."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from support.monitor.feed import DEMO, Feed

from trnfleet.cli.commands import monitor as monitor_command
from trnfleet.cli.commands import status as status_command
from trnfleet.clock import ManualClock
from trnfleet.domain.address import Level
from trnfleet.domain.site import PUE, Site
from trnfleet.services.live_monitor import monitor_fleet
from trnfleet.services.session import BrokerSession
from trnfleet.transport.url import parse_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trnfleet.transport.mqtt import MqttSource


@pytest.fixture(autouse=True)
def _collector() -> Iterator[None]:
    """Restore the collector's thresholds after a monitor of large fleets."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_events_are_asked_for_with_qos_1() -> None:
    """A monitor receives state, telemetry and events of its fleet.

    Events are not lost on the way.
    """
    session = BrokerSession(parse_url("mqtt://127.0.0.1:1"), root="r", clock=ManualClock())
    subscribed: list[tuple[str, int]] = []

    class Spy(BrokerSession):
        def source(self, filters: Iterable[tuple[str, int]], **limits: Any) -> MqttSource:
            subscribed.extend(filters)
            return BrokerSession.source(self, subscribed, **limits)

    live = monitor_fleet(Spy(session.url, "r", clock=session.clock), "demo", site=Site(pue=1.3))
    assert ("r/v1/demo/event/#", 1) in subscribed
    assert live.monitor.site.pue == 1.3
    assert monitor_fleet(session, "demo").monitor.site.pue == PUE


@pytest.mark.parametrize("has_charts", [True, False])
def test_only_a_monitor_with_charts_keeps_samples(has_charts: bool) -> None:
    feed = Feed(DEMO)
    session = BrokerSession(parse_url("mqtt://127.0.0.1:1"), clock=feed.clock)
    monitor = monitor_fleet(session, "demo", has_charts=has_charts).monitor
    monitor.apply([*feed.announcements(), *feed.telemetry()])
    monitor.compute()
    assert monitor.summary().live_chips
    monitor.history.push(monitor.store, monitor.rollups)
    assert (monitor.history.seconds(Level.FLEET) > 0) == has_charts


@pytest.mark.parametrize("command", [monitor_command.command, status_command.command])
def test_the_pue_is_an_option(command: object) -> None:
    """The help names the domain's published default.

    Impossible values are refused.
    """
    runner = CliRunner()
    assert f"default: {PUE:g}" in " ".join(runner.invoke(command, ["--help"]).output.split())  # type: ignore[arg-type]  # a click command
    refused = runner.invoke(command, ["--broker", "mqtt://127.0.0.1:1", "--pue", "0.9"])  # type: ignore[arg-type]  # a click command
    assert refused.exit_code == 2
    assert "--pue" in refused.output
