"""Keys with one meaning in every view.

`a`, `z`, `-`, `y`, `ctrl+c`, and keys without a meaning.
"""

from __future__ import annotations

import pytest
from support.monitor.feed import Feed, ultraservers
from support.tui.alerts_scene import alerts_app, alerts_feed, chips_at
from support.tui.handled import CHIP, INSTANCE, faulty, turn
from support.tui.pilot import fleet_app, running

from trnfleet.domain.alerts.matchers import all_match, parse_matchers, split_matchers
from trnfleet.monitor.alerting.engine import Alerts
from trnfleet.monitor.alerting.operator import READ_ONLY
from trnfleet.monitor.problems.problem import Place
from trnfleet.services.files.rules import load_rules
from trnfleet.tui.app.actions import AGAIN
from trnfleet.wire.alerts import SilenceMessage
from trnfleet.wire.messages import decode_message

OTHER_CHIP = "uc1/us-0001/trn2u-0001-3/chip09"


def burning() -> Feed:
    feed = alerts_feed()
    feed.set("temperature_c", 95.0, chips_at(feed, CHIP))
    feed.jobs = {"pretrain": ("uc1/us-0001",)}
    feed.describe()
    feed.tick()
    feed.monitor.apply(
        [feed.reservation("cr-1", "uc1/us-0001"), feed.event("", "it failed", job="pretrain")]
    )
    return feed


@pytest.mark.parametrize(
    ("keys", "matchers", "said"),
    [
        (("4",), f'chip="{CHIP}"', "matches 1 firing alert (1 critical): overheated"),
        (
            ("2",),
            f'instance="{INSTANCE}"',
            "matches 1 firing alert (1 critical), also 15 chips without an alert now: overheated",
        ),
        (("7",), 'reservation="cr-1"', "matches 1 firing alert: ends-soon cr-1"),
        (("9", "down", "down"), 'job="pretrain"', "matches 1 firing alert"),
        (
            ("9", "slash", *"ends-soon", "enter"),
            'alertname="ends-soon" reservation="cr-1"',
            "matches 1 firing alert: ends-soon cr-1",
        ),
        (
            ("1", "w"),
            f'alertname="overheated" chip="{CHIP}"',
            "matches 1 firing alert (1 critical): overheated",
        ),
    ],
    ids=["chip", "instance", "reservation", "event", "alert of a reservation", "problem"],
)
async def test_z_silences_what_the_cursor_is_on(
    keys: tuple[str, ...], matchers: str, said: str
) -> None:
    """The form has the item's matcher and previews its effect.

    The comment has the focus.
    """
    feed = burning()
    app, publisher = alerts_app(feed)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.telemetry(feed)
        app.go(INSTANCE if keys == ("2",) else CHIP, "Chip" if keys == ("4",) else "Hierarchy")
        await pilot.press(*keys)
        await pilot.tick(feed)
        await pilot.press("z")
        form = app.actions.silence_form
        assert form.values["matchers"] == matchers
        assert said in form.message
        await pilot.press(*"work", "enter")
        await pilot.pause()
        assert not form.is_open
        assert "silenced for 4h00" in app.note
        (sent,) = publisher.sent
        message = decode_message(sent.payload, SilenceMessage)
        assert " ".join(message.matchers) == matchers
        assert message.why == "work"
        assert app.page.query("*:focus")


async def test_z_on_a_chip_whose_alert_is_its_instances() -> None:
    """The proposed matcher matches alerts without a chip label.

    Rules that group chips by instance have such alerts.
    """
    feed = await faulty(seconds=1)
    node = feed.layout.find(OTHER_CHIP)
    assert node is not None
    feed.set("hbm_used_bytes", 102e9, [node.number])
    for _ in range(12):
        await turn(feed)
    app, _ = alerts_app(feed)
    async with running(app, size=(120, 40)) as pilot:
        await turn(feed)
        app.go(OTHER_CHIP, "Chip")
        await pilot.press("4", "z")
        form = app.actions.silence_form
        assert 'alertname="hbm-nearly-full"' in form.values["matchers"]
        also = "also 15 chips without an alert now: hbm-nearly-full"
        assert f"matches 1 firing alert, {also}" in form.message


async def test_z_on_a_hot_rack_leaves_the_other_rack() -> None:
    """The form matches the problem's alerts alone.

    Other typed matchers preview the chips they would mute, too.
    """
    feed = Feed(ultraservers(2))
    feed.monitor.ingest.alerts = Alerts("demo", load_rules())
    feed.scatter()
    feed.describe()
    feed.set("temperature_c", 96.0, slice(32, 64))
    for _ in range(15):
        await turn(feed)
    app, _ = alerts_app(feed)
    async with running(app, size=(160, 40)) as pilot:
        await turn(feed)
        await pilot.press("1", "w")
        problem = app.page.problems.picked  # type: ignore[attr-defined]  # the view Fleet
        assert problem.place == Place("uc1/us-0001", "rack-b")
        await pilot.press("z")
        form = app.actions.silence_form
        matchers = parse_matchers(split_matchers(form.values["matchers"]))
        assert str(matchers[-1]) == 'rack="uc1/us-0001/rack-b"'
        alerts = [each for each in feed.monitor.alerts.active() if each.fired_ns is not None]
        of_problem = {each.alert.fingerprint for each in problem.alerts}
        assert {
            each.fingerprint for each in alerts if all_match(matchers, each.labels)
        } == of_problem
        assert "also" not in form.message
        form.field("matchers").value = 'ultraserver="uc1/us-0001"'
        await pilot.pause()
        assert (
            "matches 1 firing alert, also 32 chips without an alert now: overheated" in form.message
        )
        form.field("matchers").value = 'rack="B"'
        await pilot.pause()
        assert "▲ no rack here is called 'B': did you mean 'uc1/us-0001/rack-b'?" in form.message
        form.field("matchers").value = "alertname=a alertname=b"
        await pilot.pause()
        assert 'no alert can match both alertname="a" and alertname="b"' in form.message


async def test_an_alert_by_its_id() -> None:
    """`:ack` and `:silence` accept an id, its beginning, or a rule with a place.

    Wherever the cursor is.
    """
    feed = burning()
    app, _ = alerts_app(feed)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.telemetry(feed)
        alert = next(each for each in feed.monitor.alerts.active() if each.name == "overheated")
        await pilot.press("7", "colon", *f"silence {alert.fingerprint[:6]}", "enter")
        assert (
            app.actions.silence_form.values["matchers"] == f'alertname="overheated" chip="{CHIP}"'
        )
        await pilot.press("escape", "colon", *f"ack overheated {CHIP}", "enter")
        assert app.actions.ack_form.is_open
        await pilot.press("escape", "colon", *"ack nobody", "enter")
        assert "no alert is called 'nobody'" in pilot.text()


async def test_a_acknowledges_what_the_cursor_is_on() -> None:
    """In a chip's view, `a` acknowledges its alerts.

    The text typed first is the note, and typing replaces the text in `for`.
    """
    feed = burning()
    app, publisher = alerts_app(feed)
    async with running(app, size=(80, 24)) as pilot:
        await pilot.telemetry(feed)
        app.go(CHIP)
        await pilot.press("a", *"fans", "tab", *"1h", "enter")
        await pilot.pause()
        await pilot.telemetry(feed)
        assert "acknowledged for 1h00" in app.note
        assert len(publisher.sent) == 1
        assert feed.monitor.alerts.counts().acked == 1
        app.go("uc1/us-0002", "Hierarchy")
        await pilot.press("a")
        assert "nothing to acknowledge" in app.note


@pytest.mark.parametrize("key", ["a", "z"])
async def test_where_nothing_can_be_written(key: str) -> None:
    """A read-only screen shows how it could write, in every view; a note runs no keys."""
    feed = burning()
    app, _ = alerts_app(feed, can_write=False)
    async with running(app, size=(120, 40)) as pilot:
        for view in "12479":
            await pilot.press(view, key, *"q 3")
            assert READ_ONLY in pilot.text(), view
            assert "not sent: q 3" in pilot.text()
            await pilot.press("enter")
            assert READ_ONLY not in pilot.text(), view
            assert app.entry.key == view
            assert not app.page.query("AskLine.-shown")


async def test_keys_without_a_meaning() -> None:
    """They are answered in the status line; the letters of a prompt are not."""
    async with running(fleet_app(burning()), size=(80, 24)) as pilot:
        await pilot.press("b")
        assert "b does nothing here; ? shows keys" in pilot.screen()[-1]
        await pilot.press("ctrl+f")
        assert "Ctrl-f does nothing here" in pilot.screen()[-1]
        pilot.app.clear_note()
        await pilot.press("right", "2", "slash", "b", "enter", "escape", "4", "down")
        assert pilot.app.note == ""


async def test_the_view_before() -> None:
    """`-` goes to the previous view, back and forth; Esc goes back all the way."""
    async with running(fleet_app(burning()), size=(80, 24)) as pilot:
        await pilot.press("minus")
        assert pilot.app.note == "no view before this one"
        await pilot.press("8", "2", "minus")
        assert pilot.app.entry.title == "Alerts"
        await pilot.press("minus")
        assert pilot.app.entry.title == "Hierarchy"
        await pilot.press("minus")
        assert pilot.app.entry.title == "Alerts"


async def test_ctrl_c_copies_before_it_quits() -> None:
    """In a field it copies the selection; else it asks, and a second press quits."""
    app = fleet_app(burning())
    async with running(app, size=(80, 24)) as pilot:
        await pilot.press("2", "slash", *"us-1", "shift+left", "shift+left", "ctrl+c")
        assert app.clipboard == "-1"
        assert app.is_running
        await pilot.press("escape", "ctrl+c")
        assert app.note == AGAIN
        await pilot.press("down", "ctrl+c")
        assert app.note == AGAIN
        assert app.return_code is None
        await pilot.press("y")
        assert app.clipboard == app.page.place
        await pilot.press("ctrl+c", "ctrl+c")
    assert app.return_code == 0
