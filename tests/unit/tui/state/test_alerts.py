"""Marks of alerts at every level of the hierarchy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.monitor.feed import Feed, standalone, ultraservers
from support.tui.alerts import held, rule
from support.tui.handled import INSTANCE, faulty, turn
from support.tui.pilot import fleet_app

from trnfleet.domain.address import Level
from trnfleet.domain.layout import FLEET_NODE, Layout, Node
from trnfleet.domain.severity import Severity
from trnfleet.tui.state.alerts import NO_MARKS, mark

if TYPE_CHECKING:
    from trnfleet.monitor.alerting.store import AlertWithStatus

CRITICAL, WARNING, INFO = Severity
LAYOUT = Layout.of(ultraservers(3) + standalone(2) + ultraservers(1, "uc2"))
CHIP = "uc1/us-0002/trn2u-0002-1/chip05"


def marked(**places: Severity) -> dict[str, Severity]:
    marks = mark(
        LAYOUT,
        ((LAYOUT.find(path.replace("_", "/")), severity) for path, severity in places.items()),
    )
    found = {}
    for level in (Level.FLEET, Level.CLUSTER, Level.ULTRASERVER, Level.INSTANCE, Level.CHIP):
        for number in range(LAYOUT.count(level)):
            node = Node(level, number)
            worst = marks.at(node)
            if worst is not None:
                found[LAYOUT.path(node)] = worst
    return found


def test_a_chips_alert_marks_all_above_it_and_nothing_else() -> None:
    """The chip, its instance, UltraServer, cluster and the fleet; no sibling, nothing below."""
    assert marked(**{CHIP.replace("/", "_"): WARNING}) == dict.fromkeys(
        ["", "uc1", "uc1/us-0002", "uc1/us-0002/trn2u-0002-1", CHIP], WARNING
    )


def test_the_worst_wins_at_each_level() -> None:
    """A common ancestor shows the worst severity, each node below its own."""
    found = marked(**{"uc1_us-0001": INFO, "uc1_us-0002_trn2u-0002-1": CRITICAL, "uc2": WARNING})
    assert found["uc1"] is CRITICAL
    assert found["uc1/us-0001"] is INFO
    assert "uc1/us-0001/trn2u-0001-0" not in found
    assert found["uc2"] is WARNING
    assert "uc2/us-0001" not in found
    assert found[""] is CRITICAL


def test_two_alerts_of_one_chip() -> None:
    """A chip with two alerts has the worse one, whichever came first."""
    node = LAYOUT.find(CHIP)
    assert node is not None
    for order in ((INFO, CRITICAL), (CRITICAL, INFO)):
        assert mark(LAYOUT, [(node, each) for each in order]).at(node) is CRITICAL


def test_what_is_nowhere_marks_nothing() -> None:
    """Alerts of jobs or pipelines mark no node, nor do nodes of another layout.

    Without alerts there are no marks.
    """
    assert mark(LAYOUT, [(None, CRITICAL)]).at(FLEET_NODE) is None
    assert NO_MARKS.at(FLEET_NODE) is None
    assert NO_MARKS.at(Node(Level.INSTANCE, 7)) is None
    assert mark(LAYOUT, [(FLEET_NODE, INFO)]).at(FLEET_NODE) is INFO
    assert NO_MARKS.at(Node(Level.CORE, 0)) is None


async def test_a_grouped_alert_marks_the_members_that_fire() -> None:
    """An UltraServer's alert about chips of two instances marks these chips and instances.

    No others are marked.
    """
    feed = await faulty(seconds=1)
    beside = "uc1/us-0001/trn2u-0001-3"
    hot = [f"{INSTANCE}/chip07", f"{beside}/chip09"]
    nodes = [feed.layout.find(path) for path in (*hot, f"{INSTANCE}/chip08")]
    feed.set("temperature_c", 96.0, [node.number for node in nodes[:2] if node is not None])
    for _ in range(12):
        await turn(feed)
    snapshot = fleet_app(feed).context.alerts
    snapshot.refresh(feed.clock.monotonic_s())
    (alert,) = [each.alert for each in snapshot.active if each.alert.name == "overheated"]
    assert alert.place == "uc1/us-0001"
    marks = snapshot.marks
    assert [node is not None and marks.at(node) is not None for node in nodes] == [
        True,
        True,
        False,
    ]
    instances = {path: marks.instances[number] for number, path in enumerate(feed.layout.instances)}
    assert {path for path, rank in instances.items() if rank == WARNING.rank} >= {beside}
    assert (
        instances["uc1/us-0001/trn2u-0001-0"]
        == instances["uc1/us-0002/trn2u-0002-0"]
        == len(Severity)
    )


def test_a_slow_job_is_told_where_its_cause_is() -> None:
    """A slow job's alert is shown at its cause, not at its first place.

    Without a cause, or if the job is down, its first place shows the alert, too.
    """
    feed = Feed(ultraservers(2))
    feed.jobs = {"llama": ("uc1/us-0001/trn2u-0001-0",)}
    feed.describe()
    snapshot = fleet_app(feed).context.alerts
    slow = rule("slow", "warning", scope="job", figure="step_time_s", above=1.0)
    begin = "uc1/us-0001/trn2u-0001-0"
    cause = "uc1/us-0001/trn2u-0001-2/chip05"
    alert = held("llama", of=slow, place=begin, job="llama", cause=f"{cause} (throttled)")

    def told(*of: AlertWithStatus) -> list[str]:
        snapshot.active, snapshot.revision = [*of], snapshot.revision + 1
        places = (
            "uc1",
            "uc1/us-0001",
            begin,
            f"{begin}/chip00",
            cause,
            f"{INSTANCE}/chip06",
            "uc1/us-0002",
        )
        return [place for place in places if snapshot.touching(place)]

    assert told(alert) == ["uc1", "uc1/us-0001", cause]
    unknown = held("llama", of=slow, place=begin, job="llama")
    assert told(unknown) == ["uc1", "uc1/us-0001", begin, f"{begin}/chip00"]
    feed.states = {"llama": "failed"}
    feed.describe()
    assert told(alert) == ["uc1", "uc1/us-0001", begin, f"{begin}/chip00", cause]
