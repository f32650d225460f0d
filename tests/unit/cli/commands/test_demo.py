from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.testing import CliRunner

from trnfleet import logs
from trnfleet.cli.commands import demo
from trnfleet.cli.commands.simulate import command as simulate_command
from trnfleet.cli.options import broker_options

if TYPE_CHECKING:
    import logging
    from pathlib import Path

    import pytest


def test_the_simulator_gets_the_options_about_the_broker(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Every option about a broker but the broker itself goes to the simulator, which takes all that it is given."""
    started: list[list[str]] = []

    async def run(
        _session: Any, _root: str, _run: Any, simulate: list[str], _alerts: Any, **_rest: Any
    ) -> int:
        started.append(simulate)
        return 0

    monkeypatch.setattr(demo, "_run", run)
    monkeypatch.setattr(demo, "require_terminal", lambda: None)
    password = tmp_path / "password"
    password.write_text("secret")
    password.chmod(0o600)
    given = ["--broker", "mqtt://user@127.0.0.1:1", "--root", "site", "--password-file", str(password)]
    log_file = ["--log-file", str(tmp_path / "app.log")]
    opened: list[logging.Handler] = []
    configure = logs.configure

    def noted(**settings: Any) -> logging.Handler:
        opened.append(configure(**settings))
        return opened[-1]

    monkeypatch.setattr(logs, "configure", noted)
    result = CliRunner().invoke(demo.command, [*given, *log_file], catch_exceptions=False)
    assert result.exit_code == 0
    # The file stays open as long as the process, which here goes on.
    configure()
    for stream in opened:
        stream.close()

    @click.command
    @broker_options(required=False)
    def plain(session: Any) -> None:
        raise AssertionError(session)

    [arguments] = started
    about_broker = {option.opts[0] for option in plain.params} - {"--broker"}
    assert about_broker <= set(arguments)
    params = simulate_command.make_context("simulate", arguments).params
    assert (params["root"], params["password_file"]) == ("site", str(password))
