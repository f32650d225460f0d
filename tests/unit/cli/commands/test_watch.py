"""Wrong use of `trnfleet watch`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from trnfleet.cli.commands.watch import command

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (
            ["--alertmanager", "am:9093"],
            "'--alertmanager' (env var: 'TRNFLEET_ALERTMANAGER'): not a URL",
        ),
        (["--webhook", "ftp://u:secret@h"], "'--webhook' (env var: 'TRNFLEET_WEBHOOK'): not a URL"),
        (["--exec", "no-such-program-here"], "no such program"),
        (["--rules", "no-such-rules"], "no-such-rules"),
        (["--owner", "x"], "--owner"),
        (["--exit-on", "fatal"], "fatal"),
    ],
)
def test_wrong_use_is_told_in_one_line(tmp_path: Path, option: list[str], said: str) -> None:
    """Wrong use is refused before any connection, without showing a password."""
    file = tmp_path / "rules.toml"
    file.write_text(
        '[[rules]]\nname = "down"\nscope = "publisher"\nseverity = "info"\nfigure = "state"\nequals'
        ' = "offline"\nsummary = "x"\n'
    )
    rules = [] if option[0] == "--rules" else ["--rules", str(file)]
    result = CliRunner().invoke(command, ["--broker", "mqtt://127.0.0.1:1", *rules, *option])
    assert said in f"{result.output}{result.exception}"
    assert "secret" not in f"{result.output}{result.exception}"
