from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import trnfleet
from trnfleet.clock import format_rfc3339
from trnfleet.config import find_file, load_model, validate
from trnfleet.domain.metrics import BY_NAME
from trnfleet.domain.scenario import Scenario
from trnfleet.errors import ConfigError
from trnfleet.sim.engine import Engine, to_ns
from trnfleet.sim.jobs.training import EXECUTIONS_PER_STEP

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.domain.fleet import FleetFile

    Job = Callable[..., dict[str, Any]]

DIGEST = """
from trnfleet.config import find_file, load_model
from trnfleet.domain.fleet import FleetFile
from trnfleet.sim.engine import Engine, to_ns
from trnfleet.sim.jobs.training import EXECUTIONS_PER_STEP
import hashlib
fleet = load_model(find_file("fleets", "demo"), FleetFile)
engine = Engine(fleet, 5, 1.0, to_ns(fleet.start))
digest = hashlib.sha256()
for _ in range(20):
    engine.step()
    for column in engine.columns.values():
        digest.update(column)
print(digest.hexdigest())
"""


def digest(engine: Engine) -> str:
    result = hashlib.sha256()
    for column in engine.columns.values():
        result.update(column.tobytes())
    return result.hexdigest()


def test_the_same_seed_gives_the_same_bits_with_any_hash_seed() -> None:
    """Two processes with different hash seeds make the same twenty ticks of the demo."""
    folder = str(Path(trnfleet.__file__).parents[1])
    digests = {
        subprocess.run(
            [sys.executable, "-c", DIGEST],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": folder},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("0", "4321")
    }
    assert len(digests) == 1
    assert len(digests.pop().strip()) == 64


def test_another_seed_gives_other_telemetry(shipped: Callable[[str], FleetFile]) -> None:
    """Noise and the jobs' places in their lives both follow from the seed."""
    fleet = shipped("demo")
    first, second = (Engine(fleet, seed, 1.0, to_ns(fleet.start)) for seed in (1, 2))
    first.step()
    second.step()
    assert digest(first) != digest(second)
    assert (first.columns["exec_completed"][:32] != second.columns["exec_completed"][:32]).all()
    differs = first.columns["nc_util_pct"] != second.columns["nc_util_pct"]
    assert differs.mean() > 0.3


def test_chips_of_an_instance_do_not_depend_on_what_else_is_in_its_chunk(
    make_engine: Callable[..., Engine], training: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small chunks give the same bits as large ones."""
    jobs = [training(on=["c/us-0001..us-0003"])]
    whole = make_engine(*jobs, ultraservers=5, instances=7)
    monkeypatch.setattr("trnfleet.sim.hardware.columns.CHUNK_INSTANCES", 4)
    cut = make_engine(*jobs, ultraservers=5, instances=7)
    for _ in range(3):
        whole.step()
        cut.step()
        assert digest(whole) == digest(cut)


def test_ticks_have_numbers_and_whole_milliseconds(make_engine: Callable[..., Engine]) -> None:
    """Tick 0 is at the start; rounding does not accumulate."""
    engine = make_engine(period_s=1 / 3)
    stamps = [format_rfc3339(engine.step().ts_ns) for _ in range(4)]
    assert [stamp[-7:] for stamp in stamps] == ["00.000Z", "00.333Z", "00.667Z", "01.000Z"]
    assert engine.step(5).number == 8
    assert engine.ticks == 9


def test_a_run_can_be_dated_only_before_its_first_step(make_engine: Callable[..., Engine]) -> None:
    """Dating a run after its first step is refused: earlier ticks would have other times."""
    engine = make_engine()
    engine.restart_at(1_700_000_000_123_456_789)
    assert engine.step().ts_ns == 1_700_000_000_123_000_000
    with pytest.raises(RuntimeError):
        engine.restart_at(0)


def test_long_ticks_average_what_short_ones_show(
    make_engine: Callable[..., Engine], training: Job
) -> None:
    """Ten minutes in ticks of 2 s and at once have the same means.

    These are utilisation, power and TFLOP/s.
    """
    jobs = [training(checkpoint_every_steps=20)]
    short, long = (make_engine(*jobs, period_s=period_s) for period_s in (2.0, 600.0))
    long.step()
    means = []
    for _ in range(300):
        short.step()
        means.append(
            [short.columns[name][:16].mean() for name in ("nc_util_pct", "power_w", "tflops")]
        )
    at_once = [long.columns[name][:16].mean() for name in ("nc_util_pct", "power_w", "tflops")]
    assert np.mean(means, axis=0) == pytest.approx(np.array(at_once), rel=0.005)


@pytest.mark.parametrize("period_s", [0.1, 0.3, 1 / 3, 0.7])
def test_ticks_follow_each_other_without_a_gap(
    make_engine: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch, period_s: float
) -> None:
    """A tick's window begins exactly at the last one's end, under any rounding."""
    engine = make_engine(period_s=period_s, instances=1)
    windows: list[tuple[float, float]] = []

    def boundaries(begin_s: float, end_s: float) -> list[float]:
        windows.append((begin_s, end_s))
        return []

    monkeypatch.setattr(engine.incidents, "boundaries", boundaries)
    for ticks in (1, 1, 3, *[1] * 30, 7, 1):
        engine.step(ticks)
    assert windows[0] == (-period_s, 0.0)
    assert [begin for begin, _ in windows[1:]] == [end for _, end in windows[:-1]]
    assert engine.now_s == windows[-1][1]


def test_what_is_asked_for_shows_in_the_next_tick(
    make_engine: Callable[..., Engine], training: Job
) -> None:
    """A requested fault begins at the last tick's time.

    The whole next tick is logged and marked with it.
    """
    engine = make_engine(training(), period_s=0.1)
    for number in range(30):
        engine.step()
        engine.inject("storage_slow", "c", lasts_s=0.15)
        at_s = engine.now_s
        tick = engine.step()
        assert [event.time_s for event in tick.events if event.name == "storage_slow"] == [at_s]
        assert engine.incidents.active(), number
        engine.step()
        assert not engine.incidents.active()


@pytest.mark.parametrize("period_s", [3.0, 7.0, 60.0])
def test_jobs_begin_and_end_when_they_say(
    make_engine: Callable[..., Engine], training: Job, period_s: float
) -> None:
    """The event has the job's own time, anywhere within a tick."""
    engine = make_engine(
        training(starts_at_s=90.5, ends_at_s=400.25, startup_s=20.0), period_s=period_s
    )
    events = [event for _ in range(round(480 / period_s)) for event in engine.step().events]
    assert [(event.name, event.time_s) for event in events] == [
        ("job_started", 90.5),
        ("job_ended", 400.25),
    ]


def test_a_ticks_length_changes_nothing_of_what_happens(
    make_fleet: Callable[..., FleetFile], training: Job, inference: Job
) -> None:
    """Ticks of 3, 7 and 60 s give the same events, times and final counters."""
    fleet = make_fleet(
        training(on=["c/us-0001"], startup_s=40.0), inference(chips_per_replica=4), ultraservers=1
    )
    chip = "c/us-0001/trn2u-0001-2/chip05"
    alone = "c/standalone/trn2-0001"
    entries = [
        {"fault": "ecc_corrected_storm", "target": chip, "at": 3.5, "for": 50},
        {"fault": "hang_compute", "target": chip, "at": 60.25},
        {"fault": "straggler", "target": "random(2)", "at": 75, "every": 130, "for": 33},
        {"fault": "hbm_uncorrectable", "target": f"{alone}/chip01", "at": 200},
        {"fault": "firmware_heartbeat_lost", "target": f"{alone}/*", "at": 320.5},
        {"fault": "agent_silent", "target": "c/us-0001/trn2u-0001-0", "at": 333, "for": 77},
        {"fault": "ultraserver_split", "target": "c/us-0001", "at": 600, "for": 120},
        {"fault": "sram_uncorrectable", "target": "c/standalone/trn2-0002/chip09", "at": 650},
        {"fault": "runtime_crash", "target": chip, "at": 800},
    ]
    scenario = validate(
        {"faults": entries, "rates": {"acceleration": 20_000.0}}, Scenario, "scenario.toml"
    )
    counters = ("mem_ecc_uncorrected", "sram_ecc_uncorrected", "exec_errors")
    runs = []
    for period_s in (3.0, 7.0, 60.0):
        engine = Engine(fleet, 7, period_s, to_ns(fleet.start), scenario=scenario)
        events = [event for _ in range(round(840 / period_s) + 1) for event in engine.step().events]
        assert engine.now_s == 840.0
        assert [event.time_s for event in events] == sorted(event.time_s for event in events)
        incidents = engine.incidents
        # Of a failed job's steps a tick's text says how many, as far as they are done by whole
        # ticks.
        said = [event._replace(text="") if event.source == "job" else event for event in events]
        runs.append(
            (
                sorted(said, key=repr),
                {name: engine.columns[name].tolist() for name in counters},
                incidents.generation.tolist(),
                incidents.boots.tolist(),
                engine.silent.tolist(),
            )
        )
    assert len(runs[0][0]) > 40
    assert any(runs[0][2])
    for what, first, second, third in zip(
        ("events", "counters", "generation", "boots", "silent"), *runs, strict=True
    ):
        assert first == second == third, what


def test_skipped_ticks_leave_the_same_state(
    make_engine: Callable[..., Engine], training: Job
) -> None:
    """Catching up four ticks at once brings the jobs to where four single ticks do."""
    single = make_engine(training())
    leaping = make_engine(training())
    for _ in range(5):
        single.step()
    leaping.step()
    tick = leaping.step(4)
    assert tick.number == 4
    assert np.array_equal(single.columns["exec_completed"], leaping.columns["exec_completed"])
    assert leaping.step().ts_ns == single.step().ts_ns
    assert single.columns["tflops"] == pytest.approx(leaping.columns["tflops"], abs=1)


@pytest.mark.parametrize(
    ("scenario", "seconds"), [("rack-overheat", 37), ("rack-overheat", 400), ("game-day", 400)]
)
def test_a_jump_leaves_the_temperatures_of_a_fleet_that_ran_through(
    shipped: Callable[[str], FleetFile], scenario: str, seconds: int
) -> None:
    """A rack heating up within a jump is as hot as after single ticks.

    Nothing settles without enough time.
    """
    fleet = shipped("demo")
    script = load_model(find_file("scenarios", scenario), Scenario)
    single, leaping = (Engine(fleet, 7, 1.0, to_ns(fleet.start), scenario=script) for _ in range(2))
    for _ in range(seconds):
        single.step()
    stretches = list(leaping.leap(seconds))
    assert leaping.ticks == seconds
    assert len(stretches) < 40
    single.step()
    leaping.step()
    assert leaping.columns["temperature_c"].astype(int) == pytest.approx(
        single.columns["temperature_c"].astype(int), abs=2 * BY_NAME["temperature_c"].steps_per_unit
    )


def test_power_swings_together_within_a_job_and_apart_between_jobs(
    shipped: Callable[[str], FleetFile],
) -> None:
    """Chips of a training job correlate above 0.8, means of different jobs below 0.3.

    Checked in the demo.
    """
    fleet = shipped("demo")
    engine = Engine(fleet, 7, 1.0, to_ns(fleet.start))
    power = np.empty((300, engine.layout.chips))
    for tick in range(300):
        engine.step()
        power[tick] = engine.columns["power_w"]
    job = np.repeat(engine.job_of_instance, 16)
    means = []
    for number in range(len(engine.job_names)):
        chips = power[:, job == number]
        means.append(chips.mean(axis=1))
        if fleet.jobs[number].kind == "training":
            assert np.corrcoef(chips.T).min() > 0.8
            assert np.ptp(chips.mean(axis=1)) > 150
    between = np.corrcoef(means)
    assert np.abs(between - np.eye(len(means))).max() < 0.3


def test_executions_are_the_jobs_and_errors_none(
    make_engine: Callable[..., Engine], training: Job
) -> None:
    """All chips of a job count the same executions; idle ones none; nothing fails."""
    engine = make_engine(training(on=["c/us-0001"]), ultraservers=1, instances=1)
    for _ in range(20):
        engine.step()
    completed = engine.columns["exec_completed"]
    assert len(set(completed[16:].tolist())) == 1
    assert completed[16] > 0
    assert (completed[:16] == 0).all()
    for name in ("exec_errors", "mem_ecc_uncorrected", "sram_ecc_uncorrected"):
        assert not engine.columns[name].any()


@pytest.mark.parametrize("period_s", [600.0, 86_400.0])
def test_corrected_errors_come_at_their_rate(
    make_engine: Callable[..., Engine], period_s: float
) -> None:
    """Each chip has two HBM errors a day and one SRAM error in twenty.

    They are spread over the chips, for short and long ticks.
    """
    engine = make_engine(instances=100, period_s=period_s)
    for _ in range(72 if period_s == 600 else 10):
        engine.step()
    days = engine.ticks * period_s / 86_400
    memory = engine.columns["mem_ecc_corrected"]
    sram = engine.columns["sram_ecc_corrected"]
    expected = 1_600 * days * 2
    assert memory.sum() == pytest.approx(expected, abs=10 * expected**0.5)
    assert sram.sum() == pytest.approx(expected / 40, abs=10 * (expected / 40) ** 0.5)
    per_chip = memory.reshape(100, 16).sum(axis=0)
    assert per_chip.min() > 0.5 * per_chip.mean()


def test_hosts_work_for_their_jobs(make_engine: Callable[..., Engine], training: Job) -> None:
    """Jobs over several instances use EFA, jobs on one do not.

    Busy hosts draw more, within their type's range.
    """
    engine = make_engine(
        training(name="wide", on=["c/standalone/trn2-0001..trn2-0002"]),
        training(name="narrow", on=["c/standalone/trn2-0003"]),
        instances=4,
    )
    sent = np.zeros(4)
    for _ in range(16):
        engine.step()
        sent += engine.columns["efa_tx_bytes_per_s"]
    assert (sent[:2] > 1_000).all()
    assert (sent[2:] == 0).all()
    power = engine.columns["host_power_w"]
    assert (power[:3] > power[3]).all()
    assert power.min() >= 1_500
    assert power.max() <= 2_500
    p50 = engine.columns["exec_latency_p50_s"]
    p99 = engine.columns["exec_latency_p99_s"]
    assert p50[0] * 1e-6 == pytest.approx(8.0 / EXECUTIONS_PER_STEP, rel=0.05)
    assert (p99[:3] > p50[:3]).all()
    assert engine.columns["host_memory_used_bytes"][3] < engine.columns["host_memory_used_bytes"][0]


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        (
            [{"on": ["c/us-0009"]}],
            r"jobs\.train\.on: no UltraServer or instance at 'c/us-0009': did you mean",
        ),
        (
            [{"on": ["c/us-0002..us-0001"]}],
            r"jobs\.train\.on: range 'c/us-0002\.\.us-0001' runs backwards",
        ),
        (
            [{"on": ["c/us-0001"]}, {"name": "b", "on": ["c/us-0001/trn2u-0001-3"]}],
            r"jobs\.b\.on = 'c/us-0001/trn2u-0001-3': c/us-0001/trn2u-0001-3 already runs 'train'",
        ),
        ([{"on": ["c/us-0001", "c/us-0001"]}], r"c/us-0001/trn2u-0001-0 already runs 'train'"),
        ([{"mfu": 0.95}], r"jobs\.train\.mfu = 0\.95"),
    ],
)
def test_jobs_that_cannot_be_are_refused(
    make_engine: Callable[..., Engine], training: Job, jobs: list[dict[str, Any]], message: str
) -> None:
    """The message names the job, the key and the problem."""
    with pytest.raises(ConfigError, match=message):
        make_engine(*(training(**job) for job in jobs), ultraservers=2)


def test_hardware_that_cannot_be_is_refused(make_engine: Callable[..., Engine]) -> None:
    """Duplicate instances, standalone UltraServer members, and a period of 0 are refused."""
    twice = [{"type": "trn2.48xlarge", "count": 2}, {"type": "trn2.3xlarge", "count": 1}]
    with pytest.raises(ConfigError, match=r"duplicate instance 'c/standalone/trn2-0001'"):
        make_engine(clusters=[{"name": "c", "instances": twice}])
    alone = [{"type": "trn2u.48xlarge", "count": 1}]
    with pytest.raises(ConfigError, match="exists only in UltraServers"):
        make_engine(clusters=[{"name": "c", "instances": alone}])
    with pytest.raises(ConfigError, match="must be above 0"):
        make_engine(period_s=0.0)


@pytest.mark.parametrize(
    ("name", "chips", "jobs"),
    [
        ("demo", 192, 4),
        ("lab", 1, 1),
        ("trn3", 208, 3),
        ("mixed", 179, 6),
        ("cluster-10k", 10_240, 20),
        ("rainier-1m", 10**6, 48),
    ],
)
def test_shipped_fleets_run(
    shipped: Callable[[str], FleetFile], name: str, chips: int, jobs: int
) -> None:
    """Every shipped fleet loads, has its chips and jobs, and produces ticks."""
    fleet = shipped(name)
    engine = Engine(fleet, 1, 1.0, to_ns(fleet.start))
    engine.step()
    engine.step()
    assert engine.layout.chips == chips
    assert len(engine.job_names) == jobs
    least_w = min(kind.chip.power_background_w.value for kind in engine.layout.types)
    assert (engine.columns["power_w"] * 0.1 > 0.88 * least_w).all()
    assert fleet.name == name
