"""Writing commands as a read-only user."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from support.processes.programs import run
from support.record.fixtures import RECORDINGS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.processes.mosquitto import MosquittoProcess

pytestmark = pytest.mark.broker

RECORDING = str(RECORDINGS / "steady-training.mcap")
COMMANDS = {
    "simulate --fleet lab": "nothing is published: the broker refuses trnfleet/v1/lab/",
    "simulate --fleet lab --ticks 1 --client-id half": (
        "1 message was refused; the last: the broker refuses trnfleet/v1/lab/job/serve-8b"
    ),
    f"replay {RECORDING} --as again --speed 100": (
        "nothing is published: the broker refuses trnfleet/v1/again/"
    ),
    "silence add chip=a --for 1h --why x --yes --name lab": (
        "nothing was written: {url}: the broker refuses trnfleet/v1/lab/silence/"
    ),
    "inject straggler a --name lab": (
        "broker {url}: the broker refuses trnfleet/v1/lab/command/a: not authorised"
    ),
}


def test_nothing_is_reported_as_done_that_the_broker_refused(
    mosquitto_with: Callable[..., MosquittoProcess], tmp_path: Path
) -> None:
    """Every writing command fails at once with the broker's reason."""
    lists = tmp_path / "acl"
    may_write = [
        f"topic readwrite trnfleet/v1/lab/{kind}/#" for kind in ("node", "publisher", "telemetry")
    ]
    lists.write_text(
        "\n".join(["user viewer", "topic read #", "user half", *may_write]), encoding="utf-8"
    )
    lists.chmod(0o600)
    port = mosquitto_with(f"acl_file {lists}").port

    def attempt(command: str) -> tuple[int, str]:
        user = "half" if "half" in command else "viewer"
        ended = run(*command.split(), "--broker", f"mqtt://{user}@127.0.0.1:{port}", timeout_s=20)
        return ended.returncode, ended.stderr

    with ThreadPoolExecutor(3) as threads:
        for (command, said), (status, stderr) in zip(
            COMMANDS.items(), threads.map(attempt, COMMANDS), strict=True
        ):
            assert status == 1, (command, stderr)
            assert said.format(url=f"mqtt://viewer@127.0.0.1:{port}") in stderr, (command, stderr)
