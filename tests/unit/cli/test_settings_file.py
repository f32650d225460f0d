"""The shipped settings file names every setting, and nothing else."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click
import pytest

from trnfleet.cli.command_table import COMMANDS, load_command
from trnfleet.cli.settings.keys import keys_of, leaves, options_of
from trnfleet.config import shipped_folder

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", [name for name in COMMANDS if keys_of(name)])
def test_the_settings_file_names_every_setting(name: str) -> None:
    """Each option for settings is in the shipped file, and nothing else."""
    text = (shipped_folder(".") / "trnfleet.toml").read_text(encoding="utf-8")
    tables = {
        table: set(re.findall(r"^(?:# )?([a-z-]+) = ", body, re.MULTILINE))
        for table, body in re.findall(
            r"^\[([a-z]+)\][^\n]*\n(.*?)(?=^\[|\Z)", text, re.MULTILINE | re.DOTALL
        )
    }
    settings = {
        key
        for command in leaves(name)
        for key, each in options_of(command).items()
        if isinstance(each, click.Option) and each.envvar
    }
    assert settings <= tables.get(name, set()) | tables["common"]
    assert tables.get(name, set()) <= keys_of(name)


def test_an_option_that_may_be_repeated_takes_one_value_or_a_list(tmp_path: Path) -> None:
    """One broker for all commands is valid for `status`, too.

    A list is refused if a command accepts only one.
    """
    for value, several in (('"mqtt://b1"', 1), ('["mqtt://b1", "mqtt://b2"]', 2)):
        file = tmp_path / f"{several}.toml"
        file.write_text(f"[common]\nbroker = {value}\n")
        ctx = load_command("status").make_context("status", ["--config", str(file)])
        assert [str(each) for each in ctx.params["broker"]] == ["mqtt://b1:1883", "mqtt://b2:1883"][
            :several
        ]
    with pytest.raises(
        click.UsageError, match=r"\[common\] broker: watch takes one broker; choose one with"
    ):
        load_command("watch").make_context("watch", ["--config", str(tmp_path / "2.toml")])
