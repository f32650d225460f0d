"""What commands that read from a broker subscribe to."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from trnfleet.cli.commands import monitor as monitor_command
from trnfleet.cli.commands import status as status_command
from trnfleet.cli.watching import watch_fleet
from trnfleet.clock import ManualClock
from trnfleet.domain.power import PUE
from trnfleet.transport.url import parse_url

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _collector() -> Iterator[None]:
    """Give the collector back the thresholds that a monitor of large fleets takes."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_events_are_asked_for_with_qos_1() -> None:
    """A monitor hears state, telemetry and events of its fleet; events are not lost on the way."""
    watch = watch_fleet(
        parse_url("mqtt://127.0.0.1:1"), "demo", root="r", password=None, clock=ManualClock(), pue=1.3
    )
    assert ("r/v1/demo/event/#", 1) in watch.source._topics
    assert watch.monitor.pue == 1.3
    again = watch_fleet(parse_url("mqtt://127.0.0.1:1"), "demo", root="r", password=None, clock=ManualClock())
    assert again.monitor.pue == PUE


@pytest.mark.parametrize("command", [monitor_command.command, status_command.command])
def test_the_pue_is_an_option(command: object) -> None:
    """The help names the published default as the domain has it; what no site can have is refused."""
    runner = CliRunner()
    assert f"by default {PUE:g}" in " ".join(runner.invoke(command, ["--help"]).output.split())  # type: ignore[arg-type]  # a click command
    refused = runner.invoke(command, ["--broker", "mqtt://127.0.0.1:1", "--pue", "0.9"])  # type: ignore[arg-type]  # a click command
    assert refused.exit_code == 2
    assert "--pue" in refused.output
