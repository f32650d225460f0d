"""Rows, filters, charts and notifications of alerts, without a screen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.tui.alerts import Board, held, rule, storm

from trnfleet.domain.alerts.matchers import parse_matchers, split_matchers
from trnfleet.domain.alerts.status import AlertStatus
from trnfleet.domain.filters.language import parse
from trnfleet.domain.severity import Severity
from trnfleet.errors import ConfigError
from trnfleet.monitor.alerting.store import AlertWithStatus
from trnfleet.monitor.problems.problem import Place, Problem
from trnfleet.monitor.store.rings.record import Track
from trnfleet.tui import theme
from trnfleet.tui.alerts.details import Past, about_lines, chart, moment
from trnfleet.tui.alerts.lists import AlertPlan, alert_head, alert_parts, silence_head
from trnfleet.tui.alerts.query import AlertRow, columns_of
from trnfleet.tui.alerts.rows import COLLAPSE_FROM, arrange, in_order
from trnfleet.tui.charts.axes import ChartMark, Limit, Times
from trnfleet.tui.charts.chart import Chart, Series
from trnfleet.tui.notifications import ALARM_EVERY_S, AlertNews, AlertNotice
from trnfleet.tui.state.alerts import touches
from trnfleet.tui.widgets.cells import text_of, width_of
from trnfleet.tui.widgets.facts import Fact, fact_lines


def test_few_alerts_stay_lines_and_many_collapse() -> None:
    """Below the limit each alert is a line, from it on they are one.

    Nothing is lost either way.
    """
    assert len(arrange(storm(COLLAPSE_FROM - 1), set())) == COLLAPSE_FROM - 1
    one = held(of=rule("other", "warning"))
    rows = arrange([one, *storm(1_000)], set())
    assert len(rows) == 2
    group = rows[1].group
    assert group is not None
    assert len(group.members) == 1_000
    assert group.place == "uc1"
    opened = arrange([one, *storm(1_000)], {group.key})
    assert len(opened) == 2 + 1_000
    assert sum(row.single is not None for row in opened) == 1_001
    assert len({row.key for row in opened}) == len(opened)
    assert all(row.is_inside for row in opened[2:])


def test_standings_collapse_apart() -> None:
    """Firing alerts never share a line with acknowledged ones of the same rule."""
    both = [*storm(10), *storm(20, status=AlertStatus.ACKED)]
    counts = [len(row.group.members) for row in arrange(both, set()) if row.group is not None]
    assert counts == [10, 20]


def test_orders() -> None:
    """By severity, unacknowledged alerts come first; by age the newest; by place the addresses."""
    old = held("uc1/us-0002", age_s=500, place="uc1/us-0002")
    new = held("uc1/us-0003", age_s=5, place="uc1/us-0003", status=AlertStatus.ACKED)
    first = held("uc1/us-0001", age_s=50, place="uc1/us-0001", status=AlertStatus.SILENCED)
    given = [new, old, first]
    assert in_order(given, "severity") == [old, new, first]
    assert in_order(given, "age") == [new, first, old]
    assert in_order(given, "place") == [first, old, new]


@pytest.mark.parametrize("width", [39, 79, 99, 119, 129, 159, 239])
@pytest.mark.parametrize("shows_status", [False, True])
def test_lines_are_as_wide_as_their_head(width: int, *, shows_status: bool) -> None:
    """Alerts, collapsed ones and the head have the same cells at every width.

    Long texts are cut.
    """
    plan = AlertPlan.for_width(width, shows_status=shows_status)
    given = [
        *storm(8),
        held(
            of=rule("a-rule-with-a-very-long-name-indeed", "warning"), job="j" * 40, chips=1_000_000
        ),
        held(of=rule("quiet"), status=AlertStatus.PENDING),
    ]
    snapshot: Any = Board()
    lines = [alert_parts(row, plan, snapshot, selected=False) for row in arrange(given, set())]
    widths = {width_of(line) for line in (*lines, alert_head(plan))}
    assert len(widths) == 1
    if width >= 79:
        assert widths == {width}
        assert "8 alerts" in text_of(lines[0])
        assert "✖ crit" in text_of(lines[0])
    assert width_of(silence_head(width)) > 0


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a=b", ["a=b"]),
        (' a="b c", d!=e  f=~"x\\"y" ', ['a="b c"', "d!=e", 'f=~"x\\"y"']),
        ("a=b,c=d", ["a=b", "c=d"]),
        ("", []),
    ],
)
def test_matchers_in_a_line(text: str, parts: list[str]) -> None:
    """Spaces and commas divide matchers, but not within quotes."""
    assert split_matchers(text) == parts


@pytest.mark.parametrize("text", ["nonsense", "a=b and c=d", 'a="b', "=x"])
def test_what_is_no_matcher(text: str) -> None:
    """Text that is no matcher is an error, rather than a silence for something else."""
    with pytest.raises(ConfigError):
        parse_matchers(split_matchers(text))


def test_filters() -> None:
    """A part, its opposite, matchers, a place, and all of them together."""
    alert = held().alert
    said = "critical hot uc1/us-0001 ann".lower

    def keeps(pattern: str) -> bool:
        return parse(pattern, columns_of([alert.rule])).keeps(AlertRow(alert, said))

    for pattern in (
        "",
        "HOT",
        "!cold",
        "severity=critical",
        "at=uc1",
        "at=uc1/us-0001/trn2u-0001-0/chip05/nc0",
        "severity=critical at=uc1/us-0001 ann",
        "alertname=~h.*",
        "sev>=warning & rule=hot and ann",
    ):
        assert keeps(pattern), pattern
    for pattern in (
        "cold",
        "!hot",
        "severity=warning",
        "at=uc2",
        "at=uc1/us-00011",
        "severity=critical cold",
    ):
        assert not keeps(pattern), pattern
    with pytest.raises(ConfigError, match="not a valid regular expression"):
        keeps("severity=~(")
    with pytest.raises(ConfigError, match="did you mean 'severity'"):
        keeps("severty=critical")


def test_touching() -> None:
    """Alerts at, below and above touch a place.

    One without an address is the fleet's alone.
    """
    assert touches("uc1/us-0001", "uc1")
    assert touches("uc1", "uc1/us-0001")
    assert not touches("uc1/us-0001", "uc1/us-0002")
    assert touches("", "")
    assert not touches("", "uc1")


def past(seconds: int = 300, fired_s: float | None = 100.0, span_s: int = 300) -> Past:
    """Return the past of a temperature with a rise when its alert fired."""
    series = np.full(seconds, 50.0, np.float32)
    if fired_s is not None and fired_s < seconds:
        series[seconds - int(fired_s) :] = 95.0
    limits = [Limit(90.0, "alert", theme.CHART_THRESHOLD)]
    marks = [] if fired_s is None or fired_s > span_s else [ChartMark(fired_s, Severity.WARNING)]
    lines = [Series(Track.of(series), theme.CHART)]
    drawn = Chart(lines, "degC", Times(span_s, seconds), 20.0, limits=limits, marks=marks)
    return Past("temp", "uc1/x", drawn, "5 min", fired_s)


def test_the_chart_marks_the_moment() -> None:
    """The mark stands below the step of the figure, at every width."""
    for width in (30, 40, 60, 100):
        rows = ["".join(text for text, _ in row) for row in chart(past(), width, 8)]
        assert len(rows) == 8
        assert all(len(row) == width for row in rows)
        assert "95.0 °C" in rows[0]
        assert ("fired 1 min 40 s ago" in rows[0]) == (width >= 40)
        at = rows[-1].index("▲")
        (before,) = [row for row in rows[2:-1] if not row.partition("┤")[2].startswith(" ")]
        assert abs(len(before.rstrip()) - 1 - at) <= 1
        assert any("90°C┤" in each for each in rows)


def test_the_moment_is_told_in_words() -> None:
    """A firing time before the chart is shown in words.

    A pending alert has no such time, a low screen no chart.
    """
    assert moment(past(fired_s=900.0)) == "fired 15 min 00 s ago, before this chart"
    assert moment(past(fired_s=None)) == "pending"
    assert chart(past(), 60, 4) == []
    assert "nothing is kept yet" in chart(past(seconds=0), 60, 8)[0][0][0]


def test_facts_fit() -> None:
    """The first facts are whole before later ones have a line.

    Nothing exceeds the width or height.
    """
    facts = [
        Fact("✖ critical", "word " * 40),
        *(Fact(f"name {number}", "short") for number in range(20)),
    ]
    for width, height in ((40, 4), (79, 6), (150, 12)):
        lines = fact_lines(facts, width, height)
        assert len(lines) == height
        assert all(width_of(line) <= width for line in lines)
    for width in (60, 120, 200):
        assert len(about_lines(facts, past(), width, 30)) <= 30


def test_facts_are_cut_no_more_than_they_have_to_be() -> None:
    """Quiet facts go first, then long ones are cut.

    Further omissions are named, and every cut has its sign.
    """
    facts = [
        Fact("value", "first " * 30),
        Fact("runbook", "second " * 30),
        Fact("where", "place"),
        Fact("labels", "label " * 60, theme.QUIET),
    ]

    def said(height: int, of: list[Fact] = facts) -> list[str]:
        return [text_of(line).rstrip() for line in fact_lines(of, 80, height)]

    whole = said(40)
    assert not any("…" in line for line in whole[:-1])
    place = next(number for number, line in enumerate(whole) if line.startswith(" where"))
    assert said(place + 1) == whole[: place + 1]
    assert said(place + 2)[:-1] == whole[: place + 1]
    assert said(place + 2)[-1].startswith(" labels")
    assert said(place + 2)[-1].endswith("…")
    less = said(place)
    assert less[-1].startswith(" where")
    assert [line[-1] for line in less].count("…") == 1
    least = said(4)
    assert least[-1].split() == ["…", "where"]
    assert [line[:8].strip() for line in least] == ["value", "", "runbook", "…"]
    assert least[2].endswith("…")


def test_news_are_told_once() -> None:
    """An alert is new each time it begins to fire.

    Quiet alerts and alerts of severity info never are.
    """
    news = AlertNews()
    loud = held()
    info = held(of=rule("odd", "info"))
    quiet = held("uc1/us-0002", status=AlertStatus.SILENCED)
    assert news.read([loud, info, quiet], 0.0) == [loud]
    assert news.read([loud, info, quiet], 1.0) == []
    acked = AlertWithStatus(loud.alert, AlertStatus.ACKED)
    assert news.read([acked], 2.0) == []
    assert news.read([loud], 3.0) == []
    again = held(age_s=5)
    assert news.read([again], 4.0) == [again]
    loud_now = AlertWithStatus(quiet.alert, AlertStatus.FIRING)
    assert news.read([again, loud_now], 5.0) == [loud_now]


def test_alarms_come_together_and_seldom() -> None:
    """One alarm in ten seconds names everything new and still firing.

    Resolved alerts are left out.
    """
    news = AlertNews()
    first, *others = storm(5)
    news.read([first], 0.0)
    assert news.alarm(0.0).startswith("1 new alert: critical hot")
    news.read([first, *others], 1.0)
    assert news.alarm(1.0) == ""
    news.read([first, *others[:3]], 2.0)
    told = news.alarm(ALARM_EVERY_S)
    assert told.startswith("3 new alerts: ")
    assert "us-0002" in told
    assert news.alarm(3 * ALARM_EVERY_S) == ""
    news.read(others[:1], 40.0)
    news.read(storm(9)[8:], 41.0)
    news.read([], 42.0)
    assert news.alarm(60.0) == ""


def test_the_notice_goes_with_its_alert() -> None:
    """It stands for a while, and not longer than the alert."""
    news = AlertNews()
    one = held()
    news.read([one], 0.0)
    notice = news.notice(1.0, 20.0)
    assert notice is not None
    assert notice.text == "hot 95.0 °C"
    assert news.notice(21.0, 20.0) is None
    news.read([], 2.0)
    assert news.notice(2.0, 20.0) is None


@pytest.mark.parametrize("status", [AlertStatus.ACKED, AlertStatus.SILENCED, AlertStatus.INHIBITED])
def test_what_is_handled_is_neither_told_nor_rung_for(status: AlertStatus) -> None:
    """A handled alert neither makes a notice nor rings.

    It is reported again after its acknowledgement or silence is withdrawn.
    """
    news = AlertNews()
    one = held()
    news.read([one], 0.0)
    news.read([AlertWithStatus(one.alert, status)], 2.0)
    assert news.notice(2.0, 20.0) is None
    news.read([one], 3.0)
    assert news.notice(3.0, 20.0) is not None
    news.read([AlertWithStatus(one.alert, status)], 4.0)
    assert news.alarm(ALARM_EVERY_S) == ""


def problem(key: str, *alerts: AlertWithStatus) -> Problem:
    place = Place(alerts[0].alert.target)
    severity = alerts[0].severity
    return Problem(
        key, severity, AlertStatus.FIRING, "", place, f"{key} is wrong", 1, alerts=alerts
    )


def test_the_notice_tells_a_problem_once() -> None:
    """The notice uses the words of the list of problems.

    An alert joining a known problem is no news unless worse.
    """
    news = AlertNews()
    chip = held(of=rule("hot", "warning"))
    other = held("uc1/us-0009/trn2u-0009-0/chip00")
    later = held(of=rule("slow", "warning"))
    failed = held(of=rule("down", "critical", title="job failed"))
    news.read([chip], 0.0, [problem("heat", chip)])
    first = news.notice(0.0, 20.0)
    assert first == AlertNotice(Severity.WARNING, "trn2u-0001-0/chip05", "heat is wrong")
    news.read([chip, later], 30.0, [problem("heat", chip, later)])
    assert news.notice(30.0, 20.0) is None, "a second alert of a known problem"
    news.read([chip, later, failed], 60.0, [problem("heat", chip, later, failed)])
    worse = news.notice(60.0, 20.0)
    assert worse is not None
    assert (worse.severity, worse.text) == (Severity.CRITICAL, "job failed")
    news = AlertNews()
    news.read([chip, later, other], 0.0, [problem("heat", chip, later), problem("cold", other)])
    both = news.notice(0.0, 20.0)
    assert both is not None
    assert both.text == "cold is wrong (+1 more)", "two problems, of three alerts"


def test_wide_screens_give_words_and_owners_their_room() -> None:
    """The description has most of the spare room; with statuses, the owner has some."""
    for width, least in ((160, 24), (200, 50), (240, 90)):
        plan = AlertPlan.for_width(width, shows_status=False)
        assert plan.text >= least, width
    assert AlertPlan.for_width(200, shows_status=True).status >= 30
    assert "owner" in text_of(alert_head(AlertPlan.for_width(200, shows_status=True)))
