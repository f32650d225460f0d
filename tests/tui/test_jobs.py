"""The Jobs view through its keys, against the monitor's report."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from support.monitor.feed import DEMO, Feed, live_feed
from support.monitor.top import Top
from support.tui.pilot import SIZES, FleetPilot, fleet_app, running

from trnfleet.domain.goodput import TimeCause
from trnfleet.domain.severity import Severity
from trnfleet.monitor.fleet_state import LOADING
from trnfleet.monitor.goodput_report import fix_first, goodput_facts, lost_of
from trnfleet.tui import theme
from trnfleet.tui.app.app import FleetApp
from trnfleet.tui.jobs.table import GOODPUT, MOST_ROWS, NAME, SORTS
from trnfleet.tui.jobs.view import JobsView
from trnfleet.tui.view import HIERARCHY, JOBS, RESERVATIONS
from trnfleet.wire.messages import ClaimMessage, ClaimSpec, JobMessage, encode_message
from trnfleet.wire.ports import Envelope
from trnfleet.wire.rollups import CellPaidTime
from trnfleet.wire.topics import TopicClass, build_topic

if TYPE_CHECKING:
    from rich.style import Style

WARNING = theme.SEVERITY_STYLE[Severity.WARNING]
TRAINING = "uc1/us-0001"
SERVING = "uc1/us-0002"
HOST = "uc1/standalone/trn2-0001"
COMMON = {"state": "running", "ts": "2026-01-05T00:00:00Z"}


def job(feed: Feed, name: str, *places: str, **figures: Any) -> Envelope:
    message = JobMessage(**{"job": name, "kind": "training", "on": places} | COMMON | figures)
    topic = build_topic(feed.fleet, TopicClass.JOB, name)
    return Envelope(topic, encode_message(message), qos=1, retain=True)


async def fed(*, is_priced: bool = True) -> Feed:
    """Return a feed of two jobs and idle instances after 40 s: steps of 2 s take 2.5 s."""
    feed = live_feed()
    feed.set("nc_util_pct", 50.0)
    feed.set("nc_util_pct", 0.0, slice(64))
    feed.set("engine_util_pct", 40.0)
    chip = feed.layout.find(f"{TRAINING}/trn2u-0001-2/chip07")
    assert chip is not None
    feed.set("engine_util_pct", 52.0, chip.number)
    if is_priced:
        feed.receive([feed.reservation("cb-1", TRAINING, instances=4, fee="28800.00")])
    figures = {"tokens_per_s": 5_000.0, "ttft_s": 0.5, "tpot_s": 0.03, "batch": 12.0}
    feed.receive([job(feed, "serve", SERVING, kind="inference", **figures)])
    for second in range(40):
        figures = {"steps_completed": float(second // 2.5), "steps_lost": 0.0}
        figures |= {"ideal_step_s": 2.0, "step_time_s": 2.5, "mfu": 0.4}
        feed.receive([job(feed, "train", TRAINING, **figures)])
        await feed.clock.advance(1.0)
        feed.tick()
    return feed


def view(app: FleetApp) -> JobsView:
    assert isinstance(app.page, JobsView)
    return app.page


def line(pilot: FleetPilot, word: str) -> str:
    return next(shown for shown in pilot.screen() if word in shown)


def amounts(text: str) -> list[float]:
    return [
        float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*\.\d\d\b(?! s)", text)
    ]


@pytest.mark.parametrize("size", SIZES)
async def test_sums_on_the_screen_are_the_report(size: tuple[int, int]) -> None:
    feed = await fed()
    async with running(fleet_app(feed), size=size) as pilot:
        await pilot.press("5", telemetry=feed)
        assert pilot.app.entry.title == JOBS
        assert re.search(r"\[5 Jobs?:2\]", pilot.text()) or size[0] == 80
        report = view(pilot.app).table.report
        assert report is not None
        hour = 3_600 / report.lasts_s
        lost = lost_of(report.fleet.usd)
        paid = float(report.fleet.usd.sum())
        summary = amounts(line(pilot, "goodput "))
        assert round(lost, 2) in summary
        assert f" ≥{lost:,.2f} " in line(pilot, "goodput "), "some instances have no price"
        assert "…" not in line(pilot, "goodput ")
        assert round(paid, 2) in summary
        assert amounts(line(pilot, " sum "))[0] == pytest.approx(lost * hour, abs=0.006)
        rows = [amounts(line(pilot, name)) for name in (" train ", " serve ", " no job ")]
        assert rows[0][0] == pytest.approx(lost * hour, abs=0.006), "only one job has a price"
        assert rows[1] == rows[2] == []
        assert all(len(shown) <= size[0] for shown in pilot.screen())
        slow = report.fleet.usd[TimeCause.SLOW] * hour
        assert f"slow {slow:,.2f}" in line(pilot, " train ")


async def test_sums_are_marked_while_the_fleet_is_loading() -> None:
    feed = await fed()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.press("5", telemetry=feed)
        assert "loading" not in pilot.text()
        feed.monitor.incomplete = LOADING
        await pilot.telemetry(feed)
        for head in (" goodput ", " paid time ──", "Fix first ──"):
            assert re.search(r"over \d+ s, loading", line(pilot, head)), head


async def test_without_a_price_there_are_hours() -> None:
    feed = await fed(is_priced=False)
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.press("5", telemetry=feed)
        assert "instance-hours" in pilot.text()
        assert "USD" not in line(pilot, "lost h/h")
        assert "no job" in line(pilot, ">"), "idle instances lose most"
        assert amounts(line(pilot, " no job "))[0] == 4.0


async def test_a_job_without_step_times_has_its_known_loss() -> None:
    """As `status --json` has it, with the mark of a part."""
    feed = live_feed()
    for second in range(40):
        state = "checkpointing" if second < 20 else "running"
        feed.receive([job(feed, "train", TRAINING, state=state)])
        await feed.clock.advance(1.0)
        feed.tick()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.press("5", telemetry=feed)
        report = view(pilot.app).table.report
        assert report is not None
        told = {each["job"]: each for each in goodput_facts(report)["jobs"]}
        lost = told["train"]["lost_s"] / report.lasts_s
        assert (told["train"]["goodput"], lost > 1) == (None, True)
        assert f" ≥{lost:.2f} checkpoint {lost:.2f}" in line(pilot, " train ")
        assert "≥" in line(pilot, " sum ")
        assert "≥" not in line(pilot, " no job ")


async def test_the_unit_key_shows_hours_and_money_again() -> None:
    feed = await fed()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.press("5", telemetry=feed)
        assert "lost USD/h" in pilot.text()
        await pilot.press("dollar_sign")
        assert "lost h/h" in pilot.text()
        await pilot.press("dollar_sign")
        assert "lost USD/h" in pilot.text()


async def test_the_legend_names_only_what_meters_show(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = await fed()
    read = feed.monitor.goodput.report

    def report(minutes: int | None = None) -> Any:
        made = read(minutes)
        for paid in (made.fleet, made.jobs[0].paid):
            paid.seconds[TimeCause.RECOVERY] = 0.01
        return made

    monkeypatch.setattr(feed.monitor.goodput, "report", report)
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.press("5", telemetry=feed)
        assert "▒ slow" in line(pilot, " ■ productive ")
        assert "recovery" not in line(pilot, " ■ productive ")


async def test_details_tell_causes_steps_chips_and_serving() -> None:
    feed = await fed()
    async with running(fleet_app(feed), size=(240, 70)) as pilot:
        await pilot.press("5", telemetry=feed)
        assert "train paid time" in pilot.text()
        assert "ideal 2 s (plan)" in pilot.text().replace("2.00", "2")
        assert "p50 2.50 s" in pilot.text()
        assert re.search(r"trn2u-0001-2/chip07 +\+0\.300 s", pilot.text())
        assert re.search(r"63 others|58 others", pilot.text())
        view(pilot.app).table.point_at("serve")
        await pilot.pause()
        assert re.search(r"TTFT +500 ms +limit 2\.00 s", pilot.text())
        assert re.search(r"tokens a USD +n/a", pilot.text()), "its instances have no price"
        assert "Slowest chips" not in pilot.text()
        view(pilot.app).table.point_at("")
        await pilot.pause()
        assert re.search("Instances without a job 4", pilot.text())


async def test_latencies_have_percentiles_of_the_time_that_served() -> None:
    """Ten seconds of 50 are slow, and later ones do not count: nothing is served then."""
    feed = await fed()
    for state, seconds in (("running", 10), ("loading", 20)):
        for _ in range(seconds):
            slow = {"ttft_s": 1.5, "tpot_s": 0.03, "state": state}
            feed.receive([job(feed, "serve", SERVING, kind="inference", **slow)])
            await feed.clock.advance(1.0)
            feed.tick()
    async with running(fleet_app(feed), size=(240, 70)) as pilot:
        await pilot.press("5", telemetry=feed)
        view(pilot.app).table.point_at("serve")
        await pilot.pause()
        assert re.search(r"TTFT +1\.50 s +limit 2\.00 s", pilot.text())
        assert "p50 500 ms  p90 1.50 s  p99 1.50 s" in pilot.text()


@pytest.mark.parametrize(("ttft_s", "style"), [(1.9, theme.BASE), (2.1, WARNING)])
async def test_a_replica_over_its_limit_is_marked(ttft_s: float, style: Style) -> None:
    feed = await fed()
    slow = {"ttft_s": ttft_s, "tokens_per_s": 4_321.0}
    feed.receive([job(feed, "serve", SERVING, kind="inference", **slow)])
    feed.tick()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.press("5", telemetry=feed)
        table = view(pilot.app).table
        row = next(row for row in table.rows if row.key == "serve")
        parts = table.parts_of(row, 120, selected=False)
        assert [own for text, own in parts if "4.32k tok/s" in text] == [style]


async def test_states_share_the_axis_of_step_times() -> None:
    feed = await fed()
    for _ in range(20):
        feed.receive([job(feed, "train", TRAINING, state="checkpointing")])
        await feed.clock.advance(1.0)
        feed.tick()
    async with running(fleet_app(feed), size=(240, 70)) as pilot:
        await pilot.press("5", telemetry=feed)
        assert "● running" in pilot.text()
        assert "▼ checkpointing" in pilot.text()
        found = re.findall(r"┄+●+▼+(?=\s)", pilot.text())
        assert len(found) > 1, "in the timeline, and over the time axis of charts"
        assert all(states.count("●") > states.count("▼") for states in found)
        chart = pilot.text().partition("Step time of the job")[2]
        assert chart.index(found[1]) < chart.index("now")


async def test_a_job_s_power_is_that_of_its_only_place() -> None:
    """Both charts have the same mean, also while the power changes."""
    feed = await fed()
    async with running(fleet_app(feed), size=(240, 70)) as pilot:
        await pilot.press("5", telemetry=feed)
        feed.set("power_w", 480.0)
        await pilot.telemetry(feed)
        (of_job,) = re.findall(r"Power of the job (\S+) kW", pilot.text())
        (of_place,) = re.findall(r"power (\S+) kW of 32\.0 kW", pilot.text())
        assert of_job == of_place != "19.2"


@pytest.mark.parametrize("size", SIZES)
async def test_cells_of_a_top_broker_are_listed_with_their_sum(size: tuple[int, int]) -> None:
    top = Top()
    times = {"productive": 6_120.0, "idle": 1_080.0}
    top.paid = CellPaidTime(lasts_s=60.0, seconds=times, usd={}, unpriced_s=7_200.0)
    for _ in range(3):
        top.frame((1.0, 2.0, 3.0))
        top.monitor.compute()
        await top.clock.advance(1.0)
    app = FleetApp(top.monitor, clock=top.clock)
    async with running(app, size=size) as pilot:
        await pilot.press("5", "t")
        assert "Cells by their relays" in pilot.text()
        for cell in ("1 of 1", "cell-a"):
            assert re.search(rf"{cell} +2\.00 +0\.30 +1\.70(?= |$)", pilot.text(), re.MULTILINE)
        assert all(len(shown) <= size[0] for shown in pilot.screen())


async def test_fix_first_is_the_report_and_idle_money_opens_its_reservation() -> None:
    feed = await fed()
    feed.receive([feed.reservation("cb-idle", "uc1/standalone/trn2-0002")])
    async with running(fleet_app(feed), size=(240, 70)) as pilot:
        await pilot.press("5", telemetry=feed)
        report = view(pilot.app).table.report
        assert report is not None
        for loss in fix_first(report)[:2]:
            assert f"{loss.part.usd:,.2f} USD  {loss.what}" in pilot.text()
        view(pilot.app).table.point_at("")
        await pilot.press("enter")
        await pilot.pause()
        assert pilot.app.entry.title == RESERVATIONS


async def test_engines_that_nobody_publishes_have_no_list() -> None:
    feed = await fed()
    feed.set("engine_util_pct", float("nan"))
    async with running(fleet_app(feed), size=(240, 70)) as pilot:
        await pilot.press("5", telemetry=feed)
        assert "train paid time" in pilot.text()
        assert "Slowest chips" not in pilot.text()


async def test_a_small_screen_opens_details_and_then_the_place() -> None:
    feed = await fed()
    extra = [job(feed, f"extra-{number}", HOST) for number in range(7)]
    feed.receive(extra)
    async with running(fleet_app(feed), size=(80, 24)) as pilot:
        await pilot.press("5", telemetry=feed)
        assert "lost USD/h" in pilot.text()
        assert "Timeline" not in pilot.text()
        await pilot.press("enter")
        assert "train paid time" in pilot.text()
        assert "Timeline" in pilot.text()
        assert "lost USD/h" not in pilot.text()
        await pilot.press("escape")
        assert "lost USD/h" in pilot.text()
        await pilot.press("enter", "enter")
        await pilot.pause()
        assert pilot.app.entry.title == HIERARCHY
        assert pilot.app.place == TRAINING


async def test_sort_and_filter() -> None:
    feed = await fed()
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.press("5", telemetry=feed)
        table = view(pilot.app).table
        assert [row.key for row in table.rows] == ["train", "", "serve"], "unpriced ones last"
        await pilot.press("N")
        assert table.order == NAME
        assert [row.title for row in table.rows] == ["no job", "serve", "train"]
        await pilot.press("s")
        assert table.order == SORTS[0]
        await pilot.press("U")
        assert table.order == GOODPUT
        assert table.rows[0].key == ""
        await pilot.press("slash", *"goodput<90 & kind=training")
        assert [row.key for row in table.rows] == ["train"]
        assert " sum " in pilot.text()
        await pilot.press("enter", "escape")
        assert len(table.rows) == 3
        await pilot.press("slash", *"nothing-like-it")
        assert "No job matches" in pilot.text()


async def test_a_claimed_job_has_its_chips_and_no_goodput() -> None:
    """Hosts without job messages: claims name chips, and nothing tells progress from loss."""
    feed = live_feed(DEMO[-1:])
    place = DEMO[-1][0]
    spec = ClaimSpec(job="pod-7", chips=(0, 1, 2), source="pod-resources")
    claim = ClaimMessage(path=place, boot=feed.boot, ts=COMMON["ts"], claims=(spec,))
    feed.set("nc_util_pct", 50.0)
    topic = build_topic(feed.fleet, TopicClass.CLAIM, place)
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        feed.receive([Envelope(topic, encode_message(claim), qos=1, retain=True)])
        for _ in range(3):
            await pilot.telemetry(feed)
        await pilot.press("5", telemetry=feed)
        assert re.search(r"pod-7 +3 +NC 50\.0 % .*n/a +n/a +-", line(pilot, " pod-7 "))
        assert "pod-resources" in pilot.text()
        assert "vs ideal" not in pilot.text()


async def test_empty() -> None:
    """A fleet without a job still has its idle instances; without instances there is a hint."""
    feed = Feed(DEMO)
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.press("5")
        await pilot.paint()
        assert "No job is published" in pilot.text()
        assert "docs/jobs.md" in pilot.text()
        assert not re.search(r"\b0\.00\b", pilot.text())


async def test_many_jobs_are_cut_and_the_filter_finds_the_others() -> None:
    feed = await fed()
    feed.receive([job(feed, f"many-{number:03d}", HOST) for number in range(MOST_ROWS + 50)])
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.press("5", telemetry=feed)
        table = view(pilot.app).table
        assert len(table.rows) == MOST_ROWS
        assert f"first {MOST_ROWS} of {table.matching:,}" in pilot.text()
        await pilot.press("slash", *"many-249")
        assert [row.key for row in table.rows] == ["many-249"]
        assert "n/a" in line(pilot, " many-249 "), "its time is among other jobs'"


async def test_the_window_is_told_and_the_report_read_once_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    feed = await fed()
    asked: list[int | None] = []
    goodput = feed.monitor.goodput
    read = goodput.report

    def report(minutes: int | None = None) -> Any:
        asked.append(minutes)
        return read(minutes)

    monkeypatch.setattr(goodput, "report", report)
    async with running(fleet_app(feed), size=(120, 40)) as pilot:
        await pilot.telemetry(feed, 3)
        assert asked == [], "not while another view is shown"
        await pilot.press("5", telemetry=feed)
        for _ in range(5):
            await pilot.tick(feed, 0.1)
        count = len(asked)
        assert count <= 2
        assert asked == [6] * count
        assert "over 44 s" in pilot.text()
        await pilot.press("v", "v")
        await pilot.paint()
        assert asked[-1:] == [60]
        await pilot.press("v", "v")
        await pilot.paint()
        assert asked[-1:] == [None]
        assert "since the start, over 44 s" in pilot.text()
