"""Short twins of `make chaos`: the same cases, fewer of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.chaos import brokers, files, in_process
from support.chaos.broker_ways import WAYS
from support.chaos.cases import Case, ChaosError

if TYPE_CHECKING:
    from pathlib import Path

SEED = 20_260_105
"""One that is always the same; `make chaos` plays others."""


async def test_messages_stop_neither_a_monitor_nor_its_views() -> None:
    """Mutated messages of every class are counted and named, and the good publisher's telemetry is shown all the while."""
    seen = await in_process.run_case(Case("messages", SEED, 0), messages=1_500)
    assert seen.messages > 1_500


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
    """A broker that misbehaves costs no traceback, nothing raw on the terminal, and no command its end in time."""
    number = [way.name for way in WAYS].index(name)
    seen = brokers.run_case(
        Case("brokers", SEED, number), tmp_path, names=("record", "status"), app=False, alive_s=1.5
    )
    assert set(seen.ended) == {"record", "status"}


def test_damaged_files_are_refused_in_a_line(tmp_path: Path) -> None:
    """Every command that reads a damaged recording or configuration ends with 0, 1 or 2, soon, and says why."""
    seen = files.run_case(Case("files", SEED, 0), tmp_path)
    assert seen.statuses[2] > 1
