from __future__ import annotations

import pytest

from trnfleet.monitor.pipeline.brokers import BrokerFigures, BrokerHealth
from trnfleet.wire.ports import LinkStatus

MOSQUITTO = {
    "version": "mosquitto version 2.0.11",
    "uptime": "7123 seconds",
    "clients/connected": "4",
    "publish/messages/dropped": "812",
    "retained messages/count": "61",
    "load/messages/received/1min": "1210.50",
    "load/messages/sent/1min": "2421.00",
    "subscriptions/count": "12",
}


def test_figures_as_mosquitto_publishes_them() -> None:
    """Numbers come with units and fractions; loads are per minute."""
    figures = BrokerFigures.of(MOSQUITTO)
    assert figures is not None
    assert (figures.version, figures.uptime_s) == ("mosquitto version 2.0.11", 7123.0)
    assert (figures.clients, figures.dropped, figures.retained, figures.subscriptions) == (
        4,
        812,
        61,
        12,
    )
    assert figures.received_per_s == pytest.approx(20.175)
    assert figures.sent_per_s == pytest.approx(40.35)


@pytest.mark.parametrize("said", ["", " ", "many", "nan", "inf", "-"])
def test_what_is_no_number_is_not_known(said: str) -> None:
    """A broker's figure is a number or unknown, for any text."""
    figures = BrokerFigures.of({"uptime": said, "clients/connected": said})
    assert figures is not None
    assert figures.uptime_s is figures.clients is None


def test_a_broker_that_says_nothing_has_no_figures() -> None:
    """The connection's own counts are there all the same, and add up."""
    link = LinkStatus(
        "mqtts://b:8883", connected=True, changed_s=90.0, connects=3, received=100, waiting=5
    )
    link.shed = 7
    link.dropped = 2
    link.oversize = 1
    broker = BrokerHealth.of(link, 100.0)
    assert broker.figures is None
    assert (broker.kind, broker.is_secure, broker.reconnects, broker.for_s) == ("", True, 2, 10.0)
    assert broker.taken == 85
