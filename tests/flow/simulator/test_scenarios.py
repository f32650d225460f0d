"""Each shipped scenario shows the promises of its comment in `simulate --record`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.sim.scenario_run import ScenarioRun

from trnfleet.config import shipped_folder, shipped_names
from trnfleet.domain.metrics import HEALTH_BITS

if TYPE_CHECKING:
    from numpy.typing import NDArray

HBM, INTRASERVER, INTERSERVER, EFA = (
    1 << HEALTH_BITS.index(name)
    for name in ("hbm", "link_intraserver", "link_interserver", "link_efa")
)
EAST = 3
Z_NEXT = 5
PRETRAIN = "uc1/us-0001"
STANDALONE = "uc1/standalone"


def play(name: str, ticks: int, *more: str, **variables: str) -> ScenarioRun:
    return ScenarioRun("--scenario", name, "--ticks", str(ticks), *more, **variables)


def between(values: NDArray[np.float64], begin: int, end: int) -> float:
    """Return the mean of ticks begin to end."""
    return float(np.nanmean(values[begin:end]))


def busier_than_peers(seen: ScenarioRun, chip: str) -> NDArray[np.float64]:
    """Return how busy a chip's engines are over the median of its instance."""
    peers = [each for each in seen.chips if each.rpartition("/")[0] == chip.rpartition("/")[0]]
    busy = np.array([seen.of(each, "engine_util_pct").mean(axis=1) for each in peers])
    median = np.median(busy, axis=0)
    return np.asarray(busy[peers.index(chip)] / np.where(median > 0, median, np.nan))


def test_each_says_what_to_see() -> None:
    """There are at least ten scenarios, and each begins with a comment on its effects."""
    names = shipped_names("scenarios")
    assert len(names) >= 10
    for name in names:
        text = (shipped_folder("scenarios") / f"{name}.toml").read_text()
        assert text.startswith("# "), name
        assert "What to see" in text, name


def test_steady_training() -> None:
    """Nothing fails, and MFU is in the published range.

    A job's chips dip at a checkpoint together.
    """
    seen = play("steady-training", 120, "--period", "10s")
    assert not [event for event in seen.events if event["severity"] != "info"]
    for chip in seen.chips:
        assert seen.of(chip, "health").max() == 0
        assert seen.of(chip, "mem_ecc_uncorrected").max() == 0
        assert seen.of(chip, "exec_errors").max() == 0
    for job, told in seen.jobs.items():
        assert 0.30 <= np.mean([each["mfu"] for each in told]) <= 0.45, job
    for job in seen.jobs:
        power = np.array([seen.of(chip, "power_w") for chip in seen.chips_of(job)])
        mean = power.mean(axis=0)
        assert min(np.corrcoef(chip, mean)[0, 1] for chip in power[::16]) > 0.8
    states = {state for job in seen.jobs for state in seen.states(job)}
    assert "checkpointing" in states


def test_ecc_storm() -> None:
    """Corrected errors climb, then an uncorrectable one ends the job.

    The instance is replaced.
    """
    seen = play("ecc-storm", 900)
    chip = f"{PRETRAIN}/trn2u-0001-0/chip05"
    instance = f"{PRETRAIN}/trn2u-0001-0"
    corrected = seen.of(chip, "mem_ecc_corrected")
    assert corrected[85] - corrected[30] > 100
    others = [each for each in seen.chips if each != chip]
    assert max(seen.of(each, "mem_ecc_corrected")[85] for each in others) < 10
    assert seen.of(chip, "mem_ecc_uncorrected")[95] >= 1
    assert int(seen.of(chip, "health")[95]) & HBM
    told = seen.named("hbm_uncorrectable")
    assert len(told) == 1
    assert "NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR" in told[0]["text"]
    assert "action=TERMINATE_INSTANCE" in told[0]["text"]
    assert told[0]["path"] == chip
    states = seen.states("pretrain-70b")
    assert states[80] == "running"
    assert {"failed", "waiting"} & set(states[95:110])
    assert states[-1] in {"running", "checkpointing"}
    assert seen.figure("pretrain-70b", "steps_lost")[-1] > 0
    assert seen.figure("pretrain-70b", "restarts")[-1] == 1
    power = seen.mean(seen.below(PRETRAIN), "power_w")
    assert between(power, 110, 130) < 0.5 * between(power, 40, 80)
    assert between(power, 860, 900) > 0.8 * between(power, 40, 80)
    assert np.isnan(seen.of(instance, "vcpu_util_pct")).any()
    assert seen.of(chip, "mem_ecc_uncorrected")[-1] == 0
    order = [event["name"] for event in seen.events if event["path"].startswith(instance)]
    steps = [name for name in order if name.startswith("instance_")]
    assert steps == [
        "instance_quarantined",
        "instance_drained",
        "instance_replaced",
        "instance_returned",
    ]


def test_neuronlink_split() -> None:
    """A slow link delays all 64 chips; a lost one ends the job at once.

    Later a lost Z link, and 32 of them at once.
    """
    seen = play("neuronlink-split", 260)
    chips = seen.below(PRETRAIN)
    step_s = seen.figure("pretrain-70b", "step_time_s")
    assert between(step_s, 30, 60) > 1.05 * between(step_s, 5, 18)
    power = np.array([seen.of(chip, "power_w") for chip in chips])
    assert (power[:, 25:65].mean(axis=1) < power[:, 2:18].mean(axis=1)).all()
    for chip in (f"{PRETRAIN}/trn2u-0001-2/chip09", f"{PRETRAIN}/trn2u-0001-2/chip10"):
        assert int(seen.of(chip, "health")[85]) & INTRASERVER
        assert seen.of(chip, "links_up")[85] < 63
    assert not int(seen.of(f"{PRETRAIN}/trn2u-0001-2/chip09", "links_up")[85]) >> EAST & 1
    assert set(seen.states("pretrain-70b")[22:80]) <= {"running", "checkpointing"}
    assert set(seen.states("pretrain-70b")[82:]) == {"failed", "waiting"}
    assert {event["nrt"] for event in seen.named("execution_failed")} == {1200}
    assert seen.named("instance_drained")[0]["ts"] == seen.times[115]
    lost = f"{PRETRAIN}/trn2u-0001-0/chip12"
    assert int(seen.of(lost, "health")[145]) & INTERSERVER
    assert not int(seen.of(lost, "links_up")[145]) >> Z_NEXT & 1
    up = [seen.of(chip, "links_up")[205] for chip in chips]
    down = sum((63 & ~int(each)).bit_count() for each in up if not np.isnan(each))
    assert down >= 48, "of both ends of 32 links those that are not on the drained instance"
    assert len(seen.named("ultraserver_split")) == 1


def test_rack_overheat() -> None:
    """One rack's chips get hot and throttle, and all 64 chips of the job slow.

    The other rack's temperature is unchanged.
    """
    seen = play("rack-overheat", 480)
    hot = [*seen.below(f"{PRETRAIN}/trn2u-0001-2"), *seen.below(f"{PRETRAIN}/trn2u-0001-3")]
    cool = [*seen.below(f"{PRETRAIN}/trn2u-0001-0"), *seen.below(f"{PRETRAIN}/trn2u-0001-1")]
    warm = seen.mean(hot, "temperature_c")
    assert between(warm, 200, 300) > between(warm, 10, 30) + 10
    assert (
        between(seen.mean(cool, "temperature_c"), 200, 300)
        < between(seen.mean(cool, "temperature_c"), 10, 30) + 2
    )
    assert max(seen.of(chip, "throttle_pct")[200:320].max() for chip in hot) > 5
    assert max(seen.of(chip, "throttle_pct").max() for chip in cool) < 5
    step_s = seen.figure("pretrain-70b", "step_time_s")
    assert between(step_s, 250, 320) > 1.03 * between(step_s, 5, 28)
    assert between(step_s, 470, 480) == pytest.approx(between(step_s, 5, 28), rel=0.02)


def test_straggler_hunt() -> None:
    """The job slows, and one chip works on while the others wait.

    Later a straggler of the other job comes and goes five times.
    """
    seen = play("straggler-hunt", 520)
    busier = {chip: busier_than_peers(seen, chip) for chip in seen.chips}
    first = [chip for chip, values in busier.items() if values[60] > 1.15]
    assert len(first) == 1
    job = seen.job_of[first[0]]
    assert job is not None
    power = np.array([seen.of(chip, "power_w") for chip in seen.chips_of(job)])
    assert (power[:, 40:140].mean(axis=1) < power[:, 0:28].mean(axis=1)).all()
    step_s = seen.figure(job, "step_time_s")
    assert between(step_s, 40, 140) > 1.1 * between(step_s, 5, 28)
    second = [chip for chip, values in busier.items() if values[220] > 1.15]
    assert len(second) == 1
    assert seen.job_of[second[0]] != job
    assert np.count_nonzero(np.diff((busier[second[0]][200:] > 1.15).astype(int)) == 1) == 5


def test_efa_cliff() -> None:
    """One instance without affinity slows the job over three UltraServers, not the other."""
    seen = play("efa-cliff", 280)
    wide = seen.job_of["uc1/us-0002/trn2u-0002-1"]
    local = seen.job_of["uc1/us-0004/trn2u-0004-1"]
    assert wide is not None
    assert local is not None
    before = seen.figure(wide, "step_time_s")[5:28]
    during = seen.figure(wide, "step_time_s")[40:200]
    assert during.mean() > 1.3 * before.mean()
    efa = seen.mean(
        [each for each in seen.instances if seen.job_of[each] == wide], "efa_tx_bytes_per_s"
    )
    assert between(efa, 40, 200) < 0.8 * between(efa, 0, 28)
    power = seen.mean(seen.chips_of(wide), "power_w")
    assert between(power, 40, 200) < 0.9 * between(power, 0, 28)
    calm = seen.figure(local, "step_time_s")
    assert between(calm, 40, 200) == pytest.approx(between(calm, 5, 28), rel=0.02)
    assert all(seen.of(chip, "health").max() == 0 for chip in seen.chips)


def test_checkpoint_stall() -> None:
    """With slow storage a checkpoint stays near idle power for minutes.

    Steps themselves are as long as before.
    """
    slow, healthy = (
        play("checkpoint-stall", 150, "--period", "5s"),
        play("steady-training", 150, "--period", "5s"),
    )
    longest = {
        run: max(sum(state == "checkpointing" for state in run.states(job)) for job in run.jobs)
        for run in (slow, healthy)
    }
    assert longest[slow] > 3 * max(longest[healthy], 1)
    job = max(slow.jobs, key=lambda name: slow.states(name).count("checkpointing"))
    saving = np.array([state == "checkpointing" for state in slow.states(job)])
    power = slow.mean(slow.chips_of(job), "power_util_pct")
    assert power[1:][saving[1:] & saving[:-1]].mean() < 15
    assert power[~saving].mean() > 40


def test_job_crash() -> None:
    """A crash leaves errors on one chip and a restarting job.

    A hang looks busy and does nothing.
    """
    seen = play("job-crash", 480)
    chip = "uc1/us-0001/trn2u-0001-2/chip07"
    crashed = seen.job_of[chip]
    hung = seen.job_of["uc1/us-0004/trn2u-0004-1/chip03"]
    assert crashed is not None
    assert hung is not None
    assert seen.of(chip, "exec_errors")[45] >= 1
    states = seen.states(crashed)
    assert states[45] == "failed"
    assert "starting" in states[45:]
    assert states[-1] in {"running", "checkpointing", "stalled"}
    assert seen.figure(crashed, "restarts")[-1] == 1
    power = seen.mean(seen.chips_of(crashed), "power_w")
    assert power[45] < 100
    used = seen.mean(seen.chips_of(crashed), "hbm_used_bytes")
    assert used[45] < 0.1 * used[30]
    hanging = [tick for tick, state in enumerate(seen.states(hung)) if state == "hung"]
    assert hanging
    assert min(hanging) in range(209, 213)
    middle = hanging[len(hanging) // 2]
    chips = seen.chips_of(hung)
    assert seen.mean(chips, "nc_util_pct")[middle] > 95
    assert seen.mean(chips, "tflops")[middle] < 1
    assert seen.mean(chips, "link_tx_bytes_per_s")[middle] < 1e8
    assert seen.mean(chips, "power_w")[middle] < 170
    assert "starting" in seen.states(hung)[max(hanging) :]


def test_inference_day() -> None:
    """Load, tokens, latency and power follow the day, with the surge.

    HBM reads stay below the ceiling.
    """
    seen = play("inference-day", 288)
    assert seen.times[0].startswith("2026-07-14T00:00")
    assert seen.times[-1].startswith("2026-07-14T23:55")
    for job, told in seen.jobs.items():
        if told[0]["kind"] != "inference":
            continue
        tokens = seen.figure(job, "tokens_per_s")
        ttft = seen.figure(job, "ttft_s")
        high = tokens.argmax()
        low = tokens.argmin()
        assert tokens[high] > 1.2 * tokens[low], job
        assert ttft[high - 3 : high + 4].mean() > ttft[max(low - 3, 0) : low + 4].mean(), job
        assert (
            seen.mean(seen.chips_of(job), "power_w")[high]
            > seen.mean(seen.chips_of(job), "power_w")[low]
        ), job
    surge = seen.figure("shopping-assistant", "tokens_per_s")
    assert between(surge, 206, 226) > 1.15 * between(surge, 190, 202)
    for chip in seen.chips:
        read = seen.of(chip, "hbm_read_bytes_per_s") + seen.of(chip, "hbm_write_bytes_per_s")
        assert read.max() <= 0.95 * 2.9e12 + 2e8
    reserved = [job for job, told in seen.jobs.items() if told[0]["kind"] == "reserved"]
    assert reserved
    assert set(seen.states(reserved[0])) == {"idle"}
    assert seen.mean(seen.chips_of(reserved[0]), "power_util_pct").max() < 2


def test_game_day() -> None:
    """Every entry of the timetable is told and shows, at its time."""
    seen = play("game-day", 600)
    at = {time: tick for tick, time in enumerate(seen.times)}

    def tick_of(name: str) -> int:
        return at[seen.named(name)[0]["ts"]]

    assert tick_of("hbm_uncorrectable") == 150
    assert tick_of("runtime_crash") == 390
    assert tick_of("z_link_down") == 540
    assert tick_of("nic_down") == 195
    straggler = busier_than_peers(seen, f"{PRETRAIN}/trn2u-0001-3/chip10")
    assert straggler[60] > 1.15 > straggler[100]
    storm = seen.of("uc1/us-0002/trn2u-0002-1/chip04", "mem_ecc_corrected")
    assert storm[140] - storm[60] > 100
    silent = seen.of("uc1/us-0002/trn2u-0002-3/chip00", "power_w")
    assert np.isnan(silent[275:325]).all()
    assert not np.isnan(silent[340:]).any()
    warm = seen.mean(seen.below(f"{PRETRAIN}/trn2u-0001-3"), "temperature_c")
    assert between(warm, 420, 470) > between(warm, 200, 290) + 8
    capped = seen.mean(seen.below(f"{PRETRAIN}/trn2u-0001-0"), "throttle_pct")
    assert between(capped, 455, 505) > between(capped, 200, 290) + 5
    assert "failed" in seen.states("finetune-8b")[390:400]
    lost, wait = (seen.figure("serve-70b", name) for name in ("tokens_per_s", "ttft_s"))
    assert between(lost, 151, 165) < 0.9 * between(lost, 60, 150), "one of four replicas is lost"
    assert between(lost, 200, 390) > 0.93 * between(lost, 60, 150), "the others take its requests"
    assert between(wait, 200, 390) > 1.01 * between(wait, 60, 150)
    tokens = seen.figure("serve-8b", "tokens_per_s")
    assert between(tokens, 500, 550) > 1.3 * between(tokens, 460, 490)
    assert int(seen.of(f"{PRETRAIN}/trn2u-0001-1/chip08", "health")[545]) & INTERSERVER
    card = seen.of(f"{STANDALONE}/trn2-0001/chip00", "health")
    assert [int(card[tick]) & EFA for tick in (190, 200, 260)] == [0, EFA, 0]


def test_accelerated_wear() -> None:
    """Faults of several kinds come by themselves, and instances come back from them."""
    seen = play("accelerated-wear", 120, "--period", "10s")
    kinds = {
        event["name"]
        for event in seen.events
        if event["source"] in {"hardware", "runtime", "network"}
    }
    assert len(kinds) >= 3
    assert seen.named("instance_returned")
    again = play("accelerated-wear", 120, "--period", "10s", PYTHONHASHSEED="1")
    assert again.events == seen.events
