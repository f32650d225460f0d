from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pytest
from support.memory_bus import MemoryBus
from support.monitor.feed import START_NS, Feed, ultraservers
from support.monitor.state import stored_difference

from trnfleet.clock import ManualClock
from trnfleet.domain.faults.table import FAULTS
from trnfleet.errors import ConfigError
from trnfleet.monitor.freshness import Freshness
from trnfleet.sim.publish import faulty_publisher
from trnfleet.sim.publish.faulty_publisher import FaultyPublisher, TransportControl, TransportFault
from trnfleet.sim.rng import Rng
from trnfleet.wire.ports import Envelope

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

TICKS = 60
TOPICS = 4


class SimulationRun:
    """A simulated fleet publishing through faults over a bus to its monitor.

    One tick a second.
    """

    def __init__(self, *faults: TransportFault, seed: int = 7, parts: int = 1) -> None:
        self.feed = Feed(ultraservers(1))
        self.feed.scatter()
        self.clock = self.feed.clock
        self.bus = MemoryBus(self.clock)
        self.inner = self.bus.publisher("feed", will=self.feed.publisher_envelope("offline"))
        self.source = self.bus.source([("#", 1)])
        self.tick = 0
        self.parts = parts
        self.received: list[Envelope] = []
        self.publisher = FaultyPublisher(
            self.inner, faults, clock=self.clock, rng=Rng(seed), now_s=lambda: float(self.tick)
        )
        self.publisher.on_connect(self.feed.announcements)
        self.source.connect()
        self.tasks = [
            asyncio.create_task(self.inner.run()),
            asyncio.create_task(self.publisher.run()),
        ]

    async def run(self, ticks: int = TICKS) -> SimulationRun:
        """Publish ticks; the monitor reads the messages after each."""
        await self.clock.advance(0)
        for _ in range(ticks):
            messages = self.feed.telemetry()
            size = -(-len(messages) // self.parts)
            for first in range(0, len(messages), size):
                await self.publisher.publish(messages[first : first + size])
            await self.clock.advance(0.5)
            await self._take()
            await self.clock.advance(0.5)
            await self._take()
            self.tick += 1
            if self.tick == 1:
                self.feed.monitor.compute()
        self.feed.monitor.compute()
        return self

    async def end(self) -> None:
        """End the tasks."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def _take(self) -> None:
        if self.source.waiting:
            batch = await self.source.take()
            self.received += batch
            self.feed.monitor.apply(batch)

    def pipeline(self) -> dict[str, int]:
        """Return the monitor's nonzero counts of problems.

        A gap counts its lost messages.
        """
        counts = asdict(self.feed.monitor.counts)
        left_out = {"read", "others", "messages", "chips", "sent", "accepted", "mended", "gaps"}
        return {name: value for name, value in counts.items() if value and name not in left_out}


async def ran(*faults: TransportFault, ticks: int = TICKS, **options: Any) -> SimulationRun:
    stage = await SimulationRun(*faults, **options).run(ticks)
    await stage.end()
    return stage


def fault(
    kind: Any, magnitude: float = 1.0, from_s: float = 5, until_s: float = 55, **rest: Any
) -> TransportFault:
    return TransportFault(kind, from_s, until_s, magnitude, **rest)


async def test_without_faults_nothing_is_touched() -> None:
    """Other messages go through in order, unchanged."""
    stage = await ran(fault("drop", 1.0, 500, 600))
    assert stage.feed.monitor.counts.messages == TICKS * TOPICS
    assert stage.pipeline() == {}
    assert not any(asdict(stage.publisher.counts).values())


async def test_what_is_dropped_is_counted_as_lost() -> None:
    """A monitor counts exactly the messages never sent, and continues."""
    stage = await ran(fault("drop", 0.3))
    dropped = stage.publisher.counts.dropped
    assert 0.15 * 50 * TOPICS < dropped < 0.45 * 50 * TOPICS
    assert stage.pipeline() == {"lost": dropped}
    assert stage.feed.monitor.counts.messages == TICKS * TOPICS - dropped
    assert stage.feed.monitor.store.count(Freshness.LIVE) == 64


async def test_a_full_outage_of_telemetry_is_lost_to_the_last_message() -> None:
    """A share of 1 drops every message from its begin to its end."""
    stage = await ran(fault("drop", 1.0, 10, 20))
    assert stage.pipeline() == {"lost": 10 * TOPICS}


async def test_what_is_doubled_is_counted_as_duplicates() -> None:
    """A monitor counts every second copy, and its state is the one without them."""
    stage = await ran(fault("duplicate", 0.4))
    straight = await ran()
    doubled = stage.publisher.counts.duplicated
    assert doubled > 20
    assert stage.pipeline() == {"duplicates": doubled}
    assert stored_difference(stage.feed.monitor.store, straight.feed.monitor.store) == []


async def test_what_is_out_of_order_is_counted_as_late() -> None:
    """Every overtaken message is late, none is lost, and the newest values stay."""
    stage = await ran(fault("reorder", 0.3))
    straight = await ran()
    reordered = stage.publisher.counts.reordered
    assert reordered > 20
    assert stage.pipeline() == {"late": reordered}
    assert (stage.publisher.held, stage.publisher.held_bytes) == (0, 0)
    assert stored_difference(stage.feed.monitor.store, straight.feed.monitor.store) == []


async def test_delay_keeps_order_and_what_its_end_overtakes_is_late() -> None:
    """A delay keeps telemetry in order; at its end delayed messages are overtaken."""
    during = await ran(fault("delay", 2.25, 5, 500))
    assert during.pipeline() == {}
    assert during.feed.monitor.ingest.lag_s == pytest.approx(2.25, abs=0.3)
    assert during.publisher.held == 2 * TOPICS
    after = await ran(fault("delay", 2.25))
    # Ticks 53 and 54 are on their way until 55.25 and 56.25 s, when tick 55 has gone out.
    assert after.pipeline() == {"late": 2 * TOPICS}
    assert after.publisher.counts.delayed == 50 * TOPICS
    assert after.publisher.held == 0


async def test_a_delay_ends_between_two_ticks() -> None:
    """Delayed messages go out when their time has come, not with the next tick."""
    stage = SimulationRun(fault("delay", 0.25, 0, 500))
    await stage.clock.advance(0)
    await stage.publisher.publish(stage.feed.telemetry())
    assert stage.publisher.held == TOPICS
    await stage.clock.advance(0.2)
    assert stage.publisher.held == TOPICS
    await stage.clock.advance(0.1)
    assert stage.publisher.held == 0
    assert stage.source.waiting == 5 + TOPICS
    await stage.end()


async def test_a_lost_connection_takes_everything_and_announces_again() -> None:
    """During an outage only the last will is published.

    Then all state is announced, and telemetry of the outage is lost.
    """
    stage = SimulationRun(fault("late_reconnect", from_s=10, until_s=20))
    await stage.run(15)
    assert not stage.publisher.status.connected
    assert stage.feed.monitor.store.count(Freshness.OFFLINE) == 64
    await stage.run(15)
    assert stage.feed.monitor.store.count(Freshness.LIVE) == 64
    assert (stage.inner.status.connects, stage.publisher.counts.interruptions) == (2, 1)
    assert stage.inner.status.dropped == 10 * TOPICS
    assert stage.pipeline() == {"lost": 10 * TOPICS}
    await stage.end()


async def test_a_fast_simulation_is_away_for_as_long_as_it_simulates() -> None:
    """At ten times the speed, an outage of 100 simulated seconds lasts ten wall seconds."""
    clock = ManualClock(START_NS)
    inner = MemoryBus(clock).publisher()
    lost = [fault("late_reconnect", from_s=0, until_s=100)]
    publisher = FaultyPublisher(inner, lost, clock=clock, rng=Rng(7), now_s=lambda: 0.0, speed=10.0)
    running = asyncio.create_task(inner.run())
    await clock.advance(1)
    await publisher.publish([])
    await clock.advance(9.9)
    assert inner.status.connects == 1
    await clock.advance(0.2)
    assert inner.status.connects == 2
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_all_at_once() -> None:
    """With all kinds together every message is accounted for."""
    stage = await ran(fault("drop", 0.2), fault("duplicate", 0.2), fault("reorder", 0.2))
    counts = stage.publisher.counts
    assert stage.pipeline() == {
        "lost": counts.dropped,
        "late": counts.reordered,
        "duplicates": counts.duplicated,
    }
    assert min(counts.dropped, counts.reordered, counts.duplicated) > 10


async def test_state_and_events_are_not_touched() -> None:
    """Retained and acknowledged messages pass at once under any fault."""
    clock = ManualClock(START_NS)
    bus = MemoryBus(clock)
    inner, source = bus.publisher(), bus.source([("#", 1)])
    faults = [fault("drop", 1.0, 0, 10), fault("delay", 5.0, 0, 10)]
    publisher = FaultyPublisher(inner, faults, clock=clock, rng=Rng(7), now_s=lambda: 0.0)
    inner.connect()
    source.connect()
    state, event = Envelope("node/a", b"1", 1, retain=True), Envelope("event/a", b"2", 1)
    await publisher.publish(
        [state, Envelope("telemetry/a", b"3"), event, Envelope("s", b"4", 0, retain=True)]
    )
    assert [each.topic for each in await source.take()] == ["node/a", "event/a", "s"]


async def test_the_seed_decides_and_batches_do_not() -> None:
    """The same seed hits the same messages in any batches; another seed hits others."""
    faults = (fault("drop", 0.3), fault("duplicate", 0.3), fault("reorder", 0.3))

    async def by_topic(**options: Any) -> dict[str, list[bytes]]:
        stage = await ran(*faults, ticks=30, **options)
        got: dict[str, list[bytes]] = {}
        for envelope in stage.received:
            if "/telemetry/" in envelope.topic:
                got.setdefault(envelope.topic, []).append(envelope.payload)
        return got

    whole = await by_topic()
    assert whole == await by_topic(parts=4)
    assert whole != await by_topic(seed=8)


async def test_topics_are_chosen_by_pattern() -> None:
    """A fault hits the topics of its pattern alone."""
    stage = await ran(fault("drop", 1.0, 10, 20, topics="*/us-0001/trn2u-0001-2"))
    assert stage.pipeline() == {"lost": 10}
    assert stage.publisher.counts.dropped == 10


async def test_faults_come_at_run_time() -> None:
    """An added fault begins at its time or at once; an ended one is dropped."""
    stage = SimulationRun(fault("drop", 1.0, 0, 2))
    await stage.run(5)
    stage.publisher.add(fault("duplicate", 1.0, 0, 8))
    assert [each.kind for each in stage.publisher.active()] == ["duplicate"]
    await stage.run(5)
    await stage.end()
    assert stage.publisher.counts.duplicated == 3 * TOPICS
    assert len(stage.publisher.faults) == 1


async def test_what_is_held_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit messages go out at once, and are counted."""
    monkeypatch.setattr(faulty_publisher, "MOST_HELD_BYTES", 20_000)
    stage = SimulationRun(fault("delay", 50, 0, 500))
    await stage.run(10)
    assert 0 < stage.publisher.held < 20
    assert stage.publisher.held_bytes <= 20_000
    assert stage.publisher.counts.unheld == 10 * TOPICS - stage.publisher.held
    await stage.clock.advance(60)
    assert (stage.publisher.held, stage.publisher.held_bytes) == (0, 0)
    await stage.end()


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (("dropp", 0, 1), "did you mean 'drop'"),
        (("drop", 0, 1, 1.5), "above 0 and at most 1"),
        (("drop", 0, 1, 0.0), "above 0"),
        (("drop", 0, 1, float("nan")), "above 0"),
        (("delay", 0, 1, 61), "at most 60"),
        (("drop", 5, 5), "the second later"),
        (("drop", -1, 5), "the second later"),
        (("drop", 0, float("inf")), "the second later"),
    ],
)
def test_impossible_faults(fields: Iterable[Any], why: str) -> None:
    """A fault out of its range is refused with the field and the limit."""
    with pytest.raises(ConfigError, match=why):
        TransportFault(*fields)


def test_faults_are_named_by_the_table() -> None:
    """A fault requested by name has the table's defaults, unless overridden."""
    for name, row in FAULTS.items():
        if row.is_transport:
            made = TransportFault.from_row(name, "*", 5.0)
            assert (made.from_s, made.until_s, made.magnitude) == (
                5.0,
                5.0 + row.lasts_s,
                row.magnitude,
            )
            assert name == f"transport_{made.kind}"
    made = TransportFault.from_row("transport_drop", "uc1", 5.0, lasts_s=10.0, magnitude=0.5)
    assert made == TransportFault("drop", 5.0, 15.0, 0.5, "*/telemetry/uc1")


@pytest.mark.parametrize(
    ("name", "target", "values", "why"),
    [
        ("transport_drpo", "*", {}, "did you mean 'transport_drop'"),
        ("straggler", "*", {}, "not a fault of the connection"),
        ("transport_drop", "*", {"magnitude": 2.0}, "must be 0.001 to 1"),
        ("transport_drop", "*", {"lasts_s": -1.0}, "must be above 0"),
        ("transport_late_reconnect", "uc1", {}, "its target is"),
        ("transport_drop", "uc1/us-0002", {}, "did you mean 'uc1/us-0001'"),
    ],
)
async def test_faults_that_cannot_be(
    name: str, target: str, values: dict[str, float], why: str
) -> None:
    """Unknown faults and targets without a publisher are refused with the nearest."""
    stage = await SimulationRun().run(1)
    with pytest.raises(ConfigError, match=why):
        stage.publisher.inject(name, target, **values)
    assert stage.publisher.active() == []
    await stage.end()


async def test_the_answer_to_an_injected_fault_describes_it() -> None:
    """The answer names fault, size, target and duration.

    The fault acts at once, a lost connection after a tick.
    """
    stage = await SimulationRun().run(3)
    done = stage.publisher.inject("transport_drop", "uc1/us-0001", lasts_s=5.0, magnitude=1.0)
    assert (
        done == "transport_drop of 100 % of the messages on uc1/us-0001 for 5 s of simulated time"
    )
    assert stage.publisher.inject("transport_delay", "*").startswith(
        "transport_delay of 2 s on * for 60 s"
    )
    assert stage.publisher.inject("transport_late_reconnect", "*") == (
        "transport_late_reconnect on * for 30 s of simulated time"
    )
    assert {(each.kind, each.until_s) for each in stage.publisher.active()} == {
        ("drop", 8.0),
        ("delay", 63.0),
    }
    stage.tick += 1
    lost = [each for each in stage.publisher.active() if each.kind == "late_reconnect"]
    assert [each.until_s for each in lost] == [pytest.approx(33.0)]
    await stage.end()


def test_faults_have_a_limit() -> None:
    """Commands cannot pile up faults without end."""
    publisher = FaultyPublisher(
        MemoryBus(clock := ManualClock(START_NS)).publisher(),
        clock=clock,
        rng=Rng(7),
        now_s=lambda: 0.0,
    )
    for _ in range(faulty_publisher.MOST_FAULTS):
        publisher.inject("transport_drop", "*")
    with pytest.raises(ConfigError, match="100 transport faults"):
        publisher.inject("transport_drop", "*")


@pytest.mark.parametrize(
    ("target", "hit"),
    [
        ("*", True),
        ("uc1", True),
        ("uc1/us-0001", True),
        ("uc1/us-000", False),
        ("*/chip05", True),
        ("uc2", False),
    ],
)
def test_a_target_holds_what_is_below_it(target: str, hit: bool) -> None:
    """A target (address or pattern) includes topics below it, not ones with the same prefix."""
    fault = TransportFault.from_row("transport_drop", target, 0.0)
    assert fault.hits("trnfleet/v1/demo/telemetry/uc1/us-0001/trn2u-0001-2/chip05") is hit


class Rest:
    """A simulation's side of commands; records its name."""

    def inject(
        self, fault: str, target: str, *, lasts_s: float | None, magnitude: float | None, by: str
    ) -> str:
        return f"{fault} {target} {lasts_s} {magnitude} {by}"

    def jump(self, by_s: float) -> str:
        return f"jump {by_s}"

    def rebirth(self) -> str:
        return "rebirth"

    def reserve(self, action: str, args: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        return f"{action} {dict(args)}", {}

    def faults(self) -> dict[str, Any]:
        return {"active": [{"fault": "straggler", "target": "uc1", "left_s": None}]}


def test_commands_reach_the_way_and_the_fleet() -> None:
    """Transport faults are injected at the publisher, others in the simulation.

    Both are listed.
    """
    clock = ManualClock(START_NS)
    publisher = FaultyPublisher(
        MemoryBus(clock).publisher(), clock=clock, rng=Rng(7), now_s=lambda: 0.0
    )
    control = TransportControl(Rest(), publisher)
    said = control.inject("transport_duplicate", "*", lasts_s=9.0, magnitude=1.0, by="alice")
    assert said.startswith("transport_duplicate of 100 %")
    assert (
        control.inject("straggler", "uc1", lasts_s=None, magnitude=0.5, by="alice")
        == "straggler uc1 None 0.5 alice"
    )
    assert (control.jump(5.0), control.rebirth()) == ("jump 5.0", "rebirth")
    assert control.faults()["active"] == [
        {"fault": "straggler", "target": "uc1", "left_s": None},
        {"fault": "transport_duplicate", "target": "*", "left_s": 9.0},
    ]
