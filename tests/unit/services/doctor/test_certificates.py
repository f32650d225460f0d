"""`trnfleet doctor` on the validity of a certificate."""

from __future__ import annotations

import pytest

from trnfleet.clock import ManualClock, parse_rfc3339
from trnfleet.services.doctor.broker import _certificate
from trnfleet.services.doctor.findings import Health
from trnfleet.services.session import BrokerSession
from trnfleet.transport.dialing import TlsPeer
from trnfleet.transport.url import parse_url

NOW = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("until", "health", "value"),
    [
        ("2026-01-23T00:00:00Z", Health.OK, "valid until 2026-01-23, 22 days from now"),
        ("2026-01-21T00:00:00Z", Health.WARNING, "valid until 2026-01-21, 20 days from now"),
        (None, Health.WARNING, "not verified"),
    ],
)
def test_one_that_ends_soon_is_a_warning(until: str | None, health: Health, value: str) -> None:
    session = BrokerSession(parse_url("mqtts://h"), clock=ManualClock(parse_rfc3339(NOW)))
    until_s = None if until is None else parse_rfc3339(until) / 1e9
    found = _certificate(session, TlsPeer("TLSv1.3", "x", until_s))
    assert (found.health, found.value) == (health, value)
    assert bool(found.advice) == (health is not Health.OK)
