"""Completion in a real bash, with the script of `trnfleet completion bash`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.processes.terminal import Terminal

if TYPE_CHECKING:
    import pytest

LINES = {
    "trnfleet mon": "trnfleet monitor ",
    "trnfleet simulate --fleet d": "trnfleet simulate --fleet demo ",
    "trnfleet inject str": "trnfleet inject straggler ",
    "trnfleet watch --profile pr": "trnfleet watch --profile prod ",
    "trnfleet info nig": "trnfleet info night.mcap ",
}
"""Typed text, and its completion by a tab."""


def test_a_tab_completes_commands_options_and_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tab completes the line.

    Files come from the shell, profiles from the settings.
    """
    bash = shutil.which("bash")
    assert bash is not None
    folder = str(Path(sys.executable).parent)
    (tmp_path / "night.mcap").touch()
    settings = tmp_path / "settings.toml"
    settings.write_text("[profile.prod]\n[profile.lab]\n")
    monkeypatch.chdir(tmp_path)
    variables: dict[str, Any] = {
        "PATH": f"{folder}:/usr/bin:/bin",
        "PS1": "> ",
        "TRNFLEET_CONFIG": str(settings),
    }
    with Terminal(
        "--norc", "--noprofile", "-i", program=[bash], columns=200, **variables
    ) as terminal:
        terminal.send(
            'eval "$(trnfleet completion bash)"; bind "set bell-style none"; echo rea""dy\n'
        )
        terminal.wait_for("ready")
        for typed, completed in LINES.items():
            terminal.send(f"{typed}\t|")
            terminal.wait_for(f"> {completed}|")
            # Ctrl-u takes the line away.
            terminal.send("\x15")
