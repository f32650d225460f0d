"""Every command over TLS with a client certificate and a password.

The password must not be found anywhere afterwards.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from support.processes import programs
from support.processes.programs import Program, run
from support.processes.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.processes.certificates import Certificates
    from support.processes.mosquitto import MosquittoProcess

pytestmark = pytest.mark.broker

SECRET = "7f3a-hunter2-Zq"  # noqa: S105  the password of a broker of this test
CHIP = "uc1/us-0001/trn2u-0001-2/chip05"


def command_lines() -> str:
    """Return the command lines of all processes."""
    return "\n".join(
        " ".join(each.info["cmdline"] or ()) for each in psutil.process_iter(["cmdline"])
    )


def test_all_commands_by_certificate_and_password(
    mosquitto_with: Callable[..., MosquittoProcess],
    certificates: Certificates,
    passwords: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All commands work, and no command line, output, log or recording has the password.

    Even at the log's lowest level.
    """
    # A command that is forked has the command line of what it was forked from.
    monkeypatch.setattr(programs, "fork_servers", [])
    broker = mosquitto_with(
        *certificates.listener(asks_client=True),
        f"password_file {passwords(ops=SECRET)}",
        anonymous=False,
        user="ops",
        scheme="mqtts",
    )
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    where = [
        "--broker",
        str(broker.url),
        "--ca",
        certificates.pem("ca"),
        "--cert",
        certificates.pem("client"),
    ]
    where += ["--key", certificates.key("client"), "--log-level", "debug"]
    by_file = [*where, "--password-file", str(secret)]
    by_variable: dict[str, Any] = {"TRNFLEET_MQTT_PASSWORD": SECRET}
    kept = tmp_path / "kept"
    kept.mkdir()
    recording, log_file = str(kept / "night.mcap"), str(kept / "app.log")
    said: list[str] = []
    seen: list[str] = []

    def done(name: str, *arguments: str) -> str:
        """Run a command to its end, and return its output."""
        result = run(name, *arguments, *where, **by_variable)
        said.append(result.stdout + result.stderr)
        assert result.returncode in {0, 3}, (name, result.stderr)
        return said[-1]

    simulate = ("simulate", *by_file, "--fleet", "demo", "--seed", "7", "--allow-commands")
    with (
        Program(kept, *simulate) as simulator,
        Program(kept, "watch", *where, **by_variable) as watch,
    ):
        assert "192 chips" in done("status", "--wait", "20s")
        with Terminal("monitor", *by_file, "--log-file", log_file, columns=120, rows=40) as monitor:
            monitor.wait_for("192", "mqtts://ops@127.0.0.1")
            done("inject", "link_down", f"{CHIP}:east", "--timeout", "20s")
            done("record", recording, "--duration", "2s")
            seen.append(command_lines())
            assert monitor.end(keys="q") == 0
        done("replay", recording, "--broker", str(broker.url), "--as", "again", "--speed", "1000")
        for program in (watch, simulator):
            assert program.end(signal.SIGTERM) == 0, program.output
            said.append(program.output)
    assert "simulate" in seen[0]
    wrong = run("status", *where, TRNFLEET_MQTT_PASSWORD=f"{SECRET}-wrong")
    assert wrong.returncode == 1
    assert "not authorised: the broker refused user 'ops' or the password" in wrong.stderr
    said.append(wrong.stderr)
    assert SECRET not in "".join(said + seen)
    for file in kept.rglob("*"):
        assert SECRET.encode() not in file.read_bytes(), file
