"""`trnfleet job` before it connects: what is wrong is named."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from trnfleet.cli.commands import job
from trnfleet.errors import ConfigError

BROKER = ("--broker", "mqtt://127.0.0.1:1")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("a",), "name the fleet with --name"),
        (("", "--name", "x"), "NAME is empty"),
        (("a", "--name", "x", "--on", "uc1/b/c/chip00"), "down to an instance"),
        (("a", "--name", "x", "--on", "uc1/b..uc1/c"), "such as uc1/us-0001..us-0008"),
        (("a", "--name", "x", "--on", "uc1//b"), "segment ''"),
        (("a", "--name", "x", "--mfu", "inf"), "--mfu inf is not a number"),
        (("a", "--name", "x", "--end", "--state", "failed"), "--end goes with neither"),
        (("a", "--name", "x", "--clear", "--step", "1"), "--clear goes with nothing"),
    ],
)
def test_wrong_use_is_named(arguments: tuple[str, ...], said: str) -> None:
    result = CliRunner().invoke(job.command, [*arguments, *BROKER])
    assert (result.exit_code, said in result.stderr) == (2, True), result.stderr


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [("--mfu", "-1", "mfu: must be at least 0"), ("--state", "So so", "state: must match")],
)
def test_values_that_the_message_cannot_have_are_named(option: str, value: str, said: str) -> None:
    result = CliRunner().invoke(job.command, ["a", "--name", "x", option, value, *BROKER])
    assert isinstance(result.exception, ConfigError)
    assert said in str(result.exception)
