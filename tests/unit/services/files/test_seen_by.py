"""What rules need of each kind of source."""

from __future__ import annotations

from trnfleet.services.agent.devices import STATES
from trnfleet.services.files.rules import HOST_EVENTS, load_rules, seen_by


def test_an_agent_sees_more_than_documents() -> None:
    """It knows the driver's tree, events and network cards; no source invents job messages."""
    seen = {rule.name: seen_by(rule) for rule in load_rules()}
    assert seen["unhealthy"]["agent"] == "sees"
    assert seen["unhealthy"]["neuron-monitor"] == "no health"
    assert seen["retirement-notice"]["agent"] == "sees"
    assert seen["rack-event"]["agent"] == "no such events"
    assert seen["device-unreachable"]["simulator"] == "no such events"
    assert seen["job-failed"]["agent"] == "needs job messages"
    assert seen["efa-cliff"]["agent"] == "needs claims"


def test_events_of_devices_are_known() -> None:
    assert {name for name in STATES if name} <= HOST_EVENTS
