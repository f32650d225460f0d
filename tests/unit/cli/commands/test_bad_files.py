"""Files with one mistake each: named in one line by `trnfleet check` and by commands."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

import pytest
from support.paths import FIXTURES

from trnfleet.cli.command_table import COMMANDS
from trnfleet.cli.main import run

if TYPE_CHECKING:
    from pathlib import Path

BAD = FIXTURES / "bad"
EXPECTED: dict[str, dict[str, str]] = tomllib.loads(
    (BAD / "expected.toml").read_text(encoding="utf-8")
)
FILES = {f"{kind}/{name}": said for kind, lines in EXPECTED.items() for name, said in lines.items()}
NO_SETTINGS_TO_A_COMMAND = {"neither-kind-of-file.toml", "no-settings-of-its-own.toml"}
"""Files not refused like settings. A command reports that the first is no settings file, and no
command reads the table in the second."""


@pytest.mark.parametrize("name", FILES)
def test_check_names_the_mistake_in_one_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The line has the mistake, its place, and the nearest valid form, with status 2."""
    file = BAD / name
    assert run(["check", str(file)]) == 2
    assert capsys.readouterr().out == f"{file}: INVALID: {FILES[name].replace('FILE', str(file))}\n"


@pytest.mark.parametrize(
    "name", [name for name in EXPECTED["settings"] if name not in NO_SETTINGS_TO_A_COMMAND]
)
def test_a_command_refuses_settings_in_the_words_of_check(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table's command refuses it.

    Any command does if the table is for all. Keys are checked by the app, and with all tables.
    """
    file = BAD / "settings" / name
    profile = ["--profile", "prod"] if "[profile.prod]" in _text(file) else []
    command = next((each for each in COMMANDS if f"[{each}]" in _text(file)), "status")
    words = [] if "[keys]" in _text(file) else [command]
    assert run(["config", "print", *words, "--config", str(file), *profile]) == 2
    assert capsys.readouterr().err == f"trnfleet: {file}: {EXPECTED['settings'][name]}\n"


def test_each_file_has_its_line() -> None:
    """And each line its file; no password of them is in a line."""
    files = {path.relative_to(BAD).as_posix() for path in BAD.glob("*/*")}
    assert files == set(FILES)
    assert len(files) >= 60
    assert not [said for said in FILES.values() if "hunter2" in said]


def _text(file: Path) -> str:
    return file.read_bytes().decode("utf-8", "replace")
