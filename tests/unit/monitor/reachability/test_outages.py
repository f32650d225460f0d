"""A fleet over two connections.

Losing one is no silence and does not affect the other.
"""

from __future__ import annotations

from support.monitor.feed import Feed, SilentSource, ultraservers

from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.monitor import Monitor
from trnfleet.monitor.pipeline.publishers import State
from trnfleet.services.files.rules import load_rules
from trnfleet.wire.ports import LinkStatus

NAMES = {"ultraserver-silent", "instance-silent", "chips-silent", "connection-lost"}
RULES = tuple(rule for rule in load_rules() if rule.name in NAMES)


class TwoLinks(Feed):
    """A fleet with one UltraServer described over each of two connections."""

    def __init__(self) -> None:
        super().__init__(ultraservers(2))
        source = SilentSource()
        self.parts = tuple(
            LinkStatus(broker=f"mqtt://b{number}:1883", connected=True, connects=1)
            for number in (1, 2)
        )
        source.status.parts = self.parts
        self.monitor = Monitor(source, "demo", clock=self.clock, rules=RULES, proof_s=23.0)
        self.scatter()
        self.dead: set[str] = set()
        first = self.on("us-0001")
        second = self.on("us-0002")
        for number, paths in ((1, first), (2, second)):
            self.monitor.apply([each._replace(link=number) for each in self.announcements(paths)])
        self.monitor.compute()

    def on(self, ultraserver: str) -> list[str]:
        """Return the instances of an UltraServer."""
        return [path for path in self.layout.instances if f"/{ultraserver}/" in path]

    async def live(self, seconds: int) -> None:
        """Publish once a second from everything not dead."""
        for _ in range(seconds):
            await self.clock.advance(1.0)
            self.tick([path for path in self.layout.instances if path not in self.dead])

    def connect(self, *, up: bool) -> None:
        """Lose the second connection, or make it again."""
        part = self.parts[1]
        part.connected, part.changed_s = up, self.clock.monotonic_s()
        part.connects += up
        self.dead = set() if up else set(self.on("us-0002"))

    @property
    def firing(self) -> set[tuple[str, str]]:
        """Rule and target of what fires."""
        return {
            (each.name, each.target)
            for each in self.monitor.alerts.active()
            if each.fired_ns is not None and not each.inhibited_by
        }


async def test_what_a_lost_connection_carries_is_not_silent() -> None:
    """Chips behind a lost connection are stale without alerts.

    Those of the other connection are judged as ever.
    """
    fleet = TwoLinks()
    await fleet.live(5)
    fleet.connect(up=False)
    fleet.dead.add(fleet.on("us-0001")[0])
    await fleet.live(30)
    assert fleet.monitor.store.count(Freshness.STALE) == 64 + 16
    assert fleet.firing == {
        ("connection-lost", "pipeline"),
        ("instance-silent", fleet.on("us-0001")[0]),
    }
    assert fleet.monitor.findings.total == 1
    # The publisher of both is heard over the other connection; one that is not heard at all is not
    # silent either.
    assert fleet.monitor.pipeline(at_once=True).publishers.count(State.SILENT) == 0
    fleet.connect(up=True)
    await fleet.live(12)
    assert fleet.firing == set()
    # Ticks that could not come are counted apart: no loss is told of them.
    counts = fleet.monitor.counts
    assert counts.unheard == 4 * 30
    assert counts.lost - counts.unheard == 30


async def test_a_publisher_behind_a_lost_connection_is_not_silent() -> None:
    """A publisher behind a lost connection is not silent.

    One that stops while heard is.
    """
    fleet = TwoLinks()
    for number, (name, server) in enumerate((("one", "us-0001"), ("two", "us-0002")), 1):
        fleet.publisher = name
        fleet.monitor.apply(
            [each._replace(link=number) for each in fleet.announcements(fleet.on(server))]
        )
    fleet.monitor.compute()
    await fleet.live(5)
    fleet.connect(up=False)
    await fleet.live(8)
    publishers = fleet.monitor.pipeline(at_once=True).publishers
    assert publishers.count(State.SILENT) == 0
    fleet.dead |= set(fleet.on("us-0001"))
    # Until then the other connection might be half open.
    await fleet.live(30)
    publishers = fleet.monitor.pipeline(at_once=True).publishers
    assert [
        name
        for name, state in zip(publishers.names, publishers.state, strict=True)
        if state == State.SILENT
    ] == ["one"]


async def test_what_does_not_come_back_with_its_connection_is_found() -> None:
    """After a 20 s outage sources have ten seconds plus three periods.

    Then they are silent.
    """
    fleet = TwoLinks()
    await fleet.live(5)
    fleet.connect(up=False)
    await fleet.live(20)
    fleet.connect(up=True)
    fleet.dead = set(fleet.on("us-0002"))
    await fleet.live(11)
    assert {name for name, _ in fleet.firing} <= {"connection-lost"}
    await fleet.live(12)
    assert fleet.firing == {("ultraserver-silent", "uc1/us-0002")}


async def test_a_source_that_is_heard_over_both_connections_is_judged_while_one_stands() -> None:
    """A descriptor received over both connections is known over both.

    Even if its bytes are the same.
    """
    fleet = TwoLinks()
    fleet.monitor.apply(
        [each._replace(link=1) for each in fleet.announcements(fleet.on("us-0002"))]
    )
    await fleet.live(5)
    fleet.connect(up=False)
    await fleet.live(12)
    assert ("ultraserver-silent", "uc1/us-0002") in fleet.firing
