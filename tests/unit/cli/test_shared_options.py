"""Options that several commands share: topic filters, and the name of whoever runs a command."""

from __future__ import annotations

import getpass

import click
import pytest
from click.testing import CliRunner

from trnfleet.cli.main import cli
from trnfleet.cli.options import LONGEST_USER, TopicFilter, user_name


@pytest.mark.parametrize("text", ["#", "a/+/b", "a/#", "a"])
def test_a_topic_filter_is_taken_as_it_is(text: str) -> None:
    assert TopicFilter().convert(text, None, None) == text


@pytest.mark.parametrize("text", ["", "a/#/b", "a+/b", "a/b#"])
def test_what_is_no_topic_filter_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match=f"'{text}' is not a topic filter".replace("+", r"\+")):
        TopicFilter().convert(text, None, None)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("ops", "ops"),
        ("o.p-s_1@lab", "o.p-s_1@lab"),
        ("a\x1b[2J\u202eb\n\udcff", "a2Jb"),
        ("x" * 200, "x" * LONGEST_USER),
        ("\x1b", "nobody"),
    ],
)
def test_a_users_name_goes_out_without_what_a_terminal_could_act_upon(
    given: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes from the environment, and stands in the simulator's log and in everybody's alerts."""
    monkeypatch.setenv("LOGNAME", given)
    assert user_name("nobody") == name


@pytest.mark.parametrize("error", [OSError, KeyError])
def test_where_the_system_knows_no_name_there_is_the_default(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def getuser() -> str:
        raise error

    monkeypatch.setattr(getpass, "getuser", getuser)
    assert user_name("") == ""
    assert user_name("somebody") == "somebody"


@pytest.mark.parametrize("command", ["simulate", "demo"])
@pytest.mark.parametrize("speed", ["0", "1e-9", "2e6", "nan"])
def test_a_speed_is_one_that_readers_take(command: str, speed: str) -> None:
    """What a descriptor may not say is refused where it is asked for, with the limits."""
    ended = CliRunner().invoke(cli, [command, "--speed", speed])
    assert ended.exit_code == 2
    assert "is not at least 1e-06 and at most 1,000,000" in ended.output
