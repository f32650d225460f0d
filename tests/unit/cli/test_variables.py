"""Variables of the environment that are no setting's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trnfleet.cli.command_table import COMMANDS
from trnfleet.cli.main import run, unknown_variables
from trnfleet.cli.settings.keys import leaves

if TYPE_CHECKING:
    import pytest


def test_a_misspelt_variable_is_named_with_the_nearest() -> None:
    """A variable without an option is named.

    Passwords, and variables of other programs and of alerts, are not.
    """
    right = (
        "TRNFLEET_BROKER",
        "TRNFLEET_RANDOM_FAULTS",
        "TRNFLEET_MQTT_PASSWORD",
        "TRNFLEET_ALERT_STATE",
    )
    assert list(unknown_variables((*right, "HOME"))) == []
    assert list(unknown_variables((*right, "TRNFLEET_BROKR", "TRNFLEET_XYZZY"))) == [
        "TRNFLEET_BROKR is ignored: did you mean TRNFLEET_BROKER?",
        "TRNFLEET_XYZZY is ignored: no option has this variable",
    ]


def test_every_option_with_a_variable_is_known() -> None:
    """No variable of any option is taken for an unknown one."""
    variables = {
        str(option.envvar)
        for name in COMMANDS
        for command in leaves(name)
        for option in command.params
        if isinstance(option, click.Option) and option.envvar
    }
    assert len(variables) > 50
    assert list(unknown_variables(variables)) == []


def test_it_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command runs, with a line on stderr before it."""
    monkeypatch.setenv("TRNFLEET_FLET", "demo")
    assert run(["inject", "--list"]) == 0
    assert (
        capsys.readouterr().err
        == "trnfleet: TRNFLEET_FLET is ignored: did you mean TRNFLEET_FLEET?\n"
    )
