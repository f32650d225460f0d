"""Short twins of `make chaos`: the same cases, fewer of them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from support.processes.alertmanager import MISSING, alertmanager_program

from lab.chaos import __main__ as chaos
from lab.chaos import brokers, files, in_process, live, processes
from lab.chaos.broker_ways import WAYS
from lab.chaos.cases import Case, ChaosError, InconclusiveError
from lab.chaos.fleet_faults import Interval, Script
from lab.chaos.processes import Disturbance
from lab.chaos.received import Window, expected
from trnfleet.domain.scenario import FaultEntry

if TYPE_CHECKING:
    from pathlib import Path

SEED = 20_260_105
"""A fixed seed; `make chaos` plays others."""
COARSE = ("--format", "cbor", "--granularity", "instance")
"""Cheaper simulator messages than the one per chip in `make chaos`."""


async def test_messages_stop_neither_a_monitor_nor_its_views() -> None:
    """Mutated messages are counted and named, and the good telemetry stays visible."""
    seen = await in_process.run_case(Case("messages", SEED, 0), messages=1_500)
    assert seen.messages > 1_500


@pytest.mark.broker
def test_messages_through_a_broker_stop_neither_the_app_nor_a_watch(tmp_path: Path) -> None:
    """A hostile publisher's messages kill no process, and hide the good fleet from no reader."""
    seen = live.run_case(Case("live", SEED, 0), tmp_path, messages=750, published=COARSE)
    assert seen.messages > 700


def test_an_increase_that_ended_in_an_outage_need_not_be_notified() -> None:
    """Counters rising and replaced while their source is unheard are invisible to a watch."""
    rises = {"exec-errors uc1/us-0001/trn2u-0001-2": [Interval(152, 162), Interval(190, 452)]}
    script = Script([], 0, rises, set())
    assert script.unheard([(141.0, 224.0)]) == set(rises)
    assert script.unheard([(155.0, 224.0)]) == script.unheard([(141.0, 160.0)]) == set()
    assert expected(script, [Window(151.0, 179.0)], 600.0) == set(rises)
    assert expected(script, [Window(151.0, 179.0)], 600.0, set(rises)) == set()


async def test_a_failure_names_the_command_that_repeats_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a monitor breaks, the case fails and says how to play it alone."""
    monkeypatch.setattr("trnfleet.monitor.ingest.telemetry.TelemetryBatch.finish", lambda _: 1 / 0)
    with pytest.raises(
        ChaosError, match=r"ZeroDivisionError[^\n]*\n.*make chaos SEED=3 PART=messages CASE=2"
    ):
        await in_process.run_case(Case("messages", 3, 2), messages=250)


@pytest.mark.broker
@pytest.mark.parametrize("name", ["odd topics", "half a SUBACK"])
def test_commands_end_as_documented_whatever_a_broker_does(name: str, tmp_path: Path) -> None:
    """With a misbehaving broker commands end in time, without traceback or raw output."""
    number = [way.name for way in WAYS].index(name)
    seen = brokers.run_case(
        Case("brokers", SEED, number), tmp_path, names=("record", "status"), app=False, alive_s=1.5
    )
    assert set(seen.ended) == {"record", "status"}


def test_damaged_files_are_refused_in_a_line(tmp_path: Path) -> None:
    """Every command reading a damaged file ends soon with 0, 1 or 2.

    It prints the reason.
    """
    seen = files.run_case(Case("files", SEED, 0), tmp_path)
    assert seen.statuses[2] > 1


def test_a_part_that_cannot_be_played_is_said_loudly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without Alertmanager the part needing it is named, first and last.

    The status reports an incomplete run.
    """
    monkeypatch.setattr(chaos, "alertmanager_program", lambda: None)
    monkeypatch.setattr("trnfleet.logs.configure", lambda **_: None)
    monkeypatch.setattr(sys, "argv", ["chaos", "--part", "processes", "--seed", "1"])
    assert chaos.main() == 1
    assert capsys.readouterr().out == (
        f"{chaos.UNPLAYED}\n0 cases held, none failed\n{chaos.UNPLAYED}\n"
    )


def test_a_case_that_breaks_does_not_end_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A case failing in any way is counted, and the command that repeats it is printed."""

    def broken(case: Case, _folder: Path) -> object:
        assert case.number, "no chips"
        return "good"

    monkeypatch.setitem(chaos.PARTS, "files", chaos.Part(broken, 2))
    monkeypatch.setattr("trnfleet.logs.configure", lambda **_: None)
    monkeypatch.setattr(sys, "argv", ["chaos", "--part", "files", "--seed", "1"])
    assert chaos.main() == 1
    said = capsys.readouterr().out
    assert "no chips" in said
    assert said.endswith(
        "repeat it: make chaos SEED=1 PART=files CASE=0\n"
        "make chaos SEED=1 PART=files CASE=1: good\n1 cases failed, 1 held\n"
    )


@pytest.mark.broker
@pytest.mark.skipif(alertmanager_program() is None, reason=MISSING)
def test_alertmanager_gets_the_alerts_of_the_fleet_whatever_happens_to_processes(
    tmp_path: Path,
) -> None:
    """The fleet's alerts are right despite killed, cut-off and misdated processes.

    The faults are a network card that is down, and one too short for an alert.
    """
    faults = [
        FaultEntry.model_validate(
            {
                "fault": "nic_down",
                "target": f"uc1/us-000{server}/trn2u-000{server}-1",
                "at": "2s",
                "for": lasts,
            }
        )
        for server, lasts in ((1, "50s"), (2, "1s"))
    ]
    disturbances = [
        Disturbance(5.0, "clock -1h", "watch-1", 2.0),
        Disturbance(5.5, "kill", "simulator", 0.2),
        Disturbance(6.5, "partition", "watch-2", 1.0),
        Disturbance(7.0, "stop", "app", 0.5),
    ]
    case = Case("processes", SEED, 0)
    try:
        seen = processes.run_case(
            case,
            tmp_path,
            lasts_s=12.0,
            settle_s=20.0,
            faults=faults,
            disturbances=disturbances,
            records=False,
            published=COARSE,
        )
    except InconclusiveError as error:
        pytest.skip(f"nothing can be said: {error}")
    # What the demo's Capacity Blocks lead to depends on the time of day.
    fired = {name for name in seen.received if not name.startswith("block-")}
    assert fired == {"efa-link-down uc1/us-0001/trn2u-0001-1"}
