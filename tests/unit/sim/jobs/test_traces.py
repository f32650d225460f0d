from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.sim.job_run import JobRun, fleet_of, mean, state

from trnfleet.bridge.neuron.utilisation import read_utilisation
from trnfleet.errors import ConfigError
from trnfleet.sim.jobs.slowdown import Halt
from trnfleet.sim.jobs.traces import Trace, load_traces, read_trace

if TYPE_CHECKING:
    from pathlib import Path

JOB: dict[str, Any] = {
    "kind": "trace",
    "name": "t",
    "on": ["c/standalone/trn2-0001"],
    "file": "load.csv",
}


def report(*utilisation: float, period: float = 2.0) -> str:
    cores = {
        str(core): {"neuroncore_utilization": value, "flops": 1}
        for core, value in enumerate(utilisation)
    }
    counters = {"period": period, "neuroncores_in_use": cores, "error": ""}
    return json.dumps(
        {"neuron_runtime_data": [{"pid": 1, "report": {"neuroncore_counters": counters}}]}
    )


def written(folder: Path, name: str, *lines: str) -> Path:
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


def test_neuron_monitor_is_read_with_its_own_periods(tmp_path: Path) -> None:
    """A line's value is the mean of the used cores, for the line's own period.

    Bad lines are counted.
    """
    idle = json.dumps({"neuron_runtime_data": []})
    lines = (report(40, 60), "{not json", "", report(100, period=4.0), "[]", report(1, 200), idle)
    trace = read_trace(written(tmp_path, "m.ndjson", *lines), read_utilisation)
    assert list(trace.edges_s) == [0, 2, 6, 10]
    assert trace.values == (0.5, 1.0, 0.0)
    assert [each.line for each in trace.skipped] == [2, 5, 6]
    assert (
        trace.summary
        == "3 samples over 10 s; 3 skipped: line 2 (not JSON: key must be a string at line 1 column"
        " 2), line 5 (not a document of neuron-monitor: neither neuron_runtime_data nor"
        " system_data), line 6 (utilization 200 %)"
    )


def test_a_trace_of_several_processes_is_their_sum_a_core(tmp_path: Path) -> None:
    """Processes listing all cores count only on their own; two on a core add up.

    97 % of each core is 97 %, not a quarter.
    """
    processes = []
    for own, core in enumerate((0, 1, 2, 2)):
        cores = {
            str(each): {"neuroncore_utilization": 97.0 if each == core else 0.0}
            for each in range(4)
        }
        if own > 1:
            cores["2"] = {"neuroncore_utilization": 48.5}
        counters = {"period": 0.007, "neuroncores_in_use": cores, "error": ""}
        processes.append({"report": {"neuroncore_counters": counters}})
    document = {"neuron_runtime_data": processes, "system_data": {"vcpu_usage": {"period": 5.0}}}
    lines = json.dumps(document, indent=2).splitlines()
    trace = read_trace(written(tmp_path, "m.json", *lines, *lines), read_utilisation)
    assert trace.values == (0.97, 0.97)
    assert list(trace.edges_s) == [0, 5, 10]


def test_csv_is_read_by_its_header(tmp_path: Path) -> None:
    """Columns are found by name; bad lines and lines back in time are skipped.

    The last line lasts as long as the one before.
    """
    lines = (
        "host,time_s,utilization_pct",
        "a,10,20",
        "a,12,40",
        "a,11,90",
        "a,x,1",
        "a",
        "a,16,100",
    )
    trace = read_trace(written(tmp_path, "m.csv", *lines), read_utilisation)
    assert list(trace.edges_s) == [0, 2, 6, 10]
    assert trace.values == (0.2, 0.4, 1.0)
    assert [each.line for each in trace.skipped] == [4, 5, 6]


@pytest.mark.parametrize(
    ("name", "lines", "message"),
    [
        ("m.csv", ["time,utilization_pct", "0,1"], r"m\.csv: line 1: no column 'time_s' .* 'time'"),
        ("m.csv", [], r"m\.csv: line 1: no column 'time_s'"),
        (
            "m.csv",
            ["time_s,utilization_pct", "0,-5"],
            r"m\.csv: nothing .*; line 2: utilization -5 %",
        ),
        (
            "m.ndjson",
            ["{}", "{}"],
            r"m\.ndjson: nothing in it can be used; line 1: not a document of neuron-monitor",
        ),
        ("m.txt", ["1"], r"m\.txt: a recording ends in \.ndjson or \.csv"),
    ],
)
def test_what_cannot_be_used_is_refused(
    tmp_path: Path, name: str, lines: list[str], message: str
) -> None:
    """File, line and reason are named."""
    with pytest.raises(ConfigError, match=message):
        read_trace(written(tmp_path, name, *lines), read_utilisation)


def test_files_are_found_beside_the_fleet_file(tmp_path: Path) -> None:
    """Paths are relative to the fleet file's folder; a missing one is named."""
    fleet = fleet_of(JOB)
    with pytest.raises(ConfigError, match=r"load\.csv: cannot be read: No such file"):
        load_traces(fleet, tmp_path, read_utilisation)
    written(tmp_path, "load.csv", "time_s,utilization_pct", "0,30", "5,60")
    assert load_traces(fleet, tmp_path, read_utilisation)["t"].values == (0.3, 0.6)
    with pytest.raises(ConfigError, match=r"jobs\.t\.file: its recording was not read"):
        JobRun(fleet)


@pytest.mark.parametrize("loop", [True, False])
def test_the_mean_over_any_window_is_exact(loop: bool) -> None:
    """The mean of parts is the mean of the whole, within and beyond the recording."""
    trace = Trace((0.0, 1.0, 4.0, 5.5), (0.2, 1.0, 0.4), loop)
    fine = np.mean([trace.at(0.01 * number + 0.005) for number in range(2_300)])
    assert trace.mean(0.0, 23.0) == pytest.approx(fine, rel=1e-6)
    for length in (0.3, 1.0, 2.3, 7.0):
        edges = np.append(np.arange(0.0, 23.0, length), 23.0)
        total = sum(trace.mean(a, b) * (b - a) for a, b in pairwise(edges.tolist()))
        assert total / 23.0 == pytest.approx(trace.mean(0.0, 23.0), rel=1e-12)
    assert trace.mean(50.0, 50.5) == pytest.approx(trace.at(50.2) if not loop else 0.2)


@pytest.mark.parametrize("like", ["training", "inference"])
def test_cores_follow_the_recording(like: str) -> None:
    """nc_util follows the recording to the point; the other engines, HBM and power follow it."""
    trace = Trace((0.0, 10.0, 20.0), (0.25, 1.0))
    run = JobRun(fleet_of(JOB | {"like": like}), traces={"t": trace})
    low = run.advance(10.0)
    high = run.advance(10.0)
    assert (mean(low, "nc"), mean(high, "nc")) == pytest.approx((0.25, 1.0))
    assert mean(high, "tensor") == pytest.approx(4 * mean(low, "tensor"))
    assert run.power_share(high)[0] > 3 * run.power_share(low)[0] > 0
    assert high.peak_flops_share[0] == pytest.approx(0.35)
    assert int(high.executions[0]) == pytest.approx(int(low.executions[0]) * 5)
    run.halt(Halt.DOWN)
    tick = run.advance(10.0)
    assert (mean(tick, "nc"), state(tick)) == (0.0, "failed")


def test_windows_of_any_length_average_the_same() -> None:
    """Seconds, odd parts and a minute of a recording give the same mean."""
    trace = Trace((0.0, 3.7, 11.0, 13.3), (0.1, 0.9, 0.4))
    means = []
    for elapsed_s in (1.0, 7.0, 60.0):
        ticks = JobRun(fleet_of(JOB), traces={"t": trace}).until(420.0, elapsed_s)
        means.append(np.mean([mean(tick, "nc") for tick in ticks]))
    assert means[1:] == pytest.approx([means[0]] * 2, rel=1e-9)
