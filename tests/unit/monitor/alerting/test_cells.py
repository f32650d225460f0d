"""Alerts of cells on a top broker: shown once, with their cell, not evaluated here.

Alerts of a cell not visible to any relay stay as last known.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest
from support.monitor.alert_messages import BEGIN_NS, alert_message
from support.monitor.rules import rule_of
from support.monitor.top import BOOT, POWER_W, Top, framed_top

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.alerts.alert import fingerprint_of
from trnfleet.domain.alerts.reach import Known, preview
from trnfleet.domain.alerts.signals import Scope
from trnfleet.domain.alerts.status import AlertState, AlertStatus
from trnfleet.domain.alerts.templates import summary
from trnfleet.domain.severity import Severity
from trnfleet.monitor.alerting.cells import LEFT_TO_CELLS_NS, CellAlerts, alert_of, unknown_rule
from trnfleet.monitor.alerting.unpublished import notifying
from trnfleet.monitor.problems import texts
from trnfleet.monitor.problems.uncovered import cells_of
from trnfleet.services.alerts_client import published_problems
from trnfleet.services.watch.service import to_publish
from trnfleet.tui.format.alerts import status_text
from trnfleet.tui.state.alerts import AlertSnapshot
from trnfleet.wire.alerts import AlertMessage, CellAlertMessage, Handling
from trnfleet.wire.messages import (
    ClockSpec,
    Descriptor,
    ForwardedBy,
    InstanceSpec,
    PublisherMessage,
    WatchMessage,
    encode_message,
)
from trnfleet.wire.ports import Envelope
from trnfleet.wire.topics import TopicClass, build_topic

PLACE = "uc1/us-0001"
PLACE_OF_B = "uc1/us-0009"


def firing(cell: str = "cell-a", target: str = PLACE, **change: Any) -> CellAlertMessage:
    """Return an alert of a cell about an UltraServer."""
    labels = {
        "alertname": "held-back",
        "severity": "critical",
        "target": target,
        "scope": "ultraserver",
    }
    fingerprint = fingerprint_of("demo", "held-back", target)
    message = alert_message(
        target=target, fingerprint=fingerprint, labels=labels, chips=64, place=target
    )
    return CellAlertMessage(**{**msgspec.structs.asdict(message), "cell": cell, **change})


def take(top: Top, message: AlertMessage, path: str | None = None, *, clears: bool = False) -> None:
    """Apply an alert of a cell to a top's monitor."""
    path = path or (message.path if isinstance(message, CellAlertMessage) else message.fingerprint)
    payload = b"" if clears else encode_message(message)
    top.monitor.apply(
        [Envelope(build_topic("demo", TopicClass.ALERT, path), payload, 1, retain=True)]
    )


def watched(top: Top) -> None:
    """Publish a leading watch of the cell."""
    message = WatchMessage(
        client="watch-1", state="online", boot="b", role="watch", leads=True, cell="cell-a"
    )
    top.take(TopicClass.PUBLISHER, "cell-a/watch-1", message)


def test_an_alert_of_a_cell_is_shown_and_counted_with_its_cell() -> None:
    """An alert of a cell is shown and counted with its cell until cleared.

    This covers the list, the header, the problems of app and `status`, and the text of its watch.
    """
    top = framed_top()
    watched(top)
    take(top, firing())
    top.look()
    (alert,) = top.monitor.alerts.active()
    assert (alert.cell, alert.labels["cell"], summary(alert)) == ("cell-a", "cell-a", "number 1")
    snapshot = AlertSnapshot(top.monitor)
    snapshot.refresh(1.0)
    assert (snapshot.counts.critical, snapshot.problem_counts.critical) == (1, 1)
    assert status_text(snapshot.active[0], top.monitor.alerts, snapshot.now_ns) == "cell-a"
    found = published_problems(top.monitor)
    assert found.is_watched
    (problem,) = found.problems.all
    assert (problem.place.address, problem.cells) == (PLACE, ("cell-a",))
    assert texts.text_of(problem).endswith("[cell-a]")
    take(top, firing(), clears=True)
    assert top.monitor.alerts.active() == []


def test_a_cell_without_a_watch_is_in_doubt() -> None:
    """The app reports a visible cell without a leading watch.

    Nobody evaluates rules about its chips. The header counts it and the Alerts view names it.
    """
    top = framed_top()
    top.look()
    snapshot = AlertSnapshot(top.monitor)
    assert top.look().unwatched_cells == ("cell-a",)
    assert snapshot.word(0.0).doubts == ("cell cell-a: no watch publishes its alerts",)
    watched(top)
    assert top.look().unwatched_cells == ()
    assert snapshot.word(0.0).doubts == ()


def test_a_resolved_one_is_over() -> None:
    """Its message stays for a while, as in the cell."""
    top = Top()
    take(top, firing())
    take(top, firing(state="resolved", resolved="2026-01-05T09:00:00Z"))
    assert top.monitor.alerts.active() == []


def test_a_relay_that_does_not_hear_its_cell_says_so_at_once() -> None:
    """Before roll-ups have been missing for three periods."""
    top = framed_top()
    take(top, firing())
    relay = WatchMessage(
        client="relay-1",
        state="online",
        boot=BOOT,
        role="relay",
        leads=True,
        cell="cell-a",
        hears=False,
    )
    for hears in (True, False):
        top.take(
            TopicClass.PUBLISHER, "cell-a/relay-1", msgspec.structs.replace(relay, hears=hears)
        )
        top.look()
        assert [each.is_unobserved for each in top.monitor.alerts.active()] == [not hears]
    assert [(each.cell, each.is_observed) for each in cells_of(top.monitor)] == [("cell-a", False)]


async def test_without_its_relay_it_is_not_observed_and_not_resolved() -> None:
    """At its last will; it is as before once a relay describes the cell again."""
    top = framed_top()
    take(top, firing())
    top.take(
        TopicClass.PUBLISHER,
        "relay-1",
        PublisherMessage(client="relay-1", state="online", boot=BOOT),
    )
    top.look()
    before = top.monitor.alerts.cells.revision
    assert not top.monitor.alerts.active()[0].is_unobserved
    top.take(
        TopicClass.PUBLISHER,
        "relay-1",
        PublisherMessage(client="relay-1", state="offline", boot=BOOT),
    )
    top.look()
    (alert,) = top.monitor.alerts.active()
    assert (alert.is_unobserved, top.monitor.alerts.cells.revision > before) == (True, True)
    snapshot = AlertSnapshot(top.monitor)
    snapshot.refresh(1.0)
    assert status_text(snapshot.active[0], top.monitor.alerts, 0) == "cell-a not observed"
    assert texts.text_of(snapshot.problems.all[0]).endswith("[cell-a, not observed]")
    assert not published_problems(top.monitor).is_watched
    top.take(
        TopicClass.PUBLISHER,
        "relay-1",
        PublisherMessage(client="relay-1", state="online", boot=BOOT),
    )
    top.show()
    assert not top.monitor.alerts.active()[0].is_unobserved


async def test_a_cell_is_not_observed_either_where_leases_show_all_of_its_rows() -> None:
    """Leases for all rows of a lost cell leave its alerts as last known.

    Its block has no row in the layout then.
    """
    top = Top()
    top.describe_row(PLACE_OF_B)
    top.frame_of_row(400.0)
    take(top, firing("cell-b", PLACE_OF_B))
    forwarded = ForwardedBy(cell="cell-b", relay="relay-2", boot=BOOT)
    for number in range(4):
        path = f"{PLACE_OF_B}/trn2u-9-{number}"
        top.take(
            TopicClass.NODE,
            path,
            Descriptor(
                path=path,
                publisher="host",
                boot="h",
                period_s=1.0,
                clock=ClockSpec(epoch="2026-01-05T00:00:00Z"),
                instances=(InstanceSpec(path=path, type="trn2u.48xlarge"),),
                columns=(),
                forwarded=forwarded,
            ),
        )
    await top.clock.advance(1.0)
    top.frame_of_row(400.0, seq=1)
    assert top.look().forwarded_chips == 64
    assert not top.monitor.alerts.active()[0].is_unobserved
    await top.clock.advance(4.0)
    top.look()
    assert top.monitor.alerts.active()[0].is_unobserved


def test_an_alert_about_what_two_cells_have_is_one() -> None:
    """An alert of two cells is shown once and names both.

    An example is a shared job. The alert goes on while one of them has it.
    """
    top = Top()
    for cell in ("cell-b", "cell-a"):
        take(top, firing(cell))
    (alert,) = top.monitor.alerts.active()
    assert alert.cell == "cell-a, cell-b"
    take(top, firing("cell-a"), clears=True)
    assert [each.cell for each in top.monitor.alerts.active()] == ["cell-b"]


@pytest.mark.parametrize("change", [{"ack"}, {"silence"}, {"inhibited_by"}, {"severity"}])
def test_what_one_cell_sees_to_is_not_hidden_in_another(change: set[str]) -> None:
    """Of two equal alerts, the unhandled or worse one is shown, even if younger."""
    top = Top()
    handling = Handling(who="ana", at="2026-01-05T00:00:00Z", until="2036-01-05T00:00:00Z")
    seen_to: dict[str, Any] = {
        "ack": handling,
        "silence": handling,
        "inhibited_by": "0123456789abcdef",
        "severity": Severity.INFO,
    }
    take(top, firing("cell-a", **{key: seen_to[key] for key in change}))
    take(top, firing("cell-b", fired=format_rfc3339(BEGIN_NS + 60 * NS_PER_S)))
    (alert,) = top.monitor.alerts.active()
    assert (alert.cell, alert.labels["cell"]) == ("cell-a, cell-b", "cell-b")
    assert top.monitor.alerts.status(alert) is AlertStatus.FIRING
    assert alert.severity is Severity.CRITICAL


def test_what_people_in_the_cell_do_counts_and_what_they_do_on_the_top_does_not() -> None:
    """Acknowledgements and silences of the cell apply; a matching top silence does not."""
    top = Top()
    handling = Handling(
        who="ana", why="on it", at="2026-01-05T00:00:00Z", until="2036-01-05T00:00:00Z"
    )
    now_ns = BEGIN_NS
    silences = top.monitor.alerts.silences
    changes: tuple[tuple[dict[str, Any], AlertStatus], ...] = (
        ({"ack": handling}, AlertStatus.ACKED),
        ({"silence": handling, "ack": handling}, AlertStatus.SILENCED),
        ({}, AlertStatus.FIRING),
    )
    for change, status in changes:
        take(top, firing(**change))
        (alert,) = top.monitor.alerts.active()
        assert silences.status(alert, now_ns) is status
    until = format_rfc3339(now_ns + 3_600_000_000_000)
    payload = (
        f'{{"id":"s","matchers":["severity=\\"critical\\""],"starts":"{format_rfc3339(now_ns - 1_000_000)}",'  # noqa: E501
        f'"until":"{until}","who":"bo"}}'
    )
    top.monitor.apply(
        [Envelope(build_topic("demo", TopicClass.SILENCE, "s"), payload.encode(), retain=True)]
    )
    assert silences.status(alert, now_ns) is AlertStatus.FIRING
    (silence,) = silences.known
    assert preview(silence.matchers, Known("demo", (), alerts=[alert])).firing == 1


class Log:
    """The notifications of a watch."""

    def __init__(self, *fingerprints: str) -> None:
        self._known = fingerprints

    def publishes(self, fingerprint: str) -> bool:
        return fingerprint in self._known


async def test_the_top_s_own_rules_do_not_fire_what_a_cell_publishes() -> None:
    """The top's rules wait for an alert of the cell, and fire only without one.

    An alert already notified here goes on.
    """
    rule = rule_of(
        name="held-back", scope="ultraserver", figure="power_w", above=15_000.0, severity="critical"
    )
    top = Top((rule,))
    watched(top)
    alerts = top.monitor.alerts

    async def second() -> None:
        await top.clock.advance(1.0)
        top.show()

    for _ in range(3):
        await second()
    (own,) = alerts.evaluated()
    assert (own.target, own.fired_ns is not None, alerts.active()) == (PLACE, True, [])
    assert to_publish(alerts, Log()) == []  # type: ignore[arg-type]
    take(top, firing())
    for _ in range(LEFT_TO_CELLS_NS // 1_000_000_000):
        await second()
    assert [each.cell for each in alerts.active()] == ["cell-a"]
    assert (notifying(alerts), to_publish(alerts, Log())) == ([], [])  # type: ignore[arg-type]
    assert to_publish(alerts, Log(own.fingerprint)) == [own]  # type: ignore[arg-type]
    take(top, firing(), clears=True)
    await second()
    assert alerts.active() == [own]
    assert (notifying(alerts), to_publish(alerts, Log())) == ([own], [own])  # type: ignore[arg-type]


async def test_what_is_pending_here_while_it_fires_in_a_cell_is_one_alert() -> None:
    """An alert pending here and firing in a cell is listed and counted once.

    The cursor finds it again by its fingerprint.
    """
    rule = rule_of(
        name="held-back", scope="ultraserver", figure="power_w", above=15_000.0, **{"for": "1h"}
    )
    top = Top((rule,))
    await top.clock.advance(1.0)
    top.show()
    assert [each.state for each in top.monitor.alerts.active()] == [AlertState.PENDING]
    take(top, firing())
    assert [(each.cell, each.state) for each in top.monitor.alerts.active()] == [
        ("cell-a", AlertState.FIRING)
    ]
    assert top.monitor.alerts.counts().pending == 0


async def test_a_relay_that_has_gone_is_no_publisher_any_more() -> None:
    """A replaced relay is neither offline nor silent.

    Its successor has described its rows and cleared its presence.
    """
    top = framed_top()
    relay = WatchMessage(
        client="relay-1", state="online", boot=BOOT, role="relay", leads=True, cell="cell-a"
    )
    top.take(TopicClass.PUBLISHER, "cell-a/relay-1", relay)
    top.take(
        TopicClass.PUBLISHER, "cell-a/relay-1", msgspec.structs.replace(relay, state="offline")
    )
    top.look()
    assert [each.name for each in top.monitor.pipeline(at_once=True).problems] == [
        "publisher-offline"
    ]
    top.describe("b00t-2", "relay-2")
    top.frame(POWER_W)
    top.monitor.apply(
        [Envelope(build_topic("demo", TopicClass.PUBLISHER, "cell-a/relay-1"), b"", retain=True)]
    )
    await top.clock.advance(10.0)
    top.show()
    pipeline = top.monitor.pipeline(at_once=True)
    assert (pipeline.publishers.names, pipeline.problems) == (("relay-2",), ())


async def test_what_happens_to_them_is_in_the_history() -> None:
    """Transitions of cell alerts are in the history and the events.

    Messages retained for over a minute and repeated ones are not.
    """
    top = Top((rule_of(),))
    await top.clock.advance(BEGIN_NS / 1e9)
    for number, fired_s, members in ((1, -3_600.0, 1), (2, 0.0, 1), (2, 0.0, 5)):
        fired = format_rfc3339(BEGIN_NS + round(fired_s * 1e9))
        take(top, firing(target=f"uc1/us-000{number}", fired=fired, since=fired, members=members))
    resolved = format_rfc3339(BEGIN_NS + 1_000_000_000)
    for change in ({}, {"state": "resolved", "resolved": resolved}):
        if change:
            take(top, firing(target="uc1/us-0002", **change))
        await top.clock.advance(1.0)
        top.show()
    happened = [(each.kind, each.alert.target) for each in top.monitor.alerts.history]
    assert happened == [("firing", "uc1/us-0002"), ("resolved", "uc1/us-0002")]
    begun, over = top.monitor.alerts.history
    assert [top.monitor.alerts.status(each.alert) for each in (begun, over)] == [
        AlertStatus.RESOLVED
    ] * 2
    assert over.alert.resolved_ns == BEGIN_NS + 1_000_000_000
    assert [each.name for each in top.monitor.ingest.alert_events.newest_first()]


def test_one_that_comes_of_a_cell_that_is_not_seen_is_as_last_known() -> None:
    """A late retained alert of a cell not visible is as last known.

    A broker sends retained messages one by one, and a relay may end in between.
    """
    cells = CellAlerts()
    cells.put(firing())
    cells.observe({"cell-a": False}, ())
    for target in (PLACE, PLACE_OF_B):
        cells.put(firing(target=target, members=5))
    assert [each.is_unobserved for each in cells.firing.values()] == [True, True]
    cells.observe({"cell-a": True}, ())
    assert [each.is_unobserved for each in cells.firing.values()] == [False, False]


@pytest.mark.parametrize("scope", Scope)
def test_what_a_cell_s_watch_does_not_see_is_not_left_to_it(scope: Scope) -> None:
    """Publishers and the pipeline are others here: an alert about them fires at once."""
    cells = CellAlerts()
    rule = unknown_rule("own", scope=scope)
    alert = dataclasses.replace(
        alert_of(firing()), rule=rule, fingerprint="0" * 16, fired_ns=BEGIN_NS
    )
    assert not cells.leaves_out(alert, BEGIN_NS)
    cells.observe({}, {"cell-a"})
    is_left = scope not in {Scope.PUBLISHER, Scope.PIPELINE}
    assert [
        cells.leaves_out(alert, BEGIN_NS + passed_ns) for passed_ns in (0, LEFT_TO_CELLS_NS)
    ] == [
        is_left,
        False,
    ]


def test_an_alert_on_another_cell_s_topic_is_refused() -> None:
    """An alert on another cell's topic is refused and counted, without any change."""
    top = Top()
    take(top, firing("cell-a"), "cell-b/" + firing().fingerprint)
    assert (top.monitor.counts.misplaced, top.monitor.alerts.active()) == (1, [])


@pytest.mark.parametrize("scope", ["", "unheard-of", *Scope])
def test_every_text_of_an_unknown_rule_can_be_written(scope: str) -> None:
    """Braces in a watch's text are not treated as a template.

    The watch's figure is shown if the scope has it.
    """
    message = firing(description="{value} of {x}", summary="{y}", figure="power_w", value=3.0)
    message = msgspec.structs.replace(message, labels={**message.labels, "scope": scope})
    alert = alert_of(message)
    assert summary(alert) == "{y}"
    assert alert.rule.description == "{{value}} of {{x}}"
    assert unknown_rule("x", scope=scope).scope is (
        Scope(scope) if scope in set(Scope) else Scope.PUBLISHER
    )
