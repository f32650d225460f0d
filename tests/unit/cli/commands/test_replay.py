"""What `trnfleet replay` asks of the app."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner
from support.record.fixtures import RECORDINGS

from trnfleet.cli import app, replaying
from trnfleet.cli.commands import replay
from trnfleet.cli.main import cli
from trnfleet.monitor.replay.playback import RATES

FILE = str(RECORDINGS / "job-crash.mcap")


@pytest.mark.parametrize(("asked", "played"), [("1e-3", RATES[0]), ("5", 5.0), ("1e6", RATES[-1])])
def test_the_app_plays_as_fast_as_its_keys_can(
    asked: str, played: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is beyond is cut to the slowest and the fastest that can be chosen there, and the help names the two."""
    speeds: list[float] = []

    async def show(*_: Any, speed: float, **__: Any) -> int:
        speeds.append(speed)
        return 0

    monkeypatch.setattr(app, "require_terminal", lambda *_: None)
    monkeypatch.setattr(replaying, "run_replay_app", show)
    monkeypatch.setattr(replay, "set_up_logs", lambda *_: None)
    ended = CliRunner().invoke(cli, ["replay", FILE, "--speed", asked, "--log-file", "unused"])
    assert ended.exit_code == 0, ended.output
    assert speeds == [played]
    told = " ".join(CliRunner().invoke(cli, ["replay", "--help"]).output.split())
    assert f"the app plays at {RATES[0]:g} to {RATES[-1]:g}." in told
