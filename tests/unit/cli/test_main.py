"""Errors at the end of the command line."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from importlib import metadata
from typing import TYPE_CHECKING, Any

import click
import pytest

from trnfleet import __version__
from trnfleet.cli import main
from trnfleet.cli.main import run
from trnfleet.errors import BrokerError, CloudError, ConfigError, NotConfirmedError, TrnfleetError
from trnfleet.record.format.schema import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.mark.parametrize("arguments", [["--version", "--json"], ["--json", "--version"]])
def test_the_versions_of_all_that_matters_are_json(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert run(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["version"], found["wire"], found["recording"]) == (__version__, "v1", SCHEMA)
    assert found["dependencies"]["numpy"] == metadata.version("numpy")


def test_without_json_it_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"trnfleet, version {__version__}\n"


def test_a_dependency_that_is_not_installed_has_no_version(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Missing extras, or an uninstalled tree, have no versions."""
    monkeypatch.setattr(
        metadata, "requires", lambda _: ["numpy>=2", "not-there>=1; extra == 'aws'"]
    )
    assert run(["--version", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["dependencies"] == {
        "not-there": None,
        "numpy": metadata.version("numpy"),
    }

    def uninstalled(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", uninstalled)
    assert run(["--version", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["dependencies"] == {}


def test_json_alone_is_an_unknown_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--json"]) == 2
    assert "--json" in capsys.readouterr().err


PARTS = {
    "numbers": ("numpy", "pydantic"),
    "broker": ("aiomqtt", "paho", "mqtt5", "cbor2", "re2"),
    "recordings": ("mcap", "zstandard", "lz4"),
    "receivers": ("httpx", "httpcore"),
    "the app": ("textual",),
    "never": ("websockets", "boto3", "botocore"),
}
NOWHERE = ("--broker", "mqtt://127.0.0.1:1", "--log-level", "error")
CODE = """
import json, sys
from trnfleet.cli.main import run
for step in json.loads(sys.argv[1]):
    run(step)
    print("\\nLOADED", *{name.partition(".")[0] for name in list(sys.modules)})
"""


def test_a_command_loads_only_the_packages_that_it_uses(tmp_path: Path) -> None:
    """Commands run in turn in one interpreter, so each adds to the packages already loaded."""
    allowed: set[str] = set()
    steps: list[tuple[list[str], str]] = [
        (["--version"], ""),
        (["--help"], ""),
        (["simulate", "--help"], ""),
        (["simulate", "--stdout", "--ticks", "1"], "numbers"),
        (["status", *NOWHERE], "broker"),
        (["watch", *NOWHERE, "--stdout"], "broker"),
        (["record", str(tmp_path / "a.mcap"), *NOWHERE], "recordings"),
        (["watch", *NOWHERE, "--webhook", "http://127.0.0.1:1"], "receivers"),
    ]
    code = [sys.executable, "-c", CODE, json.dumps([arguments for arguments, _ in steps])]
    output = subprocess.run(code, capture_output=True, text=True, check=True).stdout
    loaded = [set(line.split()[1:]) for line in output.splitlines() if line.startswith("LOADED ")]
    for (arguments, part), found in zip(steps, loaded, strict=True):
        allowed |= set(PARTS.get(part, ()))
        others = {name for names in PARTS.values() for name in names} - allowed
        assert found & others == set(), " ".join(arguments)
    assert set(PARTS["numbers"] + PARTS["broker"] + PARTS["recordings"]) <= loaded[-1]


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


def test_a_package_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The environment of an agent lacks those of other commands; a module of ours is a bug."""
    for name in ("re2", "trnfleet.gone"):

        def fail(*, name: str = name, **_options: Any) -> None:
            raise ModuleNotFoundError(name=name)

        monkeypatch.setattr(main.cli, "main", fail)
        if name == "re2":
            assert main.run(["status"]) == 1
        else:
            with pytest.raises(ModuleNotFoundError):
                main.run(["status"])
    assert capsys.readouterr().err == (
        "trnfleet: re2 is not installed: install trnfleet with all its dependencies\n"
    )


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
