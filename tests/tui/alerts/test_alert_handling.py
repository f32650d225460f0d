"""Acknowledging and silencing in the Alerts view, and entries of other operators."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
import pytest
from support.tui.alerts_scene import NASTY, Loopback, alerts_app, alerts_feed, alerts_view, chips_at
from support.tui.handled import CHIP, INSTANCE
from support.tui.pilot import SIZES, running

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.monitor.alerting.operator import READ_ONLY, OperatorActions
from trnfleet.tui.app.app import FleetApp
from trnfleet.tui.view import NOTE_S
from trnfleet.wire.alerts import SilenceMessage
from trnfleet.wire.messages import WatchMessage, encode_message
from trnfleet.wire.ports import Envelope, PublishResult

if TYPE_CHECKING:
    from collections.abc import Iterable


async def test_acknowledging_and_taking_it_back() -> None:
    """A prompts for a duration, two hours by default, and x withdraws.

    The acknowledged alert leaves the active ones and names its owner.
    """
    feed = alerts_feed()
    feed.set("temperature_c", 95.0, chips_at(feed, CHIP))
    app, publisher = alerts_app(feed)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.press("8", telemetry=feed)
        await pilot.press("a")
        form = alerts_view(app).actions.ack_form
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
    """An invalid duration or a refusal by the broker is shown in the form.

    The form remains open. Esc leaves it.
    """
    feed = alerts_feed()
    feed.set("temperature_c", 95.0, chips_at(feed, CHIP))
    app, publisher = alerts_app(feed)
    async with running(app, size=(80, 24)) as pilot:
        await pilot.press("8", telemetry=feed)
        await pilot.press("a", "tab", *"soon", "enter")
        form = alerts_view(app).actions.ack_form
        assert "'soon' is not a duration" in form.message
        publisher.problem = "nothing was written: memory: no connection"
        await pilot.press(*["backspace"] * 4, *"1h", "enter")
        await pilot.pause()
        assert "no connection" in form.message
        await pilot.press("escape")
        assert not form.is_open
        assert alerts_view(app).list.has_focus
        assert app.entry.title == "Alerts"
        assert not publisher.sent


async def test_a_silence_with_its_preview() -> None:
    """Z offers the alert's matchers, previews matches while typing, requires a comment."""
    feed = alerts_feed()
    feed.set("temperature_c", 95.0, slice(0, 3))
    feed.set("throttle_pct", 20.0, slice(0, 1))
    app, publisher = alerts_app(feed)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.press("8", telemetry=feed)
        await pilot.press("z")
        form = alerts_view(app).actions.silence_form
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
        assert (
            "matches 3 firing alerts (3 critical), also 125 chips without an alert now: overheated"
            in form.message
        )
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
        await pilot.press("/", *"day work", "enter")
        await pilot.pause()
        assert "Nothing matches day work." in pilot.text()
        assert "No silences." not in pilot.text()
        await pilot.press("escape", "x")
        await pilot.pause()
        assert 'x again expires severity="critical"' in pilot.screen()[4]
        assert len(publisher.sent) == 1
        await pilot.press("down", "x")
        assert len(publisher.sent) == 1, "it asks again after another key"
        await pilot.press("x")
        await pilot.pause()
        await pilot.telemetry(feed)
        assert "No silences." in pilot.text()
        assert feed.monitor.alerts.counts().critical == 3


async def test_silences_of_alertmanager() -> None:
    """The list shows the origin of a silence, and why it is not applied.

    The details name its owner.
    """
    feed = alerts_feed()
    app, _ = alerts_app(feed)
    async with running(app, size=(220, 40)) as pilot:
        await pilot.press("8", telemetry=feed)
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
        await pilot.press("t", "t", telemetry=feed)
        assert "bob at alertmanager" in pilot.text()
        assert "not applied: no alert here has the label pod" in pilot.text()


@pytest.mark.parametrize("size", SIZES[:2])
async def test_what_alertmanager_refuses(size: tuple[int, int]) -> None:
    """The first line and the status line report it.

    The details of the alert and of the silence have the reason.
    """
    feed = alerts_feed()
    app, _ = alerts_app(feed)
    feed.set("temperature_c", 95.0, chips_at(feed, CHIP))
    async with running(app, size=size) as pilot:
        await pilot.press("8", telemetry=feed)
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
        beat = msgspec.convert(
            {
                "client": "w",
                "state": "online",
                "boot": "b",
                "role": "watch",
                "leads": True,
                "errors": 2,
                "receiver_errors": tuple(
                    {"receiver": "alertmanager", "kind": kind, "id": subject, "reason": reason}
                    for kind, subject, reason in refused
                ),
            },
            WatchMessage,
        )
        feed.monitor.apply([Envelope("trnfleet/v1/demo/publisher/w", encode_message(beat), 1)])
        await pilot.telemetry(feed)
        assert "▲ 2 receiver errors; alert" in pilot.screen()[4]
        assert "receiver errors 2" in pilot.screen()[-1]
        assert "acknowledgement by alertmanager: HTTP 400" in pilot.text()
        assert "\x1b]" not in pilot.text()
        await pilot.press("t", "t", telemetry=feed)
        assert "silence by alertmanager: HTTP 403" in pilot.text()
        cleared = msgspec.structs.replace(beat, errors=0, receiver_errors=())
        feed.monitor.apply([Envelope("trnfleet/v1/demo/publisher/w", encode_message(cleared), 1)])
        await pilot.telemetry(feed)
        assert "by alertmanager" not in pilot.text()
        assert "receiver errors" not in pilot.text()


async def test_a_silence_of_a_storm_is_for_what_it_shares() -> None:
    """On a collapsed line, the matchers are the common labels of its alerts."""
    feed = alerts_feed()
    feed.set("temperature_c", 95.0, chips_at(feed, INSTANCE))
    app, _ = alerts_app(feed)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.press("8", telemetry=feed)
        await pilot.press("z")
        form = alerts_view(app).actions.silence_form
        assert form.values["matchers"] == f'alertname="overheated" instance="{INSTANCE}"'
        assert "matches 16 firing alerts (16 critical)" in form.message


def slow_answers(publisher: Loopback, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Return the event that a publisher awaits before it answers."""
    answered, publish = asyncio.Event(), publisher.publish

    async def publish_slowly(batch: Iterable[Envelope]) -> PublishResult:
        await answered.wait()
        return await publish(batch)

    monkeypatch.setattr(publisher, "publish", publish_slowly)
    return answered


async def test_enter_pressed_again_before_the_broker_answers_writes_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A second Enter does not write a second silence.

    After a failure it can be repeated.

    A second silence would remain when the first is expired.
    """
    feed = alerts_feed()
    feed.set("temperature_c", 95.0, chips_at(feed, CHIP))
    app, publisher = alerts_app(feed)
    answered = slow_answers(publisher, monkeypatch)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.press("8", telemetry=feed)
        await pilot.press("z", *"fans", "enter", "enter")
        publisher.problem = "no answer"
        answered.set()
        await pilot.pause()
        form = alerts_view(app).actions.silence_form
        assert "no answer" in form.message
        answered.clear()
        publisher.problem = ""
        await pilot.press("enter", "enter", "enter")
        answered.set()
        await pilot.pause()
        assert not form.is_open
        assert len(publisher.sent) == 1


@pytest.mark.parametrize("problem", ["", "no answer"])
async def test_a_form_that_was_left_while_it_was_written_and_opened_again_stays(
    monkeypatch: pytest.MonkeyPatch, problem: str
) -> None:
    """The new form keeps its text and does not show the earlier write's error.

    The earlier result is shown beside the list, and the new form can be written, too.
    """
    feed = alerts_feed()
    feed.set("temperature_c", 95.0, chips_at(feed, CHIP))
    app, publisher = alerts_app(feed)
    answered = slow_answers(publisher, monkeypatch)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.press("8", telemetry=feed)
        await pilot.press("z", *"fans", "enter", "escape", "z", *"pumps")
        publisher.problem = problem
        answered.set()
        await pilot.pause()
        actions = alerts_view(app).actions
        form = actions.silence_form
        assert actions.is_open
        assert form.values["why"] == "pumps"
        assert "no answer" not in form.message
        assert (problem or "silenced for 4h00") in pilot.text()
        publisher.problem = ""
        await pilot.press("enter")
        await pilot.pause()
        assert not form.is_open
        assert len(publisher.sent) == 1 + (not problem)


async def test_a_screen_that_only_reads() -> None:
    """Without an operator, the keys show that and how to change it."""
    feed = alerts_feed()
    feed.set("temperature_c", 95.0, chips_at(feed, CHIP))
    for app in (alerts_app(feed, can_write=False)[0], FleetApp(feed.monitor, clock=feed.clock)):
        async with running(app, size=(80, 24)) as pilot:
            await pilot.press("8", telemetry=feed)
            for key in "azx":
                await pilot.press(key)
                assert READ_ONLY in pilot.text(), key
                assert not alerts_view(app).actions.ack_form.is_open
                await pilot.press(*(("down", "home") if key == "x" else ("escape",)))
                assert READ_ONLY not in pilot.text(), key
                assert alerts_view(app).list.has_focus


async def test_texts_of_others_are_shown_plainly() -> None:
    """Owners, notes and reasons of other operators are plain text."""
    feed = alerts_feed()
    feed.set("temperature_c", 95.0, chips_at(feed, CHIP))
    app, _ = alerts_app(feed)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.press("8", telemetry=feed)
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
