"""The Alerts view through its keys, what it writes, and what other views tell of alerts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.monitor.feed import Feed, standalone, ultraservers
from support.tui.pilot import SIZES, running
from textual.widgets import Input

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.alerts.rules import Rule
from trnfleet.errors import BrokerError
from trnfleet.monitor.alerting.engine import Alerts
from trnfleet.monitor.alerting.operator import OperatorActions
from trnfleet.tui import pacing, theme
from trnfleet.tui.alerts.actions import READ_ONLY
from trnfleet.tui.alerts.view import NOTE_S, AlertsView
from trnfleet.tui.app import FleetApp
from trnfleet.tui.bars.news import NOTICE_S
from trnfleet.tui.widgets.bar import Bar
from trnfleet.wire.alerts import AckMessage, SilenceMessage
from trnfleet.wire.messages import WatchMessage, encode_message
from trnfleet.wire.ports import Envelope, LinkStatus, PublishResult
from trnfleet.wire.topics import TopicClass, build_topic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trnfleet.monitor.monitor import Monitor

INSTANCE = "uc1/us-0001/trn2u-0001-2"
CHIP = f"{INSTANCE}/chip05"
NASTY = "\x1b]0;x\x07[@click=app.quit]x[/]"


def rule(name: str, severity: str, figure: str, above: float, **rest: Any) -> Rule:
    fields = {"name": name, "scope": "chip", "severity": severity, "figure": figure, "above": above}
    return Rule.model_validate({**fields, "summary": "{worst} is at {value}", **rest})


RULES = (
    rule("overheated", "critical", "temperature_c", 90.0, runbook="Look at the fans.", runbook_url="https://wiki.example/fans",
         description="Heat kills."),
    rule("throttled", "warning", "throttle_pct", 5.0),
    rule("power-high", "warning", "power_w", 450.0, **{"for": "30s"}),
    Rule.model_validate(
        {
            "name": "job-failed", "scope": "job", "severity": "critical", "figure": "state", "equals": "failed",
            "summary": "job {job} is {value}",
        }
    ),
    Rule.model_validate(
        {
            "name": "ends-soon", "scope": "reservation", "severity": "info", "figure": "ends_in_s", "below": 1e6,
            "summary": "{target} ends in {value}",
        }
    ),
)  # fmt: skip  # rules read as rows


class Loopback:
    """A publisher whose messages come back at once; or do not."""

    def __init__(self, monitor: Monitor) -> None:
        self.status = LinkStatus(broker="memory", connected=True, connects=1)
        self.sent: list[Envelope] = []
        self._monitor = monitor
        self.problem = ""

    async def publish(self, batch: Iterable[Envelope]) -> PublishResult:
        if self.problem:
            raise BrokerError(self.problem)
        batch = list(batch)
        self.sent += batch
        self.status.sent += len(batch)
        self._monitor.apply(batch)
        return PublishResult(len(batch))


def fed(instances: list[tuple[str, str]] | None = None) -> Feed:
    feed = Feed(ultraservers(2) if instances is None else instances)
    alerts = Alerts("demo", RULES)
    feed.monitor.ingest.alerts = alerts
    feed.set("temperature_c", 50.0)
    feed.set("power_w", 300.0)
    feed.describe()
    feed.tick()
    return feed


def rows(feed: Feed, address: str) -> slice:
    node = feed.layout.find(address)
    assert node is not None
    chips = feed.layout.chip_range(node)
    return slice(chips.start, chips.stop)


def made(feed: Feed, *, can_write: bool = True, is_loud: bool = False) -> tuple[FleetApp, Loopback]:
    publisher = Loopback(feed.monitor)
    operator = OperatorActions("demo", publisher=publisher if can_write else None, owner="ann")  # type: ignore[arg-type]
    return FleetApp(
        feed.monitor, clock=feed.clock, operator=operator, bell=is_loud, notify=is_loud
    ), publisher


def view(app: FleetApp) -> AlertsView:
    assert isinstance(app.page, AlertsView)
    return app.page


@pytest.mark.parametrize("size", SIZES)
async def test_the_view_at_every_size(size: tuple[int, int]) -> None:
    """Key 8 opens the list: worst first with sign, age, rule, place and value, and the chosen one at length."""
    feed = fed()
    feed.set("temperature_c", 95.0, rows(feed, CHIP))
    feed.set("throttle_pct", 20.0, rows(feed, f"{INSTANCE}/chip01"))
    app, _ = made(feed)
    async with running(app, size=size) as pilot:
        await pilot.telemetry(feed)
        await pilot.press("8")
        await pilot.telemetry(feed)
        shown = pilot.screen()
        assert all(len(line) <= size[0] for line in shown)
        assert "[active 2]" in shown[4]
        first, second = shown[6], shown[7]
        assert first.startswith(">✖ crit")
        assert "overheated" in first
        assert "95.0 °C" in first
        assert "chip05" in first
        assert second.startswith(" ▲ warn")
        said = pilot.text()
        assert f"{CHIP} is at 95.0 °C" in said
        assert "Look at the fans." in said
        assert "https://wiki.example/fans" in said
        assert "temperature_c above 90 °C" in said
        assert app.page.place == CHIP
        if size[1] >= 40:
            assert "Heat kills." in said
        if size[0] >= 120:
            assert ("fired " in said and " ago" in said) or "nothing is kept yet" in said


async def test_nothing_fires() -> None:
    """A calm fleet says so, and that rules watch."""
    feed = fed()
    app, _ = made(feed)
    async with running(app, size=(80, 24)) as pilot:
        await pilot.press("8")
        await pilot.telemetry(feed)
        assert "No unacknowledged alerts. 5 rules loaded." in pilot.text()
        assert "No problems" in pilot.screen()[0]
        for key in ("a", "x", "e", "enter", "d", "d"):
            await pilot.press(key)
        await pilot.press("t", "t", "t", "s", "T")
        assert view(app).tab == "silences"


async def test_a_storm_is_one_line() -> None:
    """A thousand alerts of a rule are one line that counts them; opened, each is there; the others stay lines of their own."""
    feed = fed(ultraservers(16))
    feed.set("throttle_pct", 20.0, slice(0, 1_000))
    feed.set("temperature_c", 95.0, rows(feed, CHIP))
    app, _ = made(feed)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.press("8")
        await pilot.telemetry(feed)
        alerts = view(app).list
        assert len(alerts.rows) == 2
        assert "[active 1,001]" in pilot.screen()[4]
        assert "1,000 alerts" in pilot.screen()[7]
        await pilot.press("down")
        assert "throttled: 1,000 alerts firing" in pilot.text()
        await pilot.press("enter")
        assert len(alerts.rows) == 2 + 1_000
        await pilot.press("end")
        assert "│ throttled" in pilot.text()
        before = alerts.lines_painted
        await pilot.press("up")
        assert alerts.lines_painted - before <= 40
        await pilot.press("e")
        assert len(alerts.rows) == 2
        assert alerts.picked is not None
        assert alerts.picked.group is not None
        await pilot.press("E")
        assert len(alerts.rows) == 2 + 1_000
        await pilot.press("E", "a")
        assert "at most 200 at once" in pilot.text()


async def test_the_cursor_stays_on_its_alert() -> None:
    """Others come and go; what is under the cursor stays there."""
    feed = fed()
    feed.set("throttle_pct", 20.0, rows(feed, f"{INSTANCE}/chip01"))
    feed.set("temperature_c", 95.0, rows(feed, CHIP))
    app, _ = made(feed)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.press("8")
        await pilot.telemetry(feed)
        await pilot.press("down")
        assert view(app).place.endswith("chip01")
        feed.set("temperature_c", 95.0, rows(feed, "uc1/us-0002/trn2u-0002-1/chip01"))
        await pilot.telemetry(feed)
        assert view(app).place == f"{INSTANCE}/chip01"
        assert view(app).list.row == 2


async def test_acknowledging_and_taking_it_back() -> None:
    """A asks for how long, with two hours written; the alert leaves the active ones and says who has it; x gives it back."""
    feed = fed()
    feed.set("temperature_c", 95.0, rows(feed, CHIP))
    app, publisher = made(feed)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.press("8")
        await pilot.telemetry(feed)
        await pilot.press("a")
        form = view(app).actions.ack_form
        assert form.values == {"for": "2h", "note": ""}
        assert "Acknowledge overheated at " in pilot.text()
        await pilot.press(*"fans", "enter")
        await pilot.pause()
        await pilot.telemetry(feed)
        assert not form.is_open
        assert len(publisher.sent) == 1
        assert "acknowledged for 2h00: overheated at " in pilot.screen()[4]
        await pilot.telemetry(feed, NOTE_S + 1)
        assert "[active 0]" in pilot.text()
        assert "1 acknowledged: t shows them." in pilot.text()
        assert "1 ack" in pilot.screen()[0]
        await pilot.press("t")
        assert "acked ann, 1h59 left" in pilot.text()
        assert "ann, acknowledged until 02:0" in pilot.text()
        assert ": fans" in pilot.text()
        await pilot.press("x")
        await pilot.pause()
        await pilot.telemetry(feed)
        assert " ack" not in pilot.screen()[0]
        await pilot.press("T")
        assert "[active 1]" in pilot.text()


async def test_the_form_says_what_is_wrong() -> None:
    """A duration that is none, and a broker that does not take it, are told in the form, which stays; Esc leaves it."""
    feed = fed()
    feed.set("temperature_c", 95.0, rows(feed, CHIP))
    app, publisher = made(feed)
    async with running(app, size=(80, 24)) as pilot:
        await pilot.press("8")
        await pilot.telemetry(feed)
        await pilot.press("a", "tab", *"soon", "enter")
        form = view(app).actions.ack_form
        assert "'soon' is not a duration" in form.message
        publisher.problem = "nothing was written: memory: no connection"
        await pilot.press(*["backspace"] * 4, *"1h", "enter")
        await pilot.pause()
        assert "no connection" in form.message
        await pilot.press("escape")
        assert not form.is_open
        assert view(app).list.has_focus
        assert app.entry.title == "Alerts"
        assert not publisher.sent


async def test_a_silence_with_its_preview() -> None:
    """Z offers matchers of the alert, shows while one types what they match, and requires a comment."""
    feed = fed()
    feed.set("temperature_c", 95.0, slice(0, 3))
    feed.set("throttle_pct", 20.0, slice(0, 1))
    app, publisher = made(feed)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.press("8")
        await pilot.telemetry(feed)
        await pilot.press("z")
        form = view(app).actions.silence_form
        assert form.values["matchers"].startswith('alertname="overheated" chip="uc1/us-0001/')
        assert "matches 1 firing alert (1 critical): overheated" in form.message
        await pilot.press("enter")
        assert "comment: it is required" in form.message
        await pilot.press("shift+tab")
        field = form.field("matchers")
        assert field.has_focus
        field.value = ""
        await pilot.press(*'severity=~"crit.*"')
        await pilot.pause()
        assert "matches 3 firing alerts (3 critical): overheated" in form.message
        await pilot.press(*" nonsense")
        await pilot.pause()
        assert "'nonsense'" in form.message
        field.value = 'severity="critical"'
        await pilot.press("tab", *"night work", "enter")
        await pilot.pause()
        await pilot.telemetry(feed)
        assert len(publisher.sent) == 1
        assert not form.is_open
        assert "silenced for 4h00" in pilot.screen()[4]
        assert "[active 1]" in pilot.text()
        await pilot.press("t", "t")
        line = next(line for line in pilot.screen() if " 3 alerts" in line)
        assert "night work" in line
        assert "ann" in line
        assert 'severity="critical"' in line
        await pilot.press("x")
        await pilot.pause()
        await pilot.telemetry(feed)
        assert "No silences." in pilot.text()
        assert feed.monitor.alerts.counts().critical == 3


async def test_silences_of_alertmanager() -> None:
    """The list says where a silence was made, and why one is not applied; the details name its owner."""
    feed = fed()
    app, _ = made(feed)
    async with running(app, size=(220, 40)) as pilot:
        await pilot.press("8")
        await pilot.telemetry(feed)
        now_ns = feed.monitor.moment().time_ns
        message = SilenceMessage(
            id="alertmanager-1",
            matchers=('pod="x"',),
            starts=format_rfc3339(now_ns),
            until=format_rfc3339(now_ns + 3_600 * NS_PER_S),
            who="bob",
            source="alertmanager",
            not_applied="no alert here has the label pod",
        )
        feed.monitor.alerts.silences.put_silence(message)
        await pilot.press("t", "t")
        await pilot.telemetry(feed)
        assert "bob at alertmanager" in pilot.text()
        assert "not applied: no alert here has the label pod" in pilot.text()


@pytest.mark.parametrize("size", SIZES[:2])
async def test_what_alertmanager_refuses(size: tuple[int, int]) -> None:
    """The first line and the status line tell of it; the details of the alert and of the silence have the reason."""
    feed = fed()
    app, _ = made(feed)
    feed.set("temperature_c", 95.0, rows(feed, CHIP))
    async with running(app, size=size) as pilot:
        await pilot.press("8")
        await pilot.telemetry(feed)
        name = feed.monitor.alerts.active()[0].fingerprint
        now_ns = feed.monitor.moment().time_ns
        feed.monitor.alerts.silences.put_silence(
            SilenceMessage(
                id="s-1",
                matchers=('alertname="throttled"',),
                starts=format_rfc3339(now_ns),
                until=format_rfc3339(now_ns + 3_600 * NS_PER_S),
                who="bob",
            )
        )
        refused = [
            ("acknowledgement", name, "HTTP 400 'no'" + NASTY),
            ("silence", "s-1", "HTTP 403 'not you'"),
        ]
        beat = WatchMessage.model_validate(
            {
                "client": "w", "state": "online", "boot": "b", "role": "watch", "leads": True, "errors": 2,
                "receiver_errors": tuple(
                    {"receiver": "alertmanager", "kind": kind, "id": subject, "reason": reason}
                    for kind, subject, reason in refused
                ),
            }
        )  # fmt: skip  # a message read as rows
        feed.monitor.apply([Envelope("trnfleet/v1/demo/publisher/w", encode_message(beat), 1)])
        await pilot.telemetry(feed)
        assert "▲ 2 receiver errors; alert" in pilot.screen()[4]
        assert "receiver errors 2" in pilot.screen()[-1]
        assert "acknowledgement by alertmanager: HTTP 400" in pilot.text()
        assert "\x1b]" not in pilot.text()
        await pilot.press("t", "t")
        await pilot.telemetry(feed)
        assert "silence by alertmanager: HTTP 403" in pilot.text()
        cleared = beat.model_copy(update={"errors": 0, "receiver_errors": ()})
        feed.monitor.apply([Envelope("trnfleet/v1/demo/publisher/w", encode_message(cleared), 1)])
        await pilot.telemetry(feed)
        assert "by alertmanager" not in pilot.text()
        assert "receiver errors" not in pilot.text()


async def test_a_silence_of_a_storm_is_for_what_it_shares() -> None:
    """On a collapsed line, the matchers are what all of its alerts have in common."""
    feed = fed()
    feed.set("temperature_c", 95.0, rows(feed, INSTANCE))
    app, _ = made(feed)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.press("8")
        await pilot.telemetry(feed)
        await pilot.press("z")
        form = view(app).actions.silence_form
        assert form.values["matchers"] == f'alertname="overheated" instance="{INSTANCE}"'
        assert "matches 16 firing alerts (16 critical)" in form.message


async def test_a_screen_that_only_reads() -> None:
    """Without an operator that writes, the keys say so and how to change it."""
    feed = fed()
    feed.set("temperature_c", 95.0, rows(feed, CHIP))
    for app in (made(feed, can_write=False)[0], FleetApp(feed.monitor, clock=feed.clock)):
        async with running(app, size=(80, 24)) as pilot:
            await pilot.press("8")
            await pilot.telemetry(feed)
            for key in "azx":
                await pilot.press(key)
                assert READ_ONLY in pilot.text(), key
                assert not view(app).actions.ack_form.is_open
                await pilot.press("down", "home")
                assert READ_ONLY not in pilot.text(), key


async def test_the_tabs() -> None:
    """T goes through active, all, silences and history; all has what is pending, history the newest first."""
    feed = fed()
    feed.set("temperature_c", 95.0, rows(feed, CHIP))
    app, _ = made(feed)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.press("8")
        await pilot.telemetry(feed)
        feed.set("power_w", 480.0, rows(feed, CHIP))
        feed.set("throttle_pct", 20.0, rows(feed, CHIP))
        await pilot.telemetry(feed)
        assert "[active 2]" in pilot.text()
        await pilot.press("t")
        assert "[all 3]" in pilot.text()
        assert "pending 0s of 30s" in pilot.text()
        assert "fires in 30 s unless it ends" not in pilot.text()
        await pilot.press("end")
        assert "fires in 30 s unless it ends" in pilot.text()
        feed.set("temperature_c", 50.0)
        await pilot.telemetry(feed)
        await pilot.press("t", "t")
        assert "[history 3]" in pilot.text()
        kinds = [told.transition.kind for told in view(app).history.rows]
        assert kinds == ["resolved", "firing", "firing"]
        assert "resolved at 2026-01-05" in pilot.text()
        await pilot.press("slash", *"throttled", "enter")
        assert len(view(app).history.rows) == 1
        feed.set("temperature_c", 95.0, rows(feed, CHIP))
        await pilot.telemetry(feed)
        assert len(view(app).history.rows) == 1
        await pilot.press("escape")
        assert len(view(app).history.rows) == 4


async def test_the_filter() -> None:
    """/ leaves parts of anything, matchers and places; Esc brings back all before it leaves the view."""
    feed = fed()
    feed.set("temperature_c", 95.0, rows(feed, CHIP))
    feed.set("throttle_pct", 20.0, rows(feed, INSTANCE))
    app, _ = made(feed)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.press("8")
        await pilot.telemetry(feed)
        for pattern, found in (
            ("OVERHEAT", 1),
            ("!overheat", 16),
            ("severity=critical", 1),
            ("severity=~crit.*|warn.*", 17),
            ("alertname!=throttled", 1),
            ("at=uc1/us-0001", 17),
            ("at=uc1/us-0002", 0),
            (f"at={CHIP} throttled", 1),
            ("chip05", 2),
        ):
            await pilot.press("slash")
            view(app).prompt.query_one(Input).value = pattern
            await pilot.press("enter")
            await pilot.pause()
            assert view(app)._found() == found, pattern
        await pilot.press("slash")
        view(app).prompt.query_one(Input).value = "severity=~("
        await pilot.pause()
        assert "▲ no regular expression" in pilot.text()
        await pilot.press("escape")
        assert view(app).pattern == ""
        assert app.entry.title == "Alerts"
        await pilot.press("escape")
        assert app.entry.title == "Fleet"


async def test_the_order() -> None:
    """S goes through severity, age and place."""
    feed = fed()
    feed.set("temperature_c", 95.0, rows(feed, "uc1/us-0002/trn2u-0002-1/chip01"))
    app, _ = made(feed)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.press("8")
        await pilot.telemetry(feed)
        feed.set("throttle_pct", 20.0, rows(feed, CHIP))
        await pilot.telemetry(feed)
        names = []
        for _ in range(3):
            names.append([row.single.alert.name for row in view(app).list.rows if row.single is not None])
            await pilot.press("s")
        assert names == [
            ["overheated", "throttled"],
            ["throttled", "overheated"],
            ["throttled", "overheated"],
        ]
        assert view(app).sort == "severity"


async def test_from_an_alert_to_its_place_and_back() -> None:
    """Enter goes to the chip, to the cause of a job's failure, to a reservation; A goes from a place to its alerts."""
    feed = fed(ultraservers(2) + standalone(1))
    feed.set("temperature_c", 95.0, rows(feed, CHIP))
    feed.set("temperature_c", 95.0, rows(feed, "uc1/us-0002/trn2u-0002-1/chip01"))
    feed.jobs = {"llama": ("uc1/us-0002/trn2u-0002-1",)}
    feed.states = {"llama": "failed"}
    feed.describe()
    feed.monitor.apply([feed.reservation("cb-1", "uc1/standalone/trn2-0001")])
    app, _ = made(feed)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.press("8")
        await pilot.telemetry(feed)
        for key, at in (
            ("chip05", ("Chip", CHIP)),
            ("job-failed", ("Chip", "uc1/us-0002/trn2u-0002-1/chip01")),
            ("ends-soon", ("Reservations", "uc1/standalone/trn2-0001")),
        ):
            app.go("", "Alerts")
            view(app).filter(key)
            await pilot.press("home", "enter")
            await pilot.pause()
            assert (app.entry.title, app.page.place) == at
        await pilot.press("escape")
        view(app).filter("")
        app.go(CHIP)
        await pilot.pause()
        await pilot.press("A")
        await pilot.pause()
        assert view(app).pattern == f"at={CHIP}"
        assert [row.single.alert.place for row in view(app).list.rows if row.single is not None] == [CHIP]
        await pilot.press("escape", "escape")
        assert app.entry.title == "Chip"


async def test_other_views_mark_what_has_alerts() -> None:
    """Tree, map, jobs, chip and reservation show unhandled alerts; acknowledged ones mark nothing."""
    feed = fed(ultraservers(2) + standalone(1))
    feed.jobs = {"llama": ("uc1/us-0001",)}
    feed.describe()
    feed.monitor.apply([feed.reservation("cb-1", INSTANCE)])
    feed.set("temperature_c", 95.0, rows(feed, CHIP))
    app, _ = made(feed)
    async with running(app, size=(160, 48)) as pilot:
        await pilot.telemetry(feed)
        await pilot.telemetry(feed)
        assert "us-0001 ✖" in pilot.text()
        assert "us-0002 ✖" not in pilot.text()
        assert next(line for line in pilot.screen() if "● llama" in line).rstrip().endswith("✖1")
        await pilot.press("2")
        await pilot.telemetry(feed)
        marked = [line for line in pilot.screen()[4:-2] if "✖" in line]
        assert [line.split()[1] for line in marked] == ["uc1", "us-0001", "trn2u-0001-2"]
        app.go(CHIP)
        await pilot.telemetry(feed)
        assert "alerts: ✖ overheated" in pilot.text()
        app.go(f"{INSTANCE}/chip06")
        await pilot.telemetry(feed)
        assert "alerts:" not in pilot.text()
        await pilot.press("7")
        await pilot.telemetry(feed)
        assert "alerts: ✖ 1 • 1" in pilot.text()
        alert = next(each for each in feed.monitor.alerts.active() if each.name == "overheated")
        now_ns = feed.monitor.moment().time_ns
        message = AckMessage(
            fingerprint=alert.fingerprint,
            owner="bob",
            at=format_rfc3339(now_ns),
            until=format_rfc3339(now_ns + 3_600 * NS_PER_S),
        )
        topic = build_topic("demo", TopicClass.ACK, alert.fingerprint)
        feed.monitor.apply([Envelope(topic, encode_message(message), qos=1, retain=True)])
        await pilot.telemetry(feed)
        await pilot.press("2")
        await pilot.telemetry(feed)
        signs = [
            part.style
            for strip in app.screen._compositor.render_strips()[3:-2]
            for part in strip
            if part.text == " ✖"
        ]
        assert len(signs) == 4, "what is acknowledged keeps a quiet sign"
        assert all(style is not None and style.color == theme.QUIET.color for style in signs)


@pytest.mark.parametrize("size", SIZES)
async def test_the_header_and_the_notice(size: tuple[int, int]) -> None:
    """The header counts what fires by severity, and a new alert is told for a while rather than an event."""
    feed = fed()
    app, _ = made(feed)
    async with running(app, size=size) as pilot:
        await pilot.telemetry(feed)
        assert "No problems" in pilot.screen()[0]
        feed.set("temperature_c", 95.0, rows(feed, CHIP))
        feed.set("throttle_pct", 20.0, slice(0, 5))
        feed.monitor.apply([feed.event("uc1/us-0002", "link down", severity="critical")])
        await pilot.telemetry(feed)
        await pilot.telemetry(feed)
        head = pilot.screen()[0]
        assert "✖ 1 crit" in head
        assert "▲ 1 warn" in head
        crumbs = app.query_one("#crumbs", Bar)
        assert "overheated" not in crumbs.text, "Fleet lists problems"
        await pilot.press("2")
        await pilot.telemetry(feed)
        assert "✖ " in crumbs.text
        assert crumbs.text.count("overheated") == 1
        assert "link down" not in crumbs.text
        await pilot.telemetry(feed, NOTICE_S)
        assert "overheated" not in crumbs.text


async def test_bell_and_notification(monkeypatch: pytest.MonkeyPatch) -> None:
    """New alerts ring once in ten seconds, all together; quiet ones and information do not."""
    feed = fed()
    said: list[str] = []
    monkeypatch.setattr("trnfleet.tui.notifications.send_notification", lambda _app, told: said.append(told))
    app, _ = made(feed, is_loud=True)
    rung: list[int] = []
    monkeypatch.setattr(app, "bell", lambda: rung.append(1))
    async with running(app, size=(120, 40)) as pilot:
        await pilot.telemetry(feed)
        assert not said
        feed.set("temperature_c", 95.0, rows(feed, CHIP))
        await pilot.telemetry(feed)
        assert len(said) == len(rung) == 1
        assert said[0] == f"1 new alert: critical overheated {CHIP}"
        feed.set("throttle_pct", 20.0, slice(0, 5))
        for _ in range(8):
            await pilot.telemetry(feed)
        assert len(said) == 1
        await pilot.telemetry(feed, 3.0)
        assert len(said) == len(rung) == 2
        assert said[1].startswith("5 new alerts: warning throttled")
        for _ in range(12):
            await pilot.telemetry(feed)
        assert len(said) == 2


async def test_a_quiet_app_does_not_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the options nothing rings."""
    feed = fed()
    app, _ = made(feed)
    rung: list[int] = []
    monkeypatch.setattr(app, "bell", lambda: rung.append(1))
    monkeypatch.setattr(
        "trnfleet.tui.notifications.send_notification", lambda _app, told: rung.append(len(told))
    )
    async with running(app, size=(120, 40)) as pilot:
        feed.set("temperature_c", 95.0, rows(feed, CHIP))
        await pilot.telemetry(feed)
        await pilot.telemetry(feed)
        assert not rung


def test_a_notification_holds_no_control_characters() -> None:
    """Whatever an alert is called, only the frame of the request is for the terminal to act upon."""
    made = pacing.notification(f"4;1;{NASTY}\u202e\x9c")
    assert made.startswith("\x1b]9;trnfleet: ")
    assert made.endswith("\x07")
    assert made[4:-1].isprintable()


async def test_texts_of_others_are_shown_plainly() -> None:
    """Owners, notes and reasons are what somebody wrote: nothing of them is acted upon."""
    feed = fed()
    feed.set("temperature_c", 95.0, rows(feed, CHIP))
    app, _ = made(feed)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.press("8")
        await pilot.telemetry(feed)
        operator = OperatorActions("demo", publisher=Loopback(feed.monitor), owner=NASTY)  # type: ignore[arg-type]
        alert = feed.monitor.alerts.active()[0]
        now_ns = feed.monitor.moment().time_ns
        await operator.acknowledge(alert, now_ns=now_ns, lasts_s=60.0, note=NASTY)
        await operator.silence(
            ["severity=warning", f'job!="{NASTY[:4]}"'], now_ns=now_ns, lasts_s=60.0, why=NASTY
        )
        for _ in range(4):
            await pilot.telemetry(feed)
            assert all(line.isprintable() for line in pilot.screen())
            await pilot.press("t")


async def test_help_knows_the_view() -> None:
    """? lists the view and its keys."""
    app, _ = made(fed())
    async with running(app, size=(160, 70)) as pilot:
        await pilot.press("8", "question_mark")
        for part in (
            "8 ",
            "Acknowledge",
            "Silence (preview of matches)",
            "The alerts of what the cursor",
        ):
            assert part in pilot.text()


async def test_no_rules() -> None:
    """Without rules the view says so and the header counts problems of findings."""
    feed = Feed(ultraservers(1))
    feed.describe()
    feed.tick()
    app, _ = made(feed)
    async with running(app, size=(80, 24)) as pilot:
        await pilot.press("8")
        await pilot.telemetry(feed)
        assert "No rules are loaded" in pilot.text()
        assert "No problems" in pilot.screen()[0]
