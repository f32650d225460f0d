from __future__ import annotations

from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

from trnfleet import logs
from trnfleet.cli.commands import demo
from trnfleet.cli.commands.simulate import command as simulate_command

if TYPE_CHECKING:
    import logging
    from pathlib import Path

    import pytest


def test_the_simulator_gets_the_options_about_the_broker(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The simulator accepts all its options about the broker."""
    started: list[list[str]] = []

    async def run(
        _session: Any, _root: str, _run: Any, simulate: list[str], _alerts: Any, **_rest: Any
    ) -> int:
        started.append(simulate)
        return 0

    monkeypatch.setattr(demo, "_run", run)
    monkeypatch.setattr(demo, "require_terminal", lambda: None)
    token = tmp_path / "token"
    token.write_text("secret")
    token.chmod(0o600)
    given = [
        "--broker",
        "mqtts://127.0.0.1:1",
        "--user",
        "ops",
        "--root",
        "site",
        "--token-file",
        str(token),
    ]
    given += ["--alpn", "mqtt", "--insecure"]
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

    [arguments] = started
    params = simulate_command.make_context("simulate", arguments).params
    assert (params["root"], params["token_file"]) == ("site", str(token))
    assert (params["alpn"], params["insecure"]) == ("mqtt", True)


async def test_a_child_reads_no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A child has all options as arguments.

    Files and variables have no effect on it.
    """
    monkeypatch.delenv("TRNFLEET_CONFIG")
    monkeypatch.setenv("TRNFLEET_PROFILE", "prod")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "trnfleet").mkdir()
    (tmp_path / "trnfleet" / "trnfleet.toml").write_text("[simulate]\nticks = 7\n[broken\n")
    log_file = tmp_path / "app.log"
    async with demo.own_command(
        ["simulate", "--stdout", "--fleet", "lab", "--ticks", "1"], log_file
    ) as child:
        assert await child.wait() == 0
    assert len(log_file.read_text().splitlines()) == 2
