"""A link: its state, its attempts and its waits."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import pytest
from support.fake_network import (
    ENDED_EARLY,
    FOREIGN,
    NOT_AUTHORISED,
    REFUSED,
    SILENT,
    WRONG_VERSION,
    Network,
    make,
    running,
)

from trnfleet.clock import ManualClock
from trnfleet.errors import BrokerError
from trnfleet.transport import link as link_module
from trnfleet.transport import mqtt
from trnfleet.transport.link import backoff_s
from trnfleet.transport.mqtt import MqttPublisher
from trnfleet.transport.security import Login, TlsSettings
from trnfleet.transport.url import BrokerUrl, Password
from trnfleet.wire.ports import Envelope, PublishResult, RefusedMessage

if TYPE_CHECKING:
    from trnfleet.transport.diagnosis import LinkDown


IN_CLEAR = Login(BrokerUrl("broker.example", user="ops"), "client", Password("hunter2"))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def publisher(clock: ManualClock) -> MqttPublisher:
    return MqttPublisher(BrokerUrl("h"), client_id="p", clock=clock)


@pytest.mark.parametrize("answer", [SILENT, WRONG_VERSION, ENDED_EARLY])
async def test_older_version_is_spoken_and_remembered(
    clock: ManualClock, network: Network, answer: LinkDown
) -> None:
    """A broker that refuses MQTT 5 or is silent gets 3.1.1.

    From then on at once.
    """
    network.answers = [answer]
    link = make(clock)
    async with running(link):
        await clock.advance(0)
        assert link.status.protocol == "3.1.1"
        network.connections[-1].end("connection lost")
        await clock.advance(1)
    assert network.tried == ["5", "3.1.1", "3.1.1"]


async def test_older_version_is_not_remembered_before_it_worked(
    clock: ManualClock, network: Network
) -> None:
    """A broker that answers neither version is tried in MQTT 5 first again."""
    network.answers = [SILENT, SILENT]
    async with running(make(clock)):
        await clock.advance(1)
    assert network.tried == ["5", "3.1.1", "5"]


@pytest.mark.parametrize("answer", [SILENT, FOREIGN])
async def test_what_never_answered_gets_no_second_password(
    clock: ManualClock, network: Network, answer: LinkDown
) -> None:
    """After an unanswered attempt no password is sent until a broker answers without."""
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


async def test_the_connection_that_shows_a_broker_is_closed(
    clock: ManualClock, network: Network
) -> None:
    """A 3.1.1 broker silent at MQTT 5 answers without a password, and then gets it."""
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


async def test_silence_of_a_broker_that_answered_before_is_slowness(
    clock: ManualClock, network: Network
) -> None:
    """A known broker gets the password in 3.1.1 as well."""
    async with running(make(clock, IN_CLEAR)):
        await clock.advance(11)
        network.answers = [SILENT]
        network.connections[-1].end("connection lost")
        await clock.advance(1)
    assert network.passwords == [True, True, True]


async def test_silent_broker_is_asked_again_beside_the_connection(
    clock: ManualClock, network: Network
) -> None:
    """A broker silent at MQTT 5 is tried again, ever more rarely.

    When it answers the link switches.
    """
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


async def test_broker_that_resumed_is_not_kept_at_the_older_version(
    clock: ManualClock, network: Network
) -> None:
    """Silence after MQTT 5 counts as slowness: 3.1.1 now, and 5 soon after."""
    link = make(clock)
    async with running(link):
        await clock.advance(11)
        network.answers = [SILENT]
        network.connections[-1].end("no answer within twice the keepalive")
        await clock.advance(1)
        assert link.status.protocol == "3.1.1"
        await clock.advance(10)
        assert (link.status.protocol, link.status.connected) == ("5", True)


async def test_refused_version_is_not_asked_for_again(clock: ManualClock, network: Network) -> None:
    """A broker that refuses MQTT 5 is not tried with it again."""
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


async def test_forced_version_is_the_only_one(clock: ManualClock, network: Network) -> None:
    """With a version given, no other is tried."""
    network.answers = [SILENT, SILENT]
    async with running(make(clock, protocol="3.1.1")):
        await clock.advance(5)
    assert network.tried == ["3.1.1"] * 3


async def test_it_connects_again_and_again(network: Network) -> None:
    """A refused connection is retried after one second, then two, and counted once up."""
    network.answers = [REFUSED, REFUSED]
    clock = ManualClock()
    link = make(clock)
    async with running(link):
        await clock.advance(0)
        assert (link.status.connected, link.status.last_error) == (False, "connection refused")
        await clock.advance(1)
        assert len(network.tried) == 2
        await clock.advance(0.9)
        assert len(network.tried) == 2
        await clock.advance(1.1)
        assert link.status.connected
        assert (link.status.connects, link.status.protocol) == (1, "5")
    assert network.connections[0].closed
    assert (link.status.connected, link.status.last_error) == (False, "stopped")


async def test_a_wait_ends_when_it_is_known_that_the_broker_is_back(network: Network) -> None:
    """The wait ends at once, for one attempt; without a wait nothing happens."""
    network.answers = [REFUSED] * 4
    clock = ManualClock()
    link = make(clock)
    async with running(link):
        await clock.advance(0)
        await clock.advance(1)
        await clock.advance(2)
        assert len(network.tried) == 3
        link.hurry()
        await clock.advance(0)
        assert len(network.tried) == 4
        await clock.advance(3.9)
        assert len(network.tried) == 4
        await clock.advance(4.1)
        assert link.status.connected
        link.hurry()
        await clock.advance(1)
        assert (len(network.tried), link.status.connects) == (5, 1)


async def test_stable_connection_resets_the_wait(clock: ManualClock, network: Network) -> None:
    """After a connection of 10 s the first wait starts again.

    A short one does not reset it.
    """
    link = make(clock)
    async with running(link):
        for _ in range(4):
            await clock.advance(9)
            network.connections[-1].end("connection lost")
        await clock.advance(3.9)
        assert link.status.connects == 4
        await clock.advance(10 + 8)
        assert link.status.connects == 5
        network.connections[-1].end("connection lost")
        await clock.advance(0)
        assert link.status.last_error == "connection lost"
        await clock.advance(1)
        assert link.status.connects == 6


@pytest.mark.parametrize(
    ("answer", "outage_s"), [(NOT_AUTHORISED, 0), (REFUSED, 0), (REFUSED, 3_600)]
)
async def test_a_return_is_found_within_10_s(
    clock: ManualClock, network: Network, answer: LinkDown, outage_s: float
) -> None:
    """The next attempt is at most 8 s away.

    In a young outage, and in an old one if nothing listens.
    """
    network.answers = [answer] * 10_000
    async with running(make(clock)):
        await clock.advance(0)
        for _ in range(round(outage_s / 8)):
            await clock.advance(8)
        for _ in range(20):
            before = len(network.tried)
            await clock.advance(8)
            assert len(network.tried) > before


async def test_a_broker_that_refuses_is_asked_every_half_minute_at_most(
    clock: ManualClock, network: Network
) -> None:
    """In an hour's outage with refusals the attempts are 15 to 30 s apart."""
    network.answers = [NOT_AUTHORISED] * 10_000
    async with running(make(clock)):
        for _ in range(100):
            await clock.advance(36)
        before = len(network.tried)
        await clock.advance(300)
        assert 10 <= len(network.tried) - before <= 21


async def test_a_link_that_goes_on_counts_its_attempts(
    clock: ManualClock, network: Network
) -> None:
    """The count moves about every half minute, also during an interruption."""
    network.answers = [REFUSED] * 10_000
    link = make(clock)
    async with running(link):
        for _ in range(10):
            before = link.status.attempts
            await clock.advance(40)
            assert link.status.attempts > before
        tried = len(network.tried)
        link.interrupt(600)
        await clock.advance(30)
        for _ in range(10):
            before = link.status.attempts
            await clock.advance(40)
            assert link.status.attempts > before
        assert len(network.tried) - tried <= 1


async def test_waiting_for_the_first_connection(network: Network) -> None:
    """The wait for the first connection ends when it is up."""
    link = make(ManualClock())
    async with running(link):
        await link.wait_connected(1)
    assert network.tried == ["5"]


async def test_waiting_fails_with_where_and_why(network: Network) -> None:
    """A failed first connection is explained in one line; without an answer, after a timeout."""
    network.answers = [REFUSED]
    link = make(ManualClock())
    with pytest.raises(
        BrokerError, match=r"^broker mqtt://broker.example:1883: no answer within 0 s$"
    ):
        await link.wait_connected(0)
    async with running(link):
        with pytest.raises(
            BrokerError, match=r"^broker mqtt://broker.example:1883: connection refused$"
        ):
            await link.wait_connected(1)


async def test_announcements_go_first_and_state_after_them(
    clock: ManualClock, publisher: MqttPublisher, network: Network
) -> None:
    """Announcements are sent in order after every connect, before other messages."""
    publisher.on_connect(
        lambda: [Envelope(f"node/{number}", b"", 1, retain=True) for number in range(12)]
    )
    publisher.on_connect(lambda: [Envelope("publisher/p", b"online", 1, retain=True)])
    announced = [*(f"node/{number}" for number in range(12)), "publisher/p"]
    network.gate.clear()
    async with running(publisher):
        await clock.advance(0)
        assert not publisher.status.connected
        publishing = asyncio.create_task(
            publisher.publish([Envelope("node/0", b"new", 1, retain=True)])
        )
        await clock.advance(0)
        network.gate.set()
        await publishing
        assert network.sent == [*announced, "node/0"]
        assert publisher.status.connects == 1
        network.connections[-1].end("connection lost")
        await clock.advance(1)
        assert network.sent == [*announced, "node/0", *announced]


async def test_what_cannot_be_sent_is_counted(
    clock: ManualClock, publisher: MqttPublisher, network: Network
) -> None:
    """Without a connection all except retained state counts as dropped; nothing raises."""
    batch = [
        Envelope("telemetry", b""),
        Envelope("event", b"", 1),
        Envelope("node", b"", 1, retain=True),
    ]
    assert await publisher.publish(batch) == PublishResult(unsent=3, error="no connection")
    assert (publisher.status.dropped, publisher.status.sent) == (2, 0)
    async with running(publisher):
        await clock.advance(0)
        network.gate.clear()
        publishing = asyncio.create_task(publisher.publish(batch * 4))
        await clock.advance(0)
        network.connections[-1].end("connection lost")
        await publishing
    assert (publisher.status.dropped, publisher.status.sent) == (10, 0)


async def test_refused_messages_are_counted_and_named(
    clock: ManualClock, publisher: MqttPublisher, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused messages are counted, the last is stored with its reason.

    Each reason is logged once.
    """
    logged: list[tuple[str, str, str]] = []
    monkeypatch.setattr(
        mqtt.log,
        "warning",
        lambda event, **values: logged.append((event, values["topic"], values["reason"])),
    )
    network.refused = {"f/node/a": "1,501 bytes", "f/node/b": "22 bytes", "f/job": "quota"}
    state = [Envelope(topic, b"", 1, retain=True) for topic in ("f/node/a", "f/open", "f/node/b")]
    async with running(publisher):
        await clock.advance(0)
        mixed = await publisher.publish([*state, Envelope("telemetry", b"")])
        assert mixed == PublishResult(2, 2, 2, "the broker refuses f/node/a: 1,501 bytes")
        assert publisher.status.last_refusal == RefusedMessage("f/node/b", "22 bytes")
        await publisher.publish([Envelope("f/job", b"", 1)])
        assert await publisher.publish([state[1]]) == PublishResult(1)
    status = publisher.status
    assert (status.sent, status.refused, status.dropped) == (3, 3, 0)
    assert network.sent == ["f/open", "telemetry", "f/open"]
    assert logged == [
        ("publish_refused", "f/node/a", "1,501 bytes"),
        ("publish_refused", "f/job", "quota"),
    ]


async def test_refused_announcements_are_counted(
    publisher: MqttPublisher, network: Network
) -> None:
    """The link stays up with refused announcements; its status reports them."""
    publisher.on_connect(lambda: [Envelope("node", b"", 1, retain=True)])
    network.refused = {"node": "not authorised"}
    async with running(publisher):
        await publisher.wait_connected(1)
        assert (publisher.status.connected, publisher.status.refused) == (True, 1)


async def test_oversize_is_not_sent(clock: ManualClock, network: Network) -> None:
    """A payload above the limit stays here, counted; one at the limit goes."""
    publisher = MqttPublisher(BrokerUrl("h"), client_id="p", clock=clock, max_payload_bytes=10)
    async with running(publisher):
        await clock.advance(0)
        result = await publisher.publish([Envelope("big", b"x" * 11), Envelope("fits", b"x" * 10)])
    assert result == PublishResult(1, 1, 0, "big: 11 bytes, over the limit of 10")
    assert network.sent == ["fits"]
    assert (publisher.status.oversize, publisher.status.sent, publisher.status.dropped) == (1, 1, 0)


async def test_a_stop_is_no_trouble_of_the_broker(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link stopped before it is up logs no warning."""
    warned: list[str] = []
    monkeypatch.setattr(link_module.log, "warning", lambda event, **_: warned.append(event))
    clock = ManualClock()
    publisher = MqttPublisher(BrokerUrl("h"), client_id="p", clock=clock)
    publisher.on_connect(lambda: [Envelope("node", b"", 1, retain=True)])
    network.gate.clear()
    async with running(publisher):
        await clock.advance(0)
    assert (warned, publisher.status.last_error) == ([], "stopped")


async def test_broken_announcement_is_not_hidden(network: Network) -> None:
    """A bug in an announcement ends the run for its supervisor and closes the connection."""

    def announce() -> list[Envelope]:
        raise ZeroDivisionError

    publisher = MqttPublisher(BrokerUrl("h"), client_id="p", clock=ManualClock())
    publisher.on_connect(announce)
    with pytest.raises(ZeroDivisionError):
        await publisher.run()
    assert network.connections[-1].closed


async def test_an_interruption_ends_without_a_goodbye_and_lasts(
    clock: ManualClock, network: Network
) -> None:
    """An interrupted link drops its connection, and reconnects after the time set."""
    link = make(clock)
    async with running(link):
        await clock.advance(20)
        link.interrupt(30)
        link.interrupt(2)
        await clock.advance(0)
        assert network.connections[0].cut_short
        assert network.connections[0].closed
        assert (link.status.connected, link.status.last_error) == (False, "connection lost")
        await clock.advance(10)
        link.interrupt(5)
        await clock.advance(19.9)
        assert len(network.tried) == 1
        await clock.advance(0.2)
        assert link.status.connected
        assert link.status.connects == 2


async def test_an_interruption_of_nothing_keeps_away_all_the_same(
    clock: ManualClock, network: Network
) -> None:
    """Without a connection an interruption delays the next attempt.

    One under way is cut when it is up.
    """
    network.answers = [REFUSED]
    link = make(clock)
    async with running(link):
        await clock.advance(0)
        link.interrupt(10)
        await clock.advance(9.9)
        assert network.tried == ["5"]
        await clock.advance(0.2)
        assert link.status.connected
    early = make(clock)
    early.interrupt(10)
    async with running(early):
        await clock.advance(0)
        assert network.connections[-1].cut_short
        assert not early.status.connected
        await clock.advance(10.1)
        assert early.status.connects == 1


async def test_what_is_published_during_an_interruption_is_counted(
    clock: ManualClock, publisher: MqttPublisher, network: Network
) -> None:
    """A publisher that is interrupted drops and counts, and announces again when it is back."""
    publisher.on_connect(lambda: [Envelope("node", b"", 1, retain=True)])
    async with running(publisher):
        await clock.advance(20)
        publisher.interrupt(10)
        await clock.advance(0)
        await publisher.publish([Envelope("telemetry", b""), Envelope("event", b"", 1)])
        await clock.advance(10.1)
        await publisher.publish([Envelope("telemetry", b"")])
    assert network.sent == ["node", "node", "telemetry"]
    assert (publisher.status.dropped, publisher.status.connects) == (2, 2)


@pytest.mark.parametrize(
    ("attempt", "outage_s", "longest"),
    [
        (0, 0, 1),
        (1, 1, 2),
        (2, 3, 4),
        (3, 7, 8),
        (4, 15, 8),
        (30, 299.9, 8),
        (40, 300, 30),
        (10_000, 1e6, 30),
    ],
)
def test_wait_doubles_up_to_a_limit(attempt: int, outage_s: float, longest: float) -> None:
    """The wait is between half and all of a base that doubles to a limit.

    To 8 s in a young outage or where nothing listens, to 30 s in an old one.
    """
    rng = random.Random(7)  # noqa: S311  spreads waits, nothing secret
    waits = [backoff_s(attempt, outage_s, rng) for _ in range(500)]
    assert longest / 2 <= min(waits) < longest * 0.55
    assert longest * 0.95 < max(waits) <= longest
    unreached = [backoff_s(attempt, outage_s, rng, is_unreached=True) for _ in range(500)]
    assert max(unreached) <= min(longest, 8)
