"""Problems of the shipped scenarios: one per cause, with place, alerts and affected jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.monitor.alert_run import AlertRun

from trnfleet.clock import NS_PER_S
from trnfleet.monitor.alerting.store import AlertWithStatus
from trnfleet.monitor.problems import texts
from trnfleet.monitor.problems.state import problems_of

if TYPE_CHECKING:
    from trnfleet.monitor.problems.problem import Problem, Problems


async def problems_at(
    scenario: str, period_s: float, *instants_s: float
) -> tuple[list[Problems], list[Problems]]:
    """Return a scenario's problems at some instants, with and without rules."""
    run = AlertRun(scenario, period_s=period_s)
    found: list[Problems] = []
    without: list[Problems] = []

    def note() -> None:
        passed_s = run.monitor.clock.monotonic_s() - 100.0
        if any(abs(passed_s - each) < period_s / 2 for each in instants_s):
            alerts = run.monitor.alerts
            active = [AlertWithStatus(each, alerts.status(each)) for each in alerts.active()]
            found.append(problems_of(run.monitor, active))
            without.append(problems_of(run.monitor, (), rules=()))

    run.on_tick = note
    await run.play(max(instants_s) + period_s)
    return found, without


def brief(problem: Problem) -> tuple[str, str, str]:
    """Return a problem's place, text and impact, 10 s after its last job failed."""
    now_ns = max((each.down_since_ns or 0 for each in problem.jobs), default=0) + 10 * NS_PER_S
    return (
        texts.place_text(problem.place),
        texts.text_of(problem),
        texts.impact_text(problem, now_ns),
    )


def about_hardware(problems: Problems) -> list[tuple[str, str, str]]:
    return [brief(each) for each in problems.all if each.place.address]


async def test_a_hot_rack_is_one_problem_and_its_job_is_hurt() -> None:
    (early, late), _ = await problems_at("rack-overheat", 10.0, 60, 160)
    assert [place for place, _, _ in about_hardware(early)] == ["trn2u-0001-2"]
    ((place, text, impact),) = about_hardware(late)
    assert place == "us-0001 rack B"
    # Those in the rear of their trays; they slow the job, which keeps the others cooler.
    assert text.startswith("16 chips overheated, up to 8")
    assert impact.startswith("hits pretrain-70b step +")
    (early_key, late_key) = (
        {each.key for each in at.all if each.place.address} for at in (early, late)
    )
    assert early_key == late_key
    hot = next(each for each in late.all if each.place.address)
    names = {each.alert.name for each in hot.alerts}
    assert {"overheated", "rack-throttled", "rack-event", "straggler"} <= names


async def test_each_link_is_one_problem_and_a_split_is_one() -> None:
    (slow, both, split), without = await problems_at("neuronlink-split", 4.0, 68, 172, 272)
    ((place, text, impact),) = about_hardware(slow)
    assert place == "trn2u-0001-1/chip06:south ↔ chip10:north"
    assert text.endswith(" % of its peers")
    assert impact == "hits pretrain-70b step +6 %"
    assert [(place, text) for place, text, _ in about_hardware(both)] == [
        # The instance of the lost torus link is drained, and silent.
        ("trn2u-0001-2", "silent; before: 1 NeuronLink down"),
        ("trn2u-0001-0/chip12:z_next ↔ trn2u-0001-1/chip12:z_prev", "1 NeuronLink down"),
    ]
    # The ends of links at the silent instance cannot be heard; those at the others say it.
    partitioned = (
        "us-0001",
        "33 Z links down: UltraServer partitioned",
        "stopped pretrain-70b (waiting, down 10 s)",
    )
    assert about_hardware(split) == [partitioned]
    # Without rules findings say the same.
    assert {place for place, _, _ in about_hardware(without[1])} == {
        place for place, _, _ in about_hardware(both)
    }
    assert [text for _, text, _ in about_hardware(without[2])] == [
        "33 Z links down: UltraServer partitioned",
        "stale",
    ]
    assert not without[2].all[0].alerts
    assert len(without[2].all[0].findings) > 90


async def test_game_day_has_one_problem_a_cause() -> None:
    (straggler, two, silent, crash, ended), _ = await problems_at(
        "game-day", 10.0, 60, 130, 272, 400, 570
    )
    assert [place for place, _, _ in about_hardware(straggler)] == ["trn2u-0001-3/chip10"]
    assert {place for place, _, _ in about_hardware(two)} == {
        "trn2u-0001-0/chip02:east ↔ chip03:west",
        "trn2u-0002-1/chip04",
    }
    assert [place for place, _, _ in about_hardware(silent)] == ["trn2u-0002-1"]
    impacts = {place: impact for place, _, impact in about_hardware(crash)}
    assert set(impacts) == {"trn2-0001/chip02", "trn2u-0002-1", "us-0001 rack B"}
    assert impacts["trn2-0001/chip02"] == "stopped finetune-8b (failed 10 s ago)"
    assert impacts["us-0001 rack B"].startswith("hits pretrain-70b step +")
    assert crash.all[0].place.address == "uc1/standalone/trn2-0001/chip02"
    # The power limit of a minute and a half before has slowed it down; the lost Z link has ended
    # it.
    lost, *others = (brief(each) for each in ended.all)
    assert lost == (
        "trn2u-0001-1/chip08:z_next ↔ trn2u-0001-2/chip08:z_prev",
        "1 NeuronLink down",
        "stopped pretrain-70b (failed 10 s ago)",
    )
    assert not any("pretrain-70b" in impact for _, _, impact in others)
