"""The access lists of docs/brokers.md, loaded by a real Mosquitto."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from support.documents import read
from support.processes.programs import Program, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.processes.mosquitto import MosquittoProcess


@pytest.mark.broker
def test_each_user_may_do_what_the_page_says(
    mosquitto_with: Callable[..., MosquittoProcess], tmp_path: Path
) -> None:
    """A simulator publishes and answers, a viewer sees the fleet and cannot command it, an operator can."""
    found = re.search(r"```text\n(user simulator\n.*?)```", read("brokers.md"), re.DOTALL)
    assert found is not None
    lists = tmp_path / "acl"
    lists.write_text(found[1], encoding="utf-8")
    lists.chmod(0o600)
    mosquitto = mosquitto_with(f"acl_file {lists}")

    def url(user: str) -> str:
        return f"mqtt://{user}@127.0.0.1:{mosquitto.port}"

    simulate = (
        "simulate",
        "--broker",
        url("simulator"),
        "--fleet",
        "lab",
        "--period",
        "200ms",
        "--allow-commands",
    )
    with Program(tmp_path, *simulate):
        seen = run("status", "--broker", url("viewer"), "--name", "lab", "--wait", "10s", "--json")
        summary = json.loads(seen.stdout)
        assert (summary["live_chips"], summary["publishers_online"]) == (1, 1)
        jump = ("jump", "1h", "--name", "lab", "--timeout", "2s", "--broker")
        assert run(*jump, url("viewer")).returncode == 1
        operated = run(*jump, url("operator"))
        assert (operated.returncode, operated.stderr) == (0, "")
