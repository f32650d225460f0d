"""MQTT versions of a link, and short connections."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.fake_network import (
    ENDED_EARLY,
    FOREIGN,
    NOT_AUTHORISED,
    SILENT,
    WRONG_VERSION,
    Network,
    make,
    running,
)

from trnfleet.clock import ManualClock
from trnfleet.transport import link as link_module
from trnfleet.transport.security import Login, TlsSettings
from trnfleet.transport.url import BrokerUrl, Password

if TYPE_CHECKING:
    from trnfleet.transport.diagnosis import LinkDown


IN_CLEAR = Login(BrokerUrl("broker.example", user="ops"), "client", Password("hunter2"))


@pytest.mark.parametrize("answer", [SILENT, WRONG_VERSION, ENDED_EARLY])
async def test_older_version_is_spoken_and_remembered(network: Network, answer: LinkDown) -> None:
    """A broker that refuses MQTT 5 or is silent gets 3.1.1.

    From then on at once.
    """
    clock = ManualClock()
    network.answers = [answer]
    link = make(clock)
    async with running(link):
        await clock.advance(0)
        assert link.status.protocol == "3.1.1"
        network.connections[-1].end("connection lost")
        await clock.advance(1)
    assert network.tried == ["5", "3.1.1", "3.1.1"]


async def test_older_version_is_not_remembered_before_it_worked(network: Network) -> None:
    """A broker that answers neither version is tried in MQTT 5 first again."""
    clock = ManualClock()
    network.answers = [SILENT, SILENT]
    async with running(make(clock)):
        await clock.advance(1)
    assert network.tried == ["5", "3.1.1", "5"]


@pytest.mark.parametrize("answer", [SILENT, FOREIGN])
async def test_what_never_answered_gets_no_second_password(
    network: Network, answer: LinkDown
) -> None:
    """After an unanswered attempt no password is sent until a broker answers without."""
    clock = ManualClock()
    network.answers = [answer] * 50
    link = make(clock, IN_CLEAR)
    async with running(link):
        await clock.advance(5)
        assert network.passwords == [True, *[False] * (len(network.passwords) - 1)]
        assert len(network.passwords) > 2
        assert link.status.last_error == str(answer)
        network.answers = [NOT_AUTHORISED]
        await clock.advance(30)
        assert link.status.connected
        assert network.passwords[-2:] == [False, True]
    assert network.connections[-1].has_password


async def test_a_broker_that_ends_what_has_no_user_is_a_broker(network: Network) -> None:
    """A stopped broker gets the password once it runs again.

    Even if it ignores clients without a user.
    """
    network.answers = [SILENT, SILENT, ENDED_EARLY]
    async with running(make(clock := ManualClock(), IN_CLEAR)):
        await clock.advance(5)
    assert list(zip(network.tried, network.passwords, strict=True)) == [
        ("5", True),
        ("3.1.1", False),
        ("5", False),
        ("5", True),
    ]


async def test_the_connection_that_shows_a_broker_is_closed(network: Network) -> None:
    """A 3.1.1 broker silent at MQTT 5 answers without a password, and then gets it."""
    clock = ManualClock()
    network.answers = [SILENT]
    link = make(clock, IN_CLEAR)
    async with running(link):
        await clock.advance(0)
        assert (link.status.connected, link.status.protocol) == (True, "3.1.1")
        assert list(zip(network.tried, network.passwords, strict=True)) == [
            ("5", True),
            ("3.1.1", False),
            ("3.1.1", True),
        ]
        assert [(each.has_password, each.closed) for each in network.connections] == [
            (False, True),
            (True, False),
        ]


@pytest.mark.parametrize(
    ("login", "answer"),
    [
        (IN_CLEAR, ENDED_EARLY),
        (IN_CLEAR, WRONG_VERSION),
        (
            Login(BrokerUrl("broker.example", 8883, "ops", "mqtts"), "client", Password("hunter2")),
            SILENT,
        ),
    ],
)
async def test_a_broker_of_the_older_version_gets_the_password_at_once(
    network: Network, login: Login, answer: LinkDown
) -> None:
    """One that ends or refuses MQTT 5 is a broker.

    So is one with a verified certificate.
    """
    network.answers = [answer]
    async with running(make(clock := ManualClock(), login)):
        await clock.advance(0)
    assert network.passwords == [True, True]


async def test_an_unverified_broker_that_keeps_silent_gets_no_second_password(
    network: Network,
) -> None:
    """With --insecure anybody may be at the other end of TLS."""
    url = BrokerUrl("broker.example", 8883, "ops", "mqtts")
    network.answers = [SILENT, SILENT]
    async with running(
        make(
            clock := ManualClock(),
            Login(url, "client", Password("hunter2"), tls=TlsSettings(insecure=True)),
        )
    ):
        await clock.advance(0)
    assert network.passwords == [True, False]


async def test_silence_of_a_broker_that_answered_before_is_slowness(network: Network) -> None:
    """A known broker gets the password in 3.1.1 as well."""
    clock = ManualClock()
    async with running(make(clock, IN_CLEAR)):
        await clock.advance(11)
        network.answers = [SILENT]
        network.connections[-1].end("connection lost")
        await clock.advance(1)
    assert network.passwords == [True, True, True]


async def test_silent_broker_is_asked_again_beside_the_connection(network: Network) -> None:
    """A broker silent at MQTT 5 is tried again, ever more rarely.

    When it answers the link switches.
    """
    clock = ManualClock()
    network.answers = [SILENT, None, SILENT]
    link = make(clock)
    async with running(link):
        await clock.advance(0)
        assert link.status.protocol == "3.1.1"
        await clock.advance(11)
        assert (network.tried, link.status.protocol) == (["5", "3.1.1", "5"], "3.1.1")
        await clock.advance(18)
        assert len(network.tried) == 3
        await clock.advance(2)
        assert (network.tried[3:], link.status.protocol, link.status.connects) == (
            ["5", "5"],
            "5",
            2,
        )
        assert [each.closed for each in network.connections] == [True, True, False]
        await clock.advance(100)
        assert len(network.tried) == 5


async def test_broker_that_resumed_is_not_kept_at_the_older_version(network: Network) -> None:
    """Silence after MQTT 5 counts as slowness: 3.1.1 now, and 5 soon after."""
    clock = ManualClock()
    link = make(clock)
    async with running(link):
        await clock.advance(11)
        network.answers = [SILENT]
        network.connections[-1].end("no answer within twice the keepalive")
        await clock.advance(1)
        assert link.status.protocol == "3.1.1"
        await clock.advance(10)
        assert (link.status.protocol, link.status.connected) == ("5", True)


async def test_refused_version_is_not_asked_for_again(network: Network) -> None:
    """A broker that refuses MQTT 5 is not tried with it again."""
    clock = ManualClock()
    network.answers = [WRONG_VERSION]
    async with running(make(clock)):
        await clock.advance(1_000)
    assert network.tried == ["5", "3.1.1"]


async def test_connections_that_do_not_hold_name_the_client_id(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third short connection in a row is reported once with the client id.

    One taken over, by the broker's reason, at once.
    """
    logged: list[str] = []
    monkeypatch.setattr(
        link_module.log,
        "warning",
        lambda event, **values: logged.append(f"{event} {values['client_id']}"),
    )
    clock = ManualClock()
    link = make(clock)
    async with running(link):
        for _ in range(4):
            await clock.advance(9)
            network.connections[-1].end("connection lost")
            await clock.advance(0)
            if len(network.connections) < 3:
                assert (logged, link.status.last_error) == ([], "connection lost")
        assert logged == ["connection_does_not_hold client"]
        assert link.status.last_error == (
            "connection lost 4 times in a row: is there another client with the id client?"
        )
        await clock.advance(30)
        network.connections[-1].end("another client took over the same client id")
        await clock.advance(0)
        assert logged[1:] == ["client_id_taken_over client"]
        assert link.status.last_error == "another client took over the same client id, client"


async def test_forced_version_is_the_only_one(network: Network) -> None:
    """With a version given, no other is tried."""
    clock = ManualClock()
    network.answers = [SILENT, SILENT]
    async with running(make(clock, protocol="3.1.1")):
        await clock.advance(5)
    assert network.tried == ["3.1.1"] * 3
