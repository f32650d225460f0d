"""The settings file that ships: it names what there is, and nothing else."""

from __future__ import annotations

import re

import click
import pytest

from trnfleet.cli.command_table import COMMANDS
from trnfleet.cli.main import cli
from trnfleet.config import shipped_folder


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in {"info", "check"}])
def test_the_settings_file_names_every_setting(name: str) -> None:
    """Each option that a settings file may give stands in the shipped one, and nothing that does not exist."""
    text = (shipped_folder(".") / "trnfleet.toml").read_text(encoding="utf-8")
    tables = {
        table: set(re.findall(r"^(?:# )?([a-z-]+) = ", body, re.MULTILINE))
        for table, body in re.findall(r"^\[([a-z]+)\]\n(.*?)(?=^\[|\Z)", text, re.MULTILINE | re.DOTALL)
    }
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    options = {
        max(each.opts, key=len).removeprefix("--"): each
        for each in command.params
        if isinstance(each, click.Option)
    }
    settings = {flag for flag, each in options.items() if each.envvar} - {"config"}
    assert settings <= tables.get(name, set()) | tables["common"]
    assert tables.get(name, set()) <= set(options)
