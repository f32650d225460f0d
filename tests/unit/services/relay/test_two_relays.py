"""Two relays of one cell: the one that began last stays, whichever hears the other first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.monitor.feed import Feed, ultraservers
from support.monitor.queue_source import QueueSource

from trnfleet.services.relay.run import REPEAT_S, RelayService
from trnfleet.wire.messages import decode_message
from trnfleet.wire.ports import Envelope, LinkStatus, PublishResult
from trnfleet.wire.rollups import RollupDescriptor
from trnfleet.wire.topics import DEFAULT_ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

NODE = "trnfleet/v1/demo/node/uc1/cell-a/0000"


class Kept:
    """A publisher that keeps what it is given."""

    def __init__(self) -> None:
        self.status = LinkStatus(connected=True)
        self.sent: list[Envelope] = []

    async def publish(self, batch: Iterable[Envelope]) -> PublishResult:
        self.sent += batch
        return PublishResult()

    def on_connect(self, announce: Callable[[], Iterable[Envelope]]) -> None:
        """Never connects again."""


class Relay:
    """A relay of a cell of one UltraServer, which began some seconds after the first one."""

    def __init__(self, name: str, began_s: float) -> None:
        self.feed = Feed(ultraservers(1))
        self.feed.clock.step_wall(began_s)
        self.feed.describe()
        self.top = Kept()
        self.service = RelayService(
            "demo", DEFAULT_ROOT, "cell-a", self.feed.monitor, self.top, name, f"boot-{name}"
        )

    async def tick(self) -> list[Envelope]:
        """Return the retained messages of a tick."""
        self.top.sent.clear()
        await self.service.tick()
        return [each for each in self.top.sent if each.retain]

    async def hear(self, *envelopes: Envelope) -> None:
        await self.service.tidy(QueueSource(list(envelopes), []))


def live(envelopes: list[Envelope]) -> list[Envelope]:
    """Return messages as a subscriber has them that was there before."""
    return [each._replace(retain=False) for each in envelopes]


@pytest.mark.parametrize("first_hears", [True, False])
@pytest.mark.parametrize(
    ("names", "began_s"), [(("relay-b", "relay-a"), (0.0, 5.0)), (("relay-a", "relay-b"), (0.0, 0.0))]
)
async def test_the_later_relay_stays_whichever_hears_the_other_first(
    names: tuple[str, str], began_s: tuple[float, float], *, first_hears: bool
) -> None:
    """Of two that began at once the one with the greater client id; the other ends, and never both."""
    before, after = (Relay(name, began) for name, began in zip(names, began_s, strict=True))
    described, described_after = live(await before.tick()), live(await after.tick())
    for relay in (before, after) if first_hears else (after, before):
        await relay.hear(*(described_after if relay is before else described))
    assert (before.service.rival, after.service.rival) == (names[1], "")


async def test_a_relay_that_is_heard_and_began_earlier_gets_an_answer_at_once() -> None:
    """Its descriptors have taken the place of the later one's on the broker, where they are those of the frames that stay."""
    before, after = Relay("relay-a", 0.0), Relay("relay-b", 5.0)
    await after.tick()
    assert await after.tick() == []
    await after.hear(*live(await before.tick()))
    (again,) = await after.tick()
    assert (again.topic, decode_message(again.payload, RollupDescriptor).publisher) == (NODE, "relay-b")
    await before.hear(again._replace(retain=False))
    assert before.service.rival == "relay-b"
    assert await after.tick() == []
    await after.feed.clock.advance(REPEAT_S)
    assert len(await after.tick()) == 1


async def test_what_a_relay_that_died_has_left_ends_nobody() -> None:
    """Not even one whose host's clock was ahead; blocks that the cell does not have are cleared once its own are known."""
    left, relay = Relay("relay-z", 3_600.0), Relay("relay-a", 0.0)
    (descriptor,) = await left.tick()
    other = descriptor._replace(topic=NODE.replace("0000", "0001"))
    await relay.hear(descriptor, other)
    assert relay.service.rival == ""
    sent = await relay.tick()
    assert [(each.topic, bool(each.payload)) for each in sent] == [(NODE, True), (other.topic, False)]
