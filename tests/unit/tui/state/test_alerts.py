"""Marks of alerts at every level of the hierarchy."""

from __future__ import annotations

from support.monitor.feed import standalone, ultraservers

from trnfleet.domain.address import Level
from trnfleet.domain.layout import FLEET_NODE, Layout, Node
from trnfleet.domain.severity import Severity
from trnfleet.tui.state.alerts import NO_MARKS, mark

CRITICAL, WARNING, INFO = Severity
LAYOUT = Layout.of(ultraservers(3) + standalone(2) + ultraservers(1, "uc2"))
CHIP = "uc1/us-0002/trn2u-0002-1/chip05"


def marked(**places: Severity) -> dict[str, Severity]:
    marks = mark(
        LAYOUT, ((LAYOUT.find(path.replace("_", "/")), severity) for path, severity in places.items())
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
    """Where alerts of several severities come together, the worst is told; below that each has its own."""
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
    """A job's or pipeline's alert has no node; no alerts mark nothing, nor do nodes of another layout."""
    assert mark(LAYOUT, [(None, CRITICAL)]).at(FLEET_NODE) is None
    assert NO_MARKS.at(FLEET_NODE) is None
    assert NO_MARKS.at(Node(Level.INSTANCE, 7)) is None
    assert mark(LAYOUT, [(FLEET_NODE, INFO)]).at(FLEET_NODE) is INFO
    assert NO_MARKS.at(Node(Level.CORE, 0)) is None
