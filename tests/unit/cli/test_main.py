"""Errors at the end of the command line."""

from __future__ import annotations

import errno
import json
import os
from typing import TYPE_CHECKING, Any

import click
import pytest

from trnfleet.cli import main
from trnfleet.errors import BrokerError, CloudError, ConfigError, NotConfirmedError, TrnfleetError

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.mark.parametrize(
    ("file", "named"), [("/run/some\x1b[2Jwhere", "/run/some\\u001b[2Jwhere: "), (None, "")]
)
def test_an_error_of_the_system_names_its_file(
    file: str | None,
    named: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The line has the file, as plain text, and the reason."""

    def fail(**_options: Any) -> None:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), file)

    monkeypatch.setattr(main.cli, "main", fail)
    assert main.run(["status"]) == 1
    assert capsys.readouterr().err == f"trnfleet: {named}Permission denied\n"


def commands_with_json(
    group: click.Group, words: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    """Yield the words of each command with --json."""
    with click.Context(group) as context:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            if isinstance(command, click.Group):
                yield from commands_with_json(command, (*words, name))
            elif command is not None and any("--json" in each.opts for each in command.params):
                yield (*words, name)


@pytest.mark.parametrize("words", list(commands_with_json(main.cli)), ids=" ".join)
def test_wrong_use_with_json_is_json(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """With --json each command writes one line to stderr and none to stdout.

    The status is 2 as without it.
    """
    wrong = [*words, "--no-such-option"]
    assert main.run(wrong) == 2
    assert capsys.readouterr().err.startswith("Usage: ")
    assert main.run([*wrong, "--json"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    found = json.loads(line)
    assert found["v"] == 1
    assert (found["error"]["kind"], found["error"]["status"]) == ("usage", 2)
    assert "--no-such-option" in found["error"]["message"]


@pytest.mark.parametrize(
    ("error", "kind", "status"),
    [
        (ConfigError("no\x1b file\nsecond line"), "config", 2),
        (BrokerError("no connection"), "broker", 1),
        (NotConfirmedError("sent"), "not-confirmed", 4),
        (CloudError("denied"), "cloud", 1),
        (TrnfleetError("no"), "failed", 1),
        (OSError(errno.EACCES, "Permission denied", "f"), "system", 1),
        (click.BadParameter("not a number"), "usage", 2),
    ],
)
def test_an_error_has_its_kind_and_status(
    error: Exception,
    kind: str,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Status and words of the message are the same with and without --json."""

    def fail(**_options: Any) -> None:
        raise error

    monkeypatch.setattr(main.cli, "main", fail)
    assert main.run(["status"]) == status
    text = capsys.readouterr().err
    assert main.run(["status", "--json"]) == status
    found = json.loads(capsys.readouterr().err)["error"]
    assert (found["kind"], found["status"]) == (kind, status)
    assert found["message"] in text
    assert main.run(["check", "--", "--json"]) == status
    assert capsys.readouterr().err == text
