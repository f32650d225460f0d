"""Short twins of `make chaos`: the same cases, fewer of them."""

from __future__ import annotations

import pytest
from support.chaos import in_process
from support.chaos.cases import Case, ChaosError

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
