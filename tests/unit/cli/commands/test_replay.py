"""The speed that `trnfleet replay` gives the app."""

from __future__ import annotations

from typing import Any, cast

import pytest
from click.testing import CliRunner
from support.record.fixtures import RECORDINGS

from trnfleet.cli.commands import replay
from trnfleet.cli.main import cli
from trnfleet.cli.options import LogOptions
from trnfleet.monitor.replay.controls import RATES
from trnfleet.services import viewing
from trnfleet.services.viewing import Viewing
from trnfleet.tui import run

FILE = str(RECORDINGS / "job-crash.mcap")


@pytest.mark.parametrize(("asked", "played"), [("1e-3", RATES[0]), ("5", 5.0), ("1e6", RATES[-1])])
def test_the_app_plays_as_fast_as_its_keys_can(
    asked: str, played: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is beyond is cut to the slowest and the fastest that can be chosen there, and the help names the two."""
    speeds: list[float] = []

    async def run_app(_state: Any, running: dict[str, Any], **_: Any) -> int:
        for each in running.values():
            each.close()
        return 0

    def view(*_: Any, speed: float, **__: Any) -> Viewing:
        speeds.append(speed)
        return Viewing(cast("Any", None), {})

    monkeypatch.setattr(replay, "require_terminal", lambda *_: None)
    monkeypatch.setattr(viewing, "view_recording", view)
    monkeypatch.setattr(run, "run_app", run_app)
    monkeypatch.setattr(LogOptions, "set_up", lambda *_: None)
    ended = CliRunner().invoke(cli, ["replay", FILE, "--speed", asked, "--log-file", "unused"])
    assert ended.exit_code == 0, ended.output
    assert speeds == [played]
    told = " ".join(CliRunner().invoke(cli, ["replay", "--help"]).output.split())
    assert f"the app plays at {RATES[0]:g} to {RATES[-1]:g}." in told
