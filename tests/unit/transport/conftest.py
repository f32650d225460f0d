"""Fixtures for tests of links."""

from __future__ import annotations

import pytest
from support.fake_network import FakeConnection, Network

from trnfleet.transport import link as link_module


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Network:
    """Put a network made of answers in the place of the real one."""
    network = Network()
    network.gate.set()
    monkeypatch.setattr(
        link_module,
        "WritingConnection",
        lambda login, protocol, _clock, _deliver: FakeConnection(network, protocol, login),
    )
    monkeypatch.setattr(
        link_module, "ReadingConnection", lambda login, *_: FakeConnection(network, "5", login)
    )
    return network
