from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "kept_out"),
    [
        ("url", ("aiomqtt", "paho", "asyncio")),
        ("embedded", ("aiomqtt", "paho")),
    ],
)
def test_clients_are_loaded_only_where_they_are_used(
    module: str, kept_out: tuple[str, ...]
) -> None:
    """A module loads no unused MQTT library, so that commands without a broker start fast."""
    code = (
        f"import sys, trnfleet.transport.{module}; print(*sorted(set({kept_out!r}) &"
        " set(sys.modules)))"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert output.stdout.strip() == ""
