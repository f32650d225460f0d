"""`make traces`: print what each fault of the table changes, and when.

Two runs of one fleet and seed, with and without the fault, have the same noise. A column is a trace
where its change on the fault's chip (or instance) differs from that of its peers in the same job by
more than `SIGMAS` of theirs, or where all of the job changes by more than `SIGMAS` of its own
variation.
"""

# ruff: noqa: T201  a report goes to the terminal

from __future__ import annotations

import argparse
import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from support.sim.fleets import shipped_fleet

from trnfleet.domain.faults.fault import FaultScope
from trnfleet.domain.faults.table import FAULTS
from trnfleet.domain.fleet import Rates
from trnfleet.domain.jobs import JOB_STATES
from trnfleet.domain.metrics import SIMULATED, Kind, Metric, Origin, Scope
from trnfleet.sim.engine import Engine, to_ns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from trnfleet.domain.faults.fault import Fault

    Values = NDArray[np.float64]

SIGMAS = 3.0
SEED = 777
BEGINS = 60
"""Tick at which a fault begins; a tick is a second."""
TICKS = 180
WINDOW = 10
"""Ticks of a mean."""
TARGETS = {
    "chip": "uc1/us-0002/trn2u-0002-2/chip05",
    "link": "uc1/us-0002/trn2u-0002-2/chip05:east",
    "instance": "uc1/us-0002/trn2u-0002-2",
    "rack": "uc1/us-0002/trn2u-0002-2",
    "ultraserver": "uc1/us-0002",
    "cluster": "uc1",
}
"""Where a fault of each scope is injected into `training`."""
Z_LINK = "uc1/us-0002/trn2u-0002-2/chip05:z_next"


class Trace(NamedTuple):
    """A column that shows a fault."""

    metric: Metric
    after_s: int
    """From the fault's begin to the first such window's end."""
    is_own: bool
    """Whether the target differs from its peers; else all of its job changes alike."""


class Observed(NamedTuple):
    """What a run shows of the job on the target, and of the job itself."""

    columns: Mapping[str, Values]
    """By metric: shape (ticks, chips or instances of the job)."""
    step_s: Values
    states: NDArray[np.int8]
    events: list[tuple[float, str]]


class Signature(NamedTuple):
    """All traces of a fault."""

    fault: Fault
    traces: list[Trace]
    is_silent: bool
    """Whether nothing comes from its instances."""
    step_ratio: float
    """Usual step under the fault over that without it."""
    states: list[tuple[str, int]]
    """States that the job turns to, and seconds after the begin."""
    events: list[tuple[str, int]]


def signature(name: str) -> Signature:
    """Run the fleet with and without a fault, and compare."""
    fault = FAULTS[name]
    target = Z_LINK if name == "z_link_down" else TARGETS[fault.scope.value]
    good, _ = _observe(None, "")
    bad, own = _observe(name, target)
    traces = [
        trace
        for metric in SIMULATED
        if (
            trace := _trace(
                metric, good.columns[metric.name], bad.columns[metric.name], own[metric.scope]
            )
        )
    ]
    usual_s = float(np.nanmedian(good.step_s))
    seen: dict[str, int] = {}
    for tick in range(BEGINS, TICKS):
        state = JOB_STATES[bad.states[tick]]
        if bad.states[tick] not in {bad.states[tick - 1], good.states[tick]}:
            seen.setdefault(state, tick - BEGINS)
    known = {text for _, text in good.events}
    events = [(text, round(at_s - BEGINS)) for at_s, text in bad.events if text not in known]
    slowed = bad.step_s[BEGINS:]
    ratio = float(np.nanmedian(slowed)) / usual_s if np.isfinite(slowed).any() else np.nan
    rows = sorted(own[Scope.INSTANCE])
    vcpu = bad.columns["vcpu_util_pct"][BEGINS + 1 :, rows]
    is_silent = bool(rows) and bool(np.isnan(vcpu).any())
    return Signature(fault, traces, is_silent, ratio, list(seen.items()), events)


def _observe(fault: str | None, target: str) -> tuple[Observed, Mapping[Scope, set[int]]]:
    parts = {"stragglers": (), "links": (), "rates": Rates(acceleration=0.0)}
    fleet = shipped_fleet("training").model_copy(update=parts)
    engine = Engine(fleet, SEED, 1.0, to_ns(fleet.start))
    layout = engine.layout
    node = layout.find(TARGETS["instance"])
    assert node is not None
    job = int(engine.job_of_instance[node.number])
    instances = np.flatnonzero(engine.job_of_instance == job)
    chips = layout.chip_rows(instances)
    rows = {Scope.CHIP: chips, Scope.INSTANCE: instances}
    columns: dict[str, list[Values]] = {metric.name: [] for metric in SIMULATED}
    step_s = []
    states = []
    events: list[tuple[float, str]] = []
    own: dict[Scope, set[int]] = {Scope.CHIP: set(), Scope.INSTANCE: set()}
    for tick in range(TICKS):
        if tick == BEGINS and fault is not None:
            engine.inject(fault, target)
        step = engine.step()
        for metric in SIMULATED:
            values = metric.decode(engine.columns[metric.name][rows[metric.scope]])
            flat = values.reshape(len(values), -1)
            columns[metric.name].append(
                flat if metric.is_vector and metric.name.startswith("link") else _mean(flat)
            )
        step_s.append(step.figures["step_time_s"][job])
        states.append(step.states[job])
        events += [(engine.now_s, event.name) for event in step.events]
        for incident in engine.incidents.active():
            whole = layout.chip_rows(np.array(incident.instances, np.intp))
            is_small = incident.fault.scope in {FaultScope.CHIP, FaultScope.LINK}
            for scope, there, concerned in (
                (Scope.INSTANCE, instances, incident.instances),
                (Scope.CHIP, chips, incident.rows if is_small else whole),
            ):
                own[scope] |= set(np.flatnonzero(np.isin(there, concerned)).tolist())
    return (
        Observed(
            {name: np.stack(values) for name, values in columns.items()},
            np.array(step_s),
            np.array(states),
            events,
        ),
        own,
    )


def _trace(metric: Metric, good: Values, bad: Values, own: set[int]) -> Trace | None:
    """Return a column's first trace; shapes (ticks, rows, lanes)."""
    rows = np.array(sorted(own), np.intp)
    peers = np.setdiff1d(np.arange(bad.shape[1]), rows)
    before = slice(BEGINS - 3 * WINDOW, BEGINS)
    usual = _means(good[: BEGINS + 1]).mean(axis=1)
    sigma = np.maximum(usual.std(axis=0), metric.scale / 2.0)
    seen: list[bool | None] = []
    for end in range(BEGINS + WINDOW, TICKS, WINDOW):
        window = slice(end - WINDOW + 1, end + 1)
        change = bad[window].mean(axis=0) - bad[before].mean(axis=0)
        of_peers = np.median(change[peers], axis=0)
        spread = np.maximum(change[peers].std(axis=0), metric.scale / 2.0)
        # Of a whole rack the usual chip, of a link both of its ends.
        own_change = np.median(change[rows], axis=0) if len(rows) > 2 else change[rows]
        apart = np.abs(own_change - of_peers) / spread
        moved = np.abs((bad[window] - good[window]).mean(axis=(0, 1))) / sigma
        is_same = np.array_equal(good[window], bad[window], equal_nan=True)
        is_own = np.nanmax(apart, initial=0.0) > SIGMAS
        if metric.kind is not Kind.GAUGE and not change[peers].any():
            is_own = bool(change[rows].any())
        is_moved = metric.kind is Kind.GAUGE and np.nanmax(moved, initial=0.0) > SIGMAS
        seen.append(None if is_same or not (is_own or is_moved) else bool(is_own))
    # Two windows in a row, so that a single one is no chance.
    for is_own in (True, False):
        for number, pair in enumerate(itertools.pairwise(seen)):
            if pair[0] is is_own and pair[1] is not None and pair[1] >= is_own:
                return Trace(metric, (number + 1) * WINDOW, is_own=is_own)
    return None


def _means(values: Values) -> Values:
    """Return the means over consecutive windows: shape (windows, rows, lanes)."""
    whole = len(values) // WINDOW * WINDOW
    parts = values[:whole].reshape(-1, WINDOW, *values.shape[1:])
    return np.asarray(parts.mean(axis=1))


def _mean(values: Values) -> Values:
    """Return the mean of the known lanes; shape (rows, 1)."""
    known = ~np.isnan(values)
    total = np.where(known, values, 0.0).sum(axis=1, keepdims=True)
    count = known.sum(axis=1, keepdims=True)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def table(names: list[str]) -> str:
    """Return the traces of faults as a Markdown table."""
    lines = [
        "| fault | own: of a real host | own: simulator only | all of its job | the job | events |",
        "|---|---|---|---|---|---|",
    ]
    for name in names:
        found = signature(name)
        real: list[str] = []
        only: list[str] = []
        alike: list[str] = []
        for trace in found.traces:
            is_real = trace.metric.real_host is not Origin.UNAVAILABLE
            place = (real if is_real else only) if trace.is_own else alike
            place.append(f"{trace.metric.name} {trace.after_s} s")
        if found.is_silent:
            real.insert(0, "silence")
        job = [f"{state} at {after_s} s" for state, after_s in found.states]
        if found.step_ratio > 1.02:
            job.insert(0, f"steps {found.step_ratio:.2f} x")
        events = [f"{text} {after_s} s" for text, after_s in found.events]
        cells = (name, *(", ".join(each) or "none" for each in (real, only, alike, job, events)))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Print the table for all faults of the fleet, or for some."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("faults", nargs="*", help="names of faults; all by default")
    options = parser.parse_args()
    fleet_faults = [name for name, fault in FAULTS.items() if not fault.is_transport]
    print(table(options.faults or fleet_faults))


if __name__ == "__main__":
    main()
