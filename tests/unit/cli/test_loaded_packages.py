"""Packages loaded by commands: a command's start costs its imports."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PARTS = {
    "numbers": ("numpy", "pydantic"),
    "broker": ("aiomqtt", "paho", "mqtt5", "cbor2", "re2"),
    "recordings": ("mcap", "zstandard", "lz4"),
    "receivers": ("httpx", "httpcore"),
    "the app": ("textual",),
    "never": ("websockets", "boto3", "botocore"),
}
NOWHERE = ("--broker", "mqtt://127.0.0.1:1", "--log-level", "error")
CODE = """
import json, sys
from trnfleet.cli.main import run
for step in json.loads(sys.argv[1]):
    run(step)
    print("\\nLOADED", *{name.partition(".")[0] for name in list(sys.modules)})
"""


def test_a_command_loads_only_the_packages_that_it_uses(tmp_path: Path) -> None:
    """Commands run in turn in one interpreter, so each adds to the packages already loaded."""
    allowed: set[str] = set()
    steps: list[tuple[list[str], str]] = [
        (["--version"], ""),
        (["--help"], ""),
        (["simulate", "--help"], ""),
        (["simulate", "--stdout", "--ticks", "1"], "numbers"),
        (["status", *NOWHERE], "broker"),
        (["watch", *NOWHERE, "--stdout"], "broker"),
        (["record", str(tmp_path / "a.mcap"), *NOWHERE], "recordings"),
        (["watch", *NOWHERE, "--webhook", "http://127.0.0.1:1"], "receivers"),
    ]
    code = [sys.executable, "-c", CODE, json.dumps([arguments for arguments, _ in steps])]
    output = subprocess.run(code, capture_output=True, text=True, check=True).stdout
    loaded = [set(line.split()[1:]) for line in output.splitlines() if line.startswith("LOADED ")]
    for (arguments, part), found in zip(steps, loaded, strict=True):
        allowed |= set(PARTS.get(part, ()))
        others = {name for names in PARTS.values() for name in names} - allowed
        assert found & others == set(), " ".join(arguments)
    assert set(PARTS["numbers"] + PARTS["broker"] + PARTS["recordings"]) <= loaded[-1]
