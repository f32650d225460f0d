"""Trials of `trnfleet doctor` at incomplete brokers, in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.memory_bus import MemoryBus, MemoryPublisher, MemorySource

from trnfleet.services.doctor import broker as trials
from trnfleet.services.doctor.findings import Finding, Health
from trnfleet.transport.inbox import InboxLimits
from trnfleet.transport.packets import BrokerLimits

if TYPE_CHECKING:
    from trnfleet.wire.ports import Envelope

PREFIX = "trnfleet/v1/_doctor-1/probe"


class Broker(MemoryBus):
    """A broker in memory, with the interface of a session."""

    url = "memory"
    root = "trnfleet"
    limits = BrokerLimits()
    room = 100_000
    """Messages that a reader gets at once."""
    has_wills = True

    def publisher(
        self, client_id: str = "memory", *, will: Envelope | None = None
    ) -> MemoryPublisher:
        made: Any = super().publisher(client_id, will=will if self.has_wills else None)
        made.limits = self.limits
        found: MemoryPublisher = made
        return found

    def source(self, topics: Any, *, limits: InboxLimits | None = None) -> MemorySource:
        return super().source(topics, limits=limits or InboxLimits(messages=self.room))


async def tried(broker: Broker, *, retained: int = 0) -> dict[str, Finding]:
    """Return the findings by name."""
    found: list[Finding] = []
    session: Any = broker
    publisher: Any = broker.publisher()
    publisher.connect()
    await trials.Probes(session, publisher, PREFIX, "memory").run(found.append, retained=retained)
    return {each.name: each for each in found}


@pytest.fixture(autouse=True)
def _no_long_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not come would be waited for."""
    monkeypatch.setattr(trials, "ANSWER_S", 0.02)


async def test_a_broker_that_can_all_is_found_to_and_left_as_it_was() -> None:
    broker = Broker()
    found = await tried(broker, retained=300)
    assert {name: each.health for name, each in found.items()} == dict.fromkeys(
        ("round trip", "retained", "many retained", "last will", "largest message"), Health.OK
    )
    assert found["many retained"].value.startswith("300 of 300 (1 KiB each) reach a new reader in ")
    assert broker.retained == {}


async def test_retained_messages_that_reach_exact_subscriptions_only_are_a_warning() -> None:
    """Many of them are not tried then."""
    broker = Broker()
    broker.withholds_retained = True
    found = await tried(broker, retained=300)
    assert found["retained"][2:4] == (
        Health.WARNING,
        "reach exact subscriptions only, no wildcards",
    )
    assert "many retained" not in found


async def test_retained_messages_that_are_not_kept_are_a_problem() -> None:
    class Forgetful(Broker):
        def deliver(self, envelope: Envelope) -> None:
            super().deliver(envelope._replace(retain=False))

    assert (await tried(Forgetful()))["retained"][2:4] == (Health.PROBLEM, "are not kept")


async def test_retained_messages_beyond_a_reader_s_queue_are_counted() -> None:
    broker = Broker()
    broker.room = 50
    found = (await tried(broker, retained=300))["many retained"]
    assert found.health is Health.WARNING
    assert found.value.startswith("50 of 300 ")


async def test_a_last_will_that_does_not_come_is_a_warning() -> None:
    broker = Broker()
    broker.has_wills = False
    assert (await tried(broker))["last will"].health is Health.WARNING


@pytest.mark.parametrize(
    ("most", "health", "said"),
    [
        (
            10_000,
            Health.PROBLEM,
            "16 KiB does not come through: it says that it takes packets up to 9.77 KiB",
        ),
        (80_000, Health.WARNING, "64 KiB; 128 KiB does not come through"),
    ],
)
async def test_what_is_larger_than_the_broker_says_is_not_sent(
    most: int, health: Health, said: str
) -> None:
    broker = Broker()
    broker.limits = BrokerLimits(packet_bytes=most)
    found = (await tried(broker))["largest message"]
    assert found.health is health
    assert found.value.startswith(said)


async def test_a_user_who_may_not_write_is_not_tried_further() -> None:
    broker = Broker()
    broker.refuse("trnfleet/v1/#")
    found = await tried(broker)
    assert list(found) == ["round trip"]
    assert found["round trip"].health is Health.UNKNOWN
    assert (
        "the broker refuses trnfleet/v1/_doctor-1/probe/echo: not authorised"
        in found["round trip"].value
    )


async def test_messages_that_do_not_come_back_are_told_apart_from_a_broker_that_loses_some() -> (
    None
):
    """No message back means that the writer may not read; some lost are a problem."""

    class Lossy(Broker):
        left = 0

        def deliver(self, envelope: Envelope) -> None:
            self.left -= 1
            if self.left >= 0:
                super().deliver(envelope)

    broker = Lossy()
    assert (await tried(broker))["round trip"].health is Health.UNKNOWN
    broker.left = 7
    found = (await tried(broker))["round trip"]
    assert (found.health, found.value) == (
        Health.PROBLEM,
        "7 of 20 messages came back within 0.02 s",
    )


async def test_what_cannot_be_cleared_is_named() -> None:
    class Sticky(Broker):
        def refusal_of(self, envelope: Envelope) -> Any:
            if envelope.retain and not envelope.payload:
                self.refuse(f"{PREFIX}/#")
            return super().refusal_of(envelope)

    found = await tried(Sticky(), retained=10)
    assert found["clean-up"][2:4] == (Health.WARNING, "11 retained messages are left")
    assert f"{PREFIX}/#" in found["clean-up"].advice
