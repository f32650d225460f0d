"""Speed and history passed to the app by `trnfleet replay`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest
from click.testing import CliRunner
from support.history import FIRST, write_minutes
from support.processes.waiting import eventually
from support.record.fixtures import RECORDINGS

from trnfleet.cli.commands import replay
from trnfleet.cli.main import cli
from trnfleet.cli.options import LogOptions
from trnfleet.clock import NS_PER_S
from trnfleet.monitor.replay.controls import RATES
from trnfleet.services import viewing
from trnfleet.services.viewing import Viewing
from trnfleet.tasks import background
from trnfleet.tui import run

if TYPE_CHECKING:
    from pathlib import Path

    from trnfleet.domain.minutes import Reach
    from trnfleet.services.history.charts import HistoryCharts

FILE = str(RECORDINGS / "job-crash.mcap")


def no_terminal(monkeypatch: pytest.MonkeyPatch, run_app: Any) -> None:
    """Replace the app by a substitute without a terminal."""
    monkeypatch.setattr(replay, "require_terminal", lambda *_: None)
    monkeypatch.setattr(run, "run_app", run_app)
    monkeypatch.setattr(LogOptions, "set_up", lambda *_: None)


@pytest.mark.parametrize(("asked", "played"), [("1e-3", RATES[0]), ("5", 5.0), ("1e6", RATES[-1])])
def test_the_app_plays_as_fast_as_its_keys_can(
    asked: str, played: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A speed is cut to the slowest and fastest of the app.

    The help names both.
    """
    speeds: list[float] = []

    async def run_app(_state: Any, running: dict[str, Any], **_: Any) -> int:
        for each in running.values():
            each.close()
        return 0

    def view(*_: Any, speed: float, **__: Any) -> Viewing:
        speeds.append(speed)
        return Viewing(cast("Any", None), {})

    no_terminal(monkeypatch, run_app)
    monkeypatch.setattr(viewing, "view_recording", view)
    ended = CliRunner().invoke(cli, ["replay", FILE, "--speed", asked, "--log-file", "unused"])
    assert ended.exit_code == 0, ended.output
    assert speeds == [played]
    told = " ".join(CliRunner().invoke(cli, ["replay", "--help"]).output.split())
    assert f"the app plays at {RATES[0]:g} to {RATES[-1]:g}." in told


def test_the_app_has_the_history_of_the_recording_s_fleet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder is read while the app runs.

    Without one there is no history.
    """
    write_minutes(tmp_path, range(FIRST, FIRST + 3), fleet="training")
    reached: list[Reach | None] = []

    async def run_app(
        _state: Any, running: dict[str, Any], *, history: HistoryCharts | None, **_: Any
    ) -> int:
        reading = running.pop("history", None)
        for each in running.values():
            each.close()
        if history is None:
            assert reading is None
            reached.append(None)
            return 0
        async with background(history=reading):
            await eventually(lambda: history.reach is not None)
        reached.append(history.reach)
        return 0

    no_terminal(monkeypatch, run_app)
    for options in (("--history", str(tmp_path)), ()):
        ended = CliRunner().invoke(cli, ["replay", FILE, *options, "--log-file", "unused"])
        assert ended.exit_code == 0, ended.output
    assert [None if each is None else each.first_ns for each in reached] == [
        FIRST * 60 * NS_PER_S,
        None,
    ]


@pytest.mark.parametrize("elsewhere", ["--stdout", "--broker=mqtt://127.0.0.1"])
def test_history_is_for_the_app_alone(elsewhere: str) -> None:
    refused = CliRunner().invoke(cli, ["replay", FILE, "--history", "folder", elsewhere])
    assert refused.exit_code == 2
    assert "--history goes with the app" in refused.output
