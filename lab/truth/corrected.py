"""What the simulation once got wrong: each figure as it was, and measured again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from support.sim.fleets import shipped_fleet
from support.sim.job_run import JobRun, figure, fleet_of
from support.sim.variation import kurtosis

from lab.truth.observe import observe
from lab.truth.tables import rendered
from lab.truth.traffic import step_bytes
from trnfleet.domain.durations import DAY_S
from trnfleet.domain.faults.fault import Reaction, Recovery
from trnfleet.domain.fleet import Rates, expand
from trnfleet.domain.jobs import JOB_STATES
from trnfleet.domain.layout import Layout
from trnfleet.domain.metrics import BY_NAME
from trnfleet.sim.engine import Engine, to_ns
from trnfleet.sim.faults.schedule import FaultSchedule
from trnfleet.sim.placement import Placement
from trnfleet.sim.rng import Rng
from trnfleet.sim.sharding import Shard

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    Values = NDArray[np.float64]

SEED = 424242
BEGINS = 60
"""Tick at which an injected fault begins; a tick is a second."""
TICKS = 180
FLAGSHIP_S = 39 * 60.0
FLAGSHIP_PERIOD_S = 20.0
SCHEDULED_DAYS = 4.0
ACCELERATION = 100.0
"""With it 10,240 chips have the faults of a million."""
SERVED_S = 300.0
CHIP = "uc1/us-0002/trn2u-0002-2/chip05"
COLUMNS = ("engine_util_pct", "nc_util_pct", "throttle_pct", "hbm_used_bytes", "tflops", "health")
ULTRASERVER: dict[str, Any] = {"instances": 0, "ultraservers": 1}
SERVING: dict[str, Any] = {"kind": "inference", "name": "s", "on": ["c/us-0001"], "load_swing": 0.0}
SERVE_70B = SERVING | {"model": "llama-3.3-70b"}
SERVE_8B = SERVING | {
    "model": "llama-3.1-8b",
    "chips_per_replica": 4,
    "max_batch": 48,
    "context_tokens": 4_096,
}
EXPERTS: dict[str, Any] = {
    "kind": "training",
    "name": "experts",
    "on": ["c/us-0001"],
    "model": "mixtral-8x22b",
    "tensor_parallel": 16,
    "tokens_per_step": 262_144.0,
    "mfu": 0.35,
}


class Correction(NamedTuple):
    """A figure that was wrong."""

    number: int
    what: str
    before: str
    """As published at an earlier version."""
    now: str


class Observed(NamedTuple):
    """Seconds of `pretrain-405b` of `training`."""

    columns: dict[str, Values]
    """By metric; shape (ticks, chips of the job)."""
    step_s: Values
    states: list[str]
    chip: int
    """Place of the fault's chip among them."""


def observed(fault: str = "", target: str = CHIP, magnitude: float | None = None) -> Observed:
    """Run the job with one fault at most."""
    parts = {"stragglers": (), "links": (), "rates": Rates(acceleration=0.0)}
    fleet = shipped_fleet("training").model_copy(update=parts)
    engine = Engine(fleet, SEED, 1.0, to_ns(fleet.start))
    job = engine.job_names.index("pretrain-405b")
    rows = engine.layout.chip_rows(np.flatnonzero(engine.job_of_instance == job))
    columns: dict[str, list[Values]] = {name: [] for name in COLUMNS}
    step_s = []
    states = []
    for tick in range(TICKS):
        if tick == BEGINS and fault:
            engine.inject(fault, target, magnitude=magnitude)
        step = engine.step()
        for name, values in columns.items():
            codes = engine.columns[name][rows]
            values.append(BY_NAME[name].decode(codes).reshape(len(rows), -1).mean(axis=1))
        step_s.append(step.figures["step_time_s"][job])
        states.append(JOB_STATES[step.states[job]])
    node = engine.layout.find(CHIP)
    assert node is not None
    stacked = {name: np.array(values) for name, values in columns.items()}
    return Observed(stacked, np.array(step_s), states, rows.tolist().index(node.number))


def straggler() -> Iterator[Correction]:
    """Compare a straggler with its peers."""
    seen = observed("straggler", magnitude=30.0)
    engines, busy, told = (seen.columns[name] for name in COLUMNS[:3])
    means = engines[BEGINS:].mean(axis=0)
    peers = np.delete(means, seen.chip)
    sigma = (means[seen.chip] - peers.mean()) / peers.std()
    yield Correction(
        1,
        "signature of a straggler of 30 %, beside its job's chips",
        "throttle_pct 30.0, the rest within 1.6 sigma",
        f"throttle_pct {told[-1, seen.chip]:.1f}, engine_util_pct {means[seen.chip]:.1f} beside"
        f" {peers.mean():.1f}: {sigma:.0f} sigma",
    )
    runs = np.array(seen.states) == "running"
    before, under = (busy[part][runs[part]].mean() for part in (slice(BEGINS), slice(BEGINS, None)))
    yield Correction(
        2,
        "nc_util_pct of that job while it runs, before and under it",
        "92.7, 65.2 %",
        f"{before:.1f}, {under:.1f} %",
    )


def slow_links() -> Iterator[Correction]:
    """Compare steps under a slow Z lane and a slow lane of the torus."""
    usual_s = np.nanmedian(observed().step_s[BEGINS:])

    def longer(lane: str, left: float) -> str:
        seen = observed("link_degraded", f"{CHIP}:{lane}", left)
        return f"{np.nanmedian(seen.step_s[BEGINS:]) / usual_s - 1.0:.1%}"

    yield Correction(
        3,
        "longer steps of pretrain-405b, a lane at 5 and at 50 %",
        "Z 16.8, 6.5 %; torus the same",
        f"Z {longer('z_next', 0.05)}, {longer('z_next', 0.5)};"
        f" torus {longer('east', 0.05)}, {longer('east', 0.5)}",
    )


def hang() -> Iterator[Correction]:
    """Time the signs of a hang."""
    seen = observed("hang_compute")
    hung_s = seen.states.index("hung") - BEGINS + 1
    bits_s = np.flatnonzero(seen.columns["health"][:, seen.chip]) - BEGINS + 1
    yield Correction(
        4,
        "a hang of a chip: state hung, health bit",
        "both in the first tick",
        f"after {hung_s} s, after {bits_s[0]} s",
    )


def stages() -> Iterator[Correction]:
    """Compare the pipeline's stages, each an instance of an UltraServer."""
    seen = observed()
    texts = []
    for name, unit, scale in (
        ("hbm_used_bytes", "GB", 1e-9),
        ("tflops", "TFLOP/s", 1.0),
        ("nc_util_pct", "%", 1.0),
    ):
        means = seen.columns[name].mean(axis=0).reshape(-1, 4, 16).mean(axis=(0, 2)) * scale
        texts.append(f"{means.min():.2f} to {means.max():.2f} {unit}")
    yield Correction(
        11,
        "four stages of the pipeline of pretrain-405b",
        "71.70 GB, 235.1 TFLOP/s, 83.17 % in all",
        ", ".join(texts),
    )


def flagship() -> Iterator[Correction]:
    """Follow the largest job of `rainier-1m` through its faults at random."""
    fleet = shipped_fleet("rainier-1m")
    # Jobs and faults are of the whole fleet; chips of a hundredth of it are enough.
    shard = Shard(100, 100)
    engine = Engine(fleet, SEED, FLAGSHIP_PERIOD_S, to_ns(fleet.start), shard=shard)
    ticks = [engine.step() for _ in range(round(FLAGSHIP_S / FLAGSHIP_PERIOD_S))]
    states = [JOB_STATES[tick.states[0]] for tick in ticks]
    steps, restarts, goodput = (
        [tick.figures[name][0] for tick in ticks]
        for name in ("steps_completed", "restarts", "goodput")
    )
    yield Correction(
        5,
        "claude-like-pretraining of rainier-1m, 39 min with its faults",
        "running 41 %, waiting 42 %, 0 steps kept, 4 failures, goodput 0.000",
        f"running {states.count('running') / len(ticks):.0%}, waiting"
        f" {states.count('waiting') / len(ticks):.0%}, {steps[-1] - steps[0]:.0f} steps kept,"
        f" {restarts[-1]:.0f} restarts, goodput {goodput[-1]:.3f}",
    )


def random_faults() -> Iterator[Correction]:
    """Draw the faults at random of `cluster-10k`."""
    rates = {"rates": Rates(acceleration=ACCELERATION)}
    fleet = shipped_fleet("cluster-10k").model_copy(update=rates)
    layout = Layout.of(expand(fleet))
    schedule = FaultSchedule(layout, fleet, Placement.resolve(layout, fleet), Rng(SEED), None)
    ends_s = SCHEDULED_DAYS * DAY_S
    faults = [each for each in schedule.until(ends_s) if each.begins_s < ends_s]
    slow = [each for each in faults if each.fault.reaction is Reaction.SLOW]
    shares = _range(each.magnitude for each in slow if each.fault.name == "straggler")
    minutes = _range((each.over_s - each.begins_s) / 60.0 for each in slow)
    yield Correction(
        6,
        "faults at random that only slow; 10th to 90th percentile",
        "8 % of 4,799; stragglers 30 %, 10 min each",
        f"{len(slow) / len(faults):.0%} of {len(faults):,}; stragglers {shares} %, {minutes} min",
    )
    begins_s = np.array([each.begins_s for each in faults])
    gaps_s = np.diff(begins_s)
    hours = np.bincount((begins_s // 3_600.0).astype(np.intp))
    hit = [number for each in faults for number in each.instances[:1]]
    instances = np.bincount(hit, minlength=len(layout.instances))
    replaced_s = [each.stages.total_s for each in faults if each.fault.recovery is Recovery.REPLACE]
    exact = sum(abs(each - 375.0) < 1e-3 for each in replaced_s)
    yield Correction(
        8,
        "gaps of faults: CV; dispersion by hour, by instance; replaced in 375.0 s",
        "1.006; 1.009, 1.11; 164 of 195",
        f"{gaps_s.std() / gaps_s.mean():.3f}; {hours.var() / hours.mean():.3f},"
        f" {instances.var() / instances.mean():.2f}; {exact} of {len(replaced_s):,}",
    )


def _range(values: Iterable[float]) -> str:
    low, high = np.percentile(list(values), (10, 90))
    return f"{low:.2g} to {high:.2g}"


def step_tails() -> Iterator[Correction]:
    """Return the slowest of an hour's steps."""
    texts = []
    run = JobRun(shipped_fleet("training"), seed=SEED)
    ticks = run.until(3_600.0)
    for number in range(len(run.names)):
        every_s = np.array([figure(tick, "step_time_s", number) for tick in ticks])
        steps_s = every_s[np.flatnonzero(np.diff(every_s))]
        above = steps_s.max() / np.median(steps_s) - 1.0
        texts.append(f"{above:.1%} of {len(steps_s)}, {kurtosis(steps_s - steps_s.mean()):.1f}")
    yield Correction(
        7,
        "slowest step above the median in an hour of `training`, kurtosis",
        "2.7 % of 352, 2.4; 3.7 % of 563, 2.9",
        "; ".join(texts),
    )


class Served:
    """An UltraServer that serves at a load for some minutes."""

    def __init__(self, job: dict[str, Any], load: float, for_s: float = SERVED_S) -> None:
        self.run = JobRun(fleet_of(job | {"load_mean": load}, **ULTRASERVER), seed=SEED)
        self.run.until(BEGINS)
        self.ticks = self.run.until(BEGINS + for_s)

    def figures(self, name: str) -> Values:
        """Return a figure of each second."""
        return np.array([figure(tick, name) for tick in self.ticks])

    def mean(self, name: str) -> float:
        """Return a figure's mean."""
        return float(np.nanmean(self.figures(name)))

    @property
    def hbm_gb(self) -> float:
        """HBM in use of a chip."""
        room = self.run.placement.chip_types[0].hbm_bytes.value
        return float(np.mean([tick.hbm_used[2:].mean() for tick in self.ticks])) * room / 1e9

    @property
    def batch(self) -> float:
        """Sequences in a replica by Little's law."""
        return self.mean("tokens_per_s") * self.mean("tpot_s") / self.run.placement.replicas


def serving() -> Iterator[Correction]:
    """Look at serving jobs over their load."""
    low, high = (Served(SERVE_70B, load, for_s=BEGINS).hbm_gb for load in (0.1, 0.9))
    yield Correction(
        9,
        "HBM of a chip that serves 70B, 10 to 90 % load",
        "12.1 to 14.5 GB",
        f"{low:.1f} to {high:.1f} GB",
    )
    usual_s, late_s = np.percentile(Served(SERVE_8B, 0.3).figures("ttft_s"), (50, 99))
    yield Correction(
        10,
        "TTFT of 8B at 30 % load, median and 99th percentile",
        "0.12, 0.13 s",
        f"{usual_s:.2f}, {late_s:.2f} s",
    )
    idle, busy = (Served(SERVE_8B, load) for load in (0.1, 0.8))
    yield Correction(
        13,
        "batch of 8B at 10 % load, by Little's law; difference at 80 %",
        "1.23, 1.54; 4 %",
        f"{idle.mean('batch'):.2f}, {idle.batch:.2f};"
        f" {abs(busy.batch / busy.mean('batch') - 1.0):.1%}",
    )


def all_to_all() -> Iterator[Correction]:
    """Compare the traffic of a mixture of experts with its other collectives."""
    (row,) = step_bytes(observe(fleet_of(EXPERTS, **ULTRASERVER), TICKS, seed=SEED))
    yield Correction(
        12,
        "NeuronLink bytes of mixtral-8x22b over those without all-to-all",
        "1 x",
        f"{row.links / row.links_due:.2f} x",
    )


MEASURES = (
    straggler,
    slow_links,
    hang,
    flagship,
    random_faults,
    step_tails,
    serving,
    stages,
    all_to_all,
)


def corrections() -> list[Correction]:
    """Measure everything again, in the order of the numbers."""
    return sorted(row for measure in MEASURES for row in measure())


def table(rows: Iterable[Correction]) -> str:
    """Return the figures before and now."""
    return rendered(
        ("measured", "before", "now"),
        ((f"{row.number}. {row.what}", row.before, row.now) for row in rows),
    )
