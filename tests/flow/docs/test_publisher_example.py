"""The publisher of docs/wire.md, run as a reader would."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from support.documents import DOCS, read
from support.processes.programs import environment, run

if TYPE_CHECKING:
    from pathlib import Path

    from support.processes.mosquitto import MosquittoProcess


def status(mosquitto: MosquittoProcess, until: str, amount: int) -> dict[str, Any]:
    """Return the fleet's summary once a figure has an amount, or after 20 s."""
    deadline = time.monotonic() + 20
    while True:
        found = run(
            "status", "--broker", str(mosquitto.url), "--name", "lab", "--wait", "2s", "--json"
        )
        summary: dict[str, Any] = json.loads(found.stdout) if found.stdout else {}
        if summary.get(until) == amount or time.monotonic() > deadline:
            return summary


@pytest.mark.broker
def test_the_publisher_of_the_page_is_seen(mosquitto: MosquittoProcess, tmp_path: Path) -> None:
    """The page's code makes 16 live chips without refusals.

    Its last will marks them offline.
    """
    code = (
        read("wire.md")
        .partition("<!-- file: docs/examples/publisher.py -->\n```python\n")[2]
        .partition("\n```\n")[0]
    )
    program = tmp_path / "publisher.py"
    program.write_text(code + "\n", encoding="utf-8")
    assert program.read_text() == (DOCS / "examples" / "publisher.py").read_text()
    with subprocess.Popen(
        [sys.executable, str(program), f"127.0.0.1:{mosquitto.port}"],
        env=environment(),
        stdin=subprocess.DEVNULL,
    ) as publisher:
        try:
            status(mosquitto, "live_chips", 16)
            # What came while it began may have come before its descriptor.
            summary = status(mosquitto, "live_chips", 16)
            assert (summary["chips"], summary["live_chips"], summary["healthy"]) == (16, 16, True)
            assert summary["nc_util_pct"] == 87.5
            assert summary["publishers_online"] == 1
            refused = (
                "undecodable",
                "misplaced",
                "rejected",
                "undescribed",
                "lost",
                "late",
                "duplicates",
            )
            assert [name for name in refused if summary[name]] == []
        finally:
            publisher.send_signal(signal.SIGKILL)
    summary = status(mosquitto, "publishers_online", 0)
    assert (summary["publishers"], summary["publishers_online"], summary["live_chips"]) == (1, 0, 0)
