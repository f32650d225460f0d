from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from support.monitor.alert_messages import alert_message
from support.monitor.feed import DEMO, Feed, live_feed, standalone

from trnfleet.domain.durations import DAY_S
from trnfleet.domain.goodput import DEVICE_DAYS, LEAST_STEPS, PaidRow, TimeCause
from trnfleet.domain.site import TPOT_LIMIT_S, Site
from trnfleet.monitor import goodput as module
from trnfleet.monitor.goodput import Goodput
from trnfleet.monitor.goodput_report import (
    NO_JOB,
    GoodputReport,
    JobTime,
    energy_text,
    expected_text,
    fix_first,
    goodput_facts,
    goodput_text,
    lost_of,
    paid_report,
)
from trnfleet.monitor.power import PowerReader
from trnfleet.monitor.power_groups import JOBS
from trnfleet.monitor.problems.texts import loss_text
from trnfleet.monitor.replay.packed_snapshot import PackedSnapshot
from trnfleet.wire.messages import JobMessage, WatchMessage, encode_message
from trnfleet.wire.ports import Envelope
from trnfleet.wire.topics import TopicClass, build_topic

TRAINING = "uc1/us-0001"
SERVING = "uc1/us-0002"
HOST = "uc1/standalone/trn2-0001"
HOSTS = [path for path, _ in DEMO]


def job(feed: Feed, name: str, *places: str, state: str = "running", **figures: Any) -> None:
    """Publish a job."""
    message = JobMessage(
        **{"job": name, "kind": "training", "state": state, "on": places}
        | {"ts": "2026-01-05T00:00:00Z"}
        | figures
    )
    topic = build_topic(feed.fleet, TopicClass.JOB, name)
    feed.receive([Envelope(topic, encode_message(message), qos=1, retain=True)])


def train(feed: Feed, completed: float, lost: float = 0.0, **figures: Any) -> None:
    """Publish a training job that has come to a step; a step takes 2 s when nothing is slow."""
    figures = {"ideal_step_s": 2.0} | figures
    job(feed, "train", TRAINING, steps_completed=completed, steps_lost=lost, **figures)


async def seconds(feed: Feed, count: int, paths: list[str] | None = None) -> None:
    """Let seconds pass, with a tick in each."""
    for _ in range(count):
        await feed.clock.advance(1.0)
        feed.tick(paths)


def report(feed: Feed, minutes: int | None = None) -> GoodputReport:
    """Return the paid time so far, and check that it adds up."""
    made = feed.monitor.goodput.report(minutes)
    assert not feed.monitor.counts.internal_errors
    by_job = np.sum([each.paid.seconds for each in made.jobs], axis=0)
    np.testing.assert_allclose(by_job, made.fleet.seconds, atol=1e-9)
    return made


def time_of(feed: Feed, name: str | None, minutes: int | None = None) -> dict[str, float]:
    """Return a job's time by cause, without zeros."""
    (found,) = (each for each in report(feed, minutes).jobs if each.job == name)
    return {
        cause.key: round(float(found.paid.seconds[cause]), 6)
        for cause in TimeCause
        if found.paid.seconds[cause]
    }


def only(feed: Feed, name: str) -> JobTime:
    """Return a job's paid time."""
    return next(each for each in report(feed).jobs if each.job == name)


async def test_causes_add_up_to_the_paid_time() -> None:
    feed = live_feed()
    feed.set("nc_util_pct", 25.0)
    feed.set("nc_util_pct", 0.0, slice(64))
    job(feed, "serve", SERVING, kind="inference", tpot_s=TPOT_LIMIT_S)
    train(feed, 100.0)
    await seconds(feed, 4)
    train(feed, 102.0)
    await seconds(feed, 2)
    job(feed, "serve", SERVING, kind="inference", tpot_s=2 * TPOT_LIMIT_S)
    train(feed, 102.0, state="checkpointing")
    await seconds(feed, 4)
    assert time_of(feed, "train") == {"productive": 16.0, "slow": 8.0, "checkpoint": 16.0}
    assert time_of(feed, "serve") == {"productive": 6.0, "slow": 4.0, "headroom": 30.0}
    assert time_of(feed, NO_JOB) == {"idle": 40.0}
    made = report(feed)
    assert made.lasts_s == 10.0
    assert made.fleet.seconds.sum() == pytest.approx(12 * 10.0)
    assert [each.job for each in made.jobs] == [NO_JOB, "train", "serve"], "most loss first"


async def test_unheard_instances_are_unobserved_and_announced_ones_down() -> None:
    feed = live_feed()
    train(feed, 1.0, state="waiting")
    _silent, quarantined, *others = HOSTS
    await seconds(feed, 3, [quarantined, *others])
    before = time_of(feed, "train")
    feed.receive([feed.event(quarantined, name="instance_quarantined")])
    await seconds(feed, 6, [quarantined, *others])
    feed.receive([feed.event(quarantined, name="instance_returned")])
    after = time_of(feed, "train")
    assert after["down"] == 6.0
    assert after["unobserved"] == pytest.approx(6.0, abs=1.0), "silent for three periods"
    assert after["recovery"] - before["recovery"] == pytest.approx(12.0, abs=1.0)
    feed.receive([feed.publisher_envelope("offline")])
    await feed.advance(1.0)
    assert time_of(feed, "train")["down"] == 10.0
    assert sum(time_of(feed, "train").values()) == 40.0


@pytest.mark.parametrize("is_cut_off", [False, True])
async def test_time_without_hearing_is_unobserved(is_cut_off: bool) -> None:
    """Steps made in it count nowhere: their time was not seen."""
    feed = live_feed()
    train(feed, 1.0)
    await seconds(feed, 2)
    if is_cut_off:
        feed.monitor.link.connected = False
        for _ in range(30):
            await feed.advance(1.0)
        feed.monitor.link.connected = True
        feed.monitor.link.connects += 1
    else:
        await feed.clock.advance(30.0)
    train(feed, 15.0)
    feed.tick()
    await seconds(feed, 2)
    train(feed, 16.0)
    await seconds(feed, 1)
    time = time_of(feed, "train")
    assert time["unobserved"] == 120.0
    assert time["productive"] == 8.0


async def test_after_a_jump_time_goes_on_from_there() -> None:
    feed = live_feed()
    await seconds(feed, 2)
    await feed.clock.advance(2 * 3_600.0)
    feed.tick()
    await seconds(feed, 2)
    assert report(feed).lasts_s == 4.0


async def test_lost_steps_are_lost_in_the_minutes_that_made_them() -> None:
    feed = live_feed()
    train(feed, 100.0)
    await seconds(feed, 40)
    train(feed, 120.0)
    await seconds(feed, 40)
    train(feed, 140.0)
    await seconds(feed, 20)
    assert time_of(feed, "train") == {"productive": 320.0, "slow": 80.0}
    train(feed, 115.0, 25.0, state="failed")
    await seconds(feed, 1)
    time = time_of(feed, "train")
    assert time == {"productive": 120.0, "lost_work": 200.0, "slow": 80.0, "recovery": 4.0}
    assert time_of(feed, "train", 60) == time
    assert time_of(feed, "train", 1)["lost_work"] == 160.0
    train(feed, 75.0, 65.0, state="failed")
    await seconds(feed, 1)
    assert only(feed, "train").written_off_s == 320.0, "made before the monitor began"


@pytest.mark.parametrize("ring", [module.MINUTES, 2])
async def test_the_ledger_adds_up_to_the_sums(monkeypatch: pytest.MonkeyPatch, ring: int) -> None:
    """Steps lost later are moved by rows of their own, however long ago they were made."""
    monkeypatch.setattr(module, "MINUTES", ring)
    feed = live_feed()
    feed.monitor.goodput = module.Goodput()
    ledger: list[PaidRow] = []
    feed.monitor.goodput.ledger = ledger
    for minute in range(4):
        # A plan that differs in its last digits is the same.
        train(feed, 100.0 + 20 * minute, ideal_step_s=2.0 + minute * 1e-15)
        await seconds(feed, 50)
    booked = [list(row.sums.flat) for row in ledger]
    train(feed, 105.0, 65.0, state="failed")
    await seconds(feed, 1)
    feed.monitor.goodput.book()
    made = report(feed)
    again = paid_report(ledger, made.lasts_s)
    (train_now,) = (each for each in made.jobs if each.job == "train")
    (train_then,) = (each for each in again.jobs if each.job == "train")
    np.testing.assert_allclose(train_then.paid.seconds, train_now.paid.seconds, atol=1e-9)
    np.testing.assert_allclose(again.fleet.seconds, made.fleet.seconds, atol=1e-9)
    assert train_now.paid.seconds[TimeCause.LOST_WORK] == pytest.approx(4 * 65 * 2.0)
    assert [list(row.sums.flat) for row in ledger[: len(booked)]] == booked, "no row changes"
    moved = [row for row in ledger if row.booked > row.minute]
    assert sum(row.sums[0].sum() for row in moved) == pytest.approx(0.0)
    assert {row.lasts_s for row in moved} == {0.0}


async def test_figures_are_provisional_before_two_checkpoints() -> None:
    feed = live_feed()
    for number in range(2):
        train(feed, float(number), state="running")
        await seconds(feed, 2)
        assert only(feed, "train").is_provisional
        train(feed, float(number), state="checkpointing")
        await seconds(feed, 2)
    assert not only(feed, "train").is_provisional


async def test_an_ideal_step_is_measured_where_none_is_planned() -> None:
    feed = live_feed()
    for step in range(LEAST_STEPS + 1):
        time = {} if step == 0 else time_of(feed, "train")
        assert "productive" not in time
        train(feed, float(step), ideal_step_s=None, step_time_s=1.0)
        await seconds(feed, 1)
    found = only(feed, "train")
    assert (found.ideal_s, found.is_planned) == (1.0, False)
    assert time_of(feed, "train") == {"productive": 80.0, "slow": 4.0}


async def test_another_plan_leaves_the_time_before_as_it_was() -> None:
    feed = live_feed()
    train(feed, 0.0)
    await seconds(feed, 2)
    train(feed, 1.0)
    await seconds(feed, 2)
    train(feed, 1.0, ideal_step_s=1.0)
    await seconds(feed, 2)
    assert time_of(feed, "train") == {"productive": 8.0, "slow": 16.0}


async def test_work_without_figures_is_not_split() -> None:
    """A job without counters, serving without times, and a busy instance without a job."""
    feed = live_feed()
    feed.set("nc_util_pct", 50.0)
    job(feed, "train", TRAINING)
    job(feed, "serve", SERVING, kind="inference")
    await seconds(feed, 2)
    assert time_of(feed, "train") == {"unsplit": 8.0}
    assert time_of(feed, "serve") == {"headroom": 4.0, "unsplit": 4.0}
    assert time_of(feed, NO_JOB) == {"unsplit": 8.0}
    feed.silence(HOST)
    await seconds(feed, 1)
    assert time_of(feed, NO_JOB) == {"unsplit": 12.0}, "its utilisation is unknown"


async def test_money_is_the_price_of_each_reservation() -> None:
    """An instance is paid until its termination, and a reserved one that is not there, too."""
    feed = live_feed(standalone(3))
    feed.set("nc_util_pct", 0.0)
    messages = [
        feed.reservation("cb-1", HOST, instances=2),
        feed.reservation("cb-2", "uc1/standalone/trn2-0002", terminates="2026-01-05T00:00:05Z"),
    ]
    feed.receive(messages)
    await seconds(feed, 10)
    made = report(feed).fleet
    assert made.seconds[TimeCause.IDLE_RESERVED] == 10.0 + 4.0
    assert made.seconds[TimeCause.IDLE] == 10.0, "an instance of no reservation"
    assert made.seconds[TimeCause.UNOBSERVED] == 10.0
    assert made.unpriced_s == 10.0
    assert made.usd[TimeCause.IDLE_RESERVED] * 3_600 == pytest.approx(10 * 50.0 + 4 * 100.0)
    assert made.usd[TimeCause.UNOBSERVED] * 3_600 == pytest.approx(10 * 50.0)
    feed.receive([feed.reservation("cb-1", HOST, instances=2, currency="EUR", change=1)])
    await seconds(feed, 1)
    assert report(feed).fleet.unpriced_s == 10.0 + 3.0


async def test_a_snapshot_goes_on_with_its_sums() -> None:
    feed = live_feed()
    train(feed, 100.0)
    await seconds(feed, 4)
    snapshot = PackedSnapshot(feed.monitor)
    await seconds(feed, 3)
    feed.monitor.restore(snapshot.unpack())
    assert report(feed).lasts_s == 4.0


async def test_sums_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ended jobs make room; then further ones are together."""
    monkeypatch.setattr(module, "MOST_JOBS", 2)
    feed = live_feed(standalone(4))
    for number in range(1, 4):
        job(feed, f"job-{number}", f"uc1/standalone/trn2-000{number}", state="starting")
    await seconds(feed, 2)
    assert time_of(feed, None) == {"start_up": 2.0}
    feed.receive([Envelope(build_topic(feed.fleet, TopicClass.JOB, "job-1"), b"", retain=True)])
    await seconds(feed, 2)
    assert time_of(feed, "job-3") == {"start_up": 2.0}
    assert time_of(feed, None) == {"start_up": 4.0}
    assert sum(report(feed).fleet.seconds) == 16.0


async def test_what_is_not_known_is_null_in_json_and_not_said_in_text() -> None:
    feed = live_feed(standalone(2))
    assert goodput_text(report(feed)) == "n/a: it needs time to watch, or a recording"
    feed.set("nc_util_pct", 0.0)
    job(feed, "serve", HOST, kind="inference")
    await seconds(feed, 5)
    facts = goodput_facts(report(feed))
    assert (facts["usd"], facts["lost_usd"], facts["unpriced_s"]) == (None, None, 10.0)
    jobs = {one["job"]: one for one in facts["jobs"]}
    assert jobs["serve"]["goodput"] is None, "nobody asked anything of it"
    assert jobs["serve"]["ideal_step_s"] is None
    assert jobs[None]["goodput"] == 0.0
    feed.receive([feed.reservation("cb-1", HOST)])
    await seconds(feed, 5)
    assert goodput_text(report(feed)) == (
        "0.0 % over 10 s: idle 50.0 %, headroom 50.0 %;"
        " paid 0.14 USD for the part with a price, lost 0.00"
    )


async def test_slow_time_is_by_the_cause_that_alerts_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the slow time that there is, with the rest unexplained, and jobs of a cause together.

    Recovery and lost work have the cause of the failure.
    """
    feed = live_feed()
    causes: dict[str, str] = {}
    monkeypatch.setattr(feed.monitor.alerts, "job_causes", lambda: causes)
    train(feed, 0.0)
    await seconds(feed, 8)
    causes["train"] = causes["serve"] = "uc1/us-0001/trn2u-0001-2/chip06 (straggler)"
    job(feed, "serve", SERVING, kind="inference", tpot_s=2 * TPOT_LIMIT_S)
    feed.set("nc_util_pct", 100.0)
    train(feed, 3.0, step_time_s=4.0)
    await seconds(feed, 8)
    by = only(feed, "train").by(TimeCause.SLOW)
    assert {name: part.seconds for name, part in by.items()} == {
        "uc1/us-0001/trn2u-0001-2/chip06 (straggler)": 16.0,
        "": 24.0,
    }
    causes["train"] = "uc1/us-0001/trn2u-0001-0/chip01 (hbm)"
    train(feed, 2.0, 1.0, state="failed")
    await seconds(feed, 4)
    made = report(feed)
    losses = {loss_text(loss): loss for loss in fix_first(made)}
    assert [*losses] == [
        "0.02 h  straggler trn2u-0001-2/chip06, train, serve",
        "0.01 h  hbm trn2u-0001-0/chip01, train",
        "0.01 h  unexplained slow time, train",
    ]
    assert [loss.part.seconds for loss in losses.values()] == [64.0, 24.0, 24.0]
    assert sum(loss.part.seconds for loss in losses.values()) == lost_of(made.fleet.seconds)
    for each in made.jobs:
        for cause in TimeCause:
            parts = [part.seconds for part in each.by(cause).values()]
            assert sum(parts) == pytest.approx(each.paid.seconds[cause])
    (facts,) = (one for one in goodput_facts(made)["jobs"] if one["job"] == "train")
    assert [one["cause"] for one in facts["slow_by"]] == [name or None for name in by]


async def test_explained_time_is_at_most_the_slow_time(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = live_feed()
    cause = {"train": "uc1/us-0001 (rack_overheat)"}
    monkeypatch.setattr(feed.monitor.alerts, "job_causes", lambda: cause)
    train(feed, 0.0, step_time_s=20.0)
    await seconds(feed, 10)
    train(feed, 4.0, step_time_s=20.0)
    await seconds(feed, 1)
    by = only(feed, "train").by(TimeCause.SLOW)
    assert {name: part.seconds for name, part in by.items()} == {
        "uc1/us-0001 (rack_overheat)": time_of(feed, "train")["slow"]
    }


async def test_idle_time_is_by_reservation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PARTS", 1)
    feed = live_feed(standalone(3))
    feed.set("nc_util_pct", 0.0)
    feed.receive([feed.reservation("cb-1", HOST)])
    await seconds(feed, 36)
    assert [loss_text(loss) for loss in fix_first(report(feed))] == [
        "1.00 USD  idle reserved cb-1",
        "0.02 h  idle",
    ]
    assert goodput_facts(report(feed))["fix_first"][0]["lost_usd"] == pytest.approx(1.0)
    feed.receive([feed.reservation("cb-2", "uc1/standalone/trn2-0002")])
    await seconds(feed, 2)
    (idle,) = report(feed).jobs
    assert {*idle.by(TimeCause.IDLE_RESERVED)} == {"cb-2", ""}, "the smallest part made room"


async def test_limits_of_serving_are_the_sites_or_the_jobs_own() -> None:
    feed = live_feed()
    feed.monitor.goodput = Goodput(Site(tpot_limit=2 * TPOT_LIMIT_S))
    feed.set("nc_util_pct", 100.0)
    figures: dict[str, Any] = {"kind": "inference", "tpot_s": 1.5 * TPOT_LIMIT_S}
    for limit_s in (None, TPOT_LIMIT_S):
        job(feed, "serve", SERVING, **figures, tpot_limit_s=limit_s)
        await seconds(feed, 5)
    assert time_of(feed, "serve") == {"productive": 16.0, "slow": 20.0}
    assert goodput_facts(report(feed))["limits"] == {"ttft_s": 2.0, "tpot_s": 2 * TPOT_LIMIT_S}


async def test_a_price_counts_where_no_reservation_has_one() -> None:
    feed = live_feed(standalone(4))
    feed.monitor.goodput = Goodput(Site(prices=(("trn2.48xlarge", Decimal(36)),)))
    feed.set("nc_util_pct", 0.0)
    messages = [
        feed.reservation("cb-1", HOST),
        feed.reservation("cb-2", "uc1/standalone/trn2-0002", fee=None),
        feed.reservation("cb-3", "uc1/standalone/trn2-0003", currency="EUR"),
    ]
    feed.receive(messages)
    await seconds(feed, 11)
    made = report(feed).fleet
    assert made.usd.sum() == pytest.approx(10 * (100 + 36 + 36) / 3_600)
    assert made.unpriced_s == 10.0, "another currency"


async def test_without_rules_causes_are_those_of_a_running_watch() -> None:
    feed = live_feed()
    cause = "uc1/us-0001/trn2u-0001-2/chip06 (straggler)"
    alert = alert_message(target="train", labels={"scope": "job"}, cause=cause)
    watch = WatchMessage(client="w", state="online", boot="b", role="watch", leads=True)
    for topic_class, name, message in (
        (TopicClass.ALERT, alert.fingerprint, alert),
        (TopicClass.PUBLISHER, "w", watch),
    ):
        train(feed, 0.0, state="failed")
        await seconds(feed, 2)
        assert {*only(feed, "train").by(TimeCause.RECOVERY)} <= {""}
        topic = build_topic(feed.fleet, topic_class, name)
        feed.receive([Envelope(topic, encode_message(message), qos=1, retain=True)])
    await seconds(feed, 2)
    assert only(feed, "train").by(TimeCause.RECOVERY)[cause].seconds == 8.0


async def test_expected_goodput_follows_checkpoints_and_failures() -> None:
    feed = live_feed()
    for number in range(2):
        assert only(feed, "train").expected is None if number else True
        for state, lasts_s in (("running", 4), ("checkpointing", 2)):
            train(feed, 2.0 * number + 2.0, state=state)
            await seconds(feed, lasts_s)
    for state in ("failed", "waiting", "starting"):
        train(feed, 4.0, state=state)
        await seconds(feed, 3)
    expected = only(feed, "train").expected
    assert expected is not None
    assert (expected.checkpoint_s, expected.recovery_s) == (2.0, 9.0)
    assert expected.interruption_s == DEVICE_DAYS * DAY_S / 64
    (facts,) = (one for one in goodput_facts(report(feed))["jobs"] if one["job"] == "train")
    assert facts["expected"]["goodput"] == expected.goodput
    assert expected_text(expected) == "50.0 %; a checkpoint every 2 s, best every 56 min 16 s"
    some = expected._replace(recovery_s=None)
    assert expected_text(some).startswith("n/a before a recovery; a checkpoint every ")


async def test_recent_goodput_is_of_minutes_that_were_observed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MINUTES", 6)
    feed = live_feed()
    train(feed, 0.0, state="waiting")
    for minute in range(4):
        for _ in range(15):
            await feed.clock.advance(4.0)
            feed.tick()
        assert feed.monitor.goodput.recent() == ({"train": 0.0} if minute > 1 else {})
    for _ in range(3):
        await feed.advance(60.0)
    assert feed.monitor.goodput.recent() == {}, "most of it is not known"


def energy_facts(feed: Feed) -> dict[str | None, dict[str, Any]]:
    """Return energy and tokens of each job, by name; those of the fleet under `fleet`."""
    facts = goodput_facts(report(feed))
    rows = {job["job"]: job for job in facts["jobs"]} | {"fleet": facts}
    return {
        name: {key: row[key] for key in row if "energy" in key or "token" in key}
        for name, row in rows.items()
    }


async def test_energy_of_jobs_adds_up_to_the_fleets() -> None:
    """Also that of chips without a job; a job without tokens has no joules a token."""
    feed = live_feed()
    feed.set("power_w", 300.0)
    feed.set("power_w", 100.0, slice(64))
    train(feed, 100.0, tokens_per_s=1_000.0)
    job(feed, "serve", SERVING, kind="inference", tokens_per_s=50.0)
    await seconds(feed, 14)
    facts = energy_facts(feed)
    assert facts["train"]["energy_kwh"] == pytest.approx(64 * 300.0 * 14 / 3.6e6)
    assert facts["train"]["tokens_made"] == pytest.approx(14_000.0)
    assert facts["train"]["j_per_token_made"] == pytest.approx(64 * 300.0 / 1_000.0)
    assert facts["train"]["tokens_kept"] is None
    assert facts["train"]["j_per_token_kept"] is None
    assert facts["serve"]["j_per_token_made"] == pytest.approx(64 * 300.0 / 50.0)
    assert facts[None]["energy_kwh"] == pytest.approx(64 * 100.0 * 14 / 3.6e6)
    assert facts[None]["j_per_token_made"] is None
    assert facts[None]["tokens_made"] is None
    jobs = [facts[name]["energy_kwh"] for name in ("train", "serve", None)]
    assert sum(jobs) == pytest.approx(facts["fleet"]["energy_kwh"])
    assert facts["fleet"]["energy_modelled_kwh"] == 0.0
    assert facts["fleet"]["energy_coverage_pct"] == 100.0
    table = PowerReader(feed.monitor).read(
        JOBS, feed.monitor.averages, feed.monitor.summary().announced
    )
    assert table is not None
    for row, name in enumerate([*table.groups.places[:-1], None, "fleet"]):
        time = table.energy[row]
        assert time is not None
        assert time.paid.energy.kwh == facts[name]["energy_kwh"]
    # Joules a token of the window are watts over tokens a second of now.
    place = table.groups.places.index("train")
    assert table.tokens_per_j[place] == pytest.approx(1 / facts["train"]["j_per_token_made"])


async def test_tokens_are_kept_where_checkpoints_tell() -> None:
    """Lost work leaves fewer tokens, which cost more joules each."""
    feed = live_feed()
    feed.set("power_w", 300.0)

    async def step(completed: float, state: str) -> None:
        train(feed, completed, state=state, tokens_per_s=100.0 * (state == "running"))
        await seconds(feed, 2)

    for completed in range(100, 108):
        await step(completed, "running")
    assert energy_facts(feed)["train"]["tokens_kept"] is None
    await step(108, "checkpointing")
    await step(108, "running")
    await step(108, "checkpointing")
    facts = energy_facts(feed)["train"]
    assert facts["tokens_kept"] == facts["tokens_made"] == pytest.approx(1_800.0)
    train(feed, 106, 2.0, state="failed", tokens_per_s=0.0)
    await seconds(feed, 2)
    after = energy_facts(feed)["train"]
    assert after["tokens_made"] == pytest.approx(1_800.0)
    assert after["tokens_kept"] == pytest.approx(0.75 * 1_800.0)
    assert after["j_per_token_kept"] == pytest.approx(after["j_per_token_made"] / 0.75)


async def test_unknown_power_is_no_energy() -> None:
    """Silent chips lower the coverage; without any power there is no figure."""
    feed = live_feed()
    feed.set("power_w", 300.0)
    await seconds(feed, 2)
    assert energy_text(report(feed).whole).endswith("kWh")
    known = energy_facts(feed)["fleet"]["energy_kwh"]
    await seconds(feed, 30, [HOST])
    facts = energy_facts(feed)["fleet"]
    assert facts["energy_coverage_pct"] < 50.0
    assert facts["energy_kwh"] < 5 * known
    assert energy_text(report(feed).whole).startswith("≥")
    feed = live_feed()
    feed.set("power_w", np.nan)
    await seconds(feed, 4)
    facts = energy_facts(feed)["fleet"]
    assert facts["energy_kwh"] is None
    assert facts["energy_modelled_kwh"] is None
    assert facts["energy_coverage_pct"] == 0.0
    assert not energy_text(report(feed).whole)
