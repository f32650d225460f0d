"""`trnfleet --version`, as a line and as JSON."""

from __future__ import annotations

import json
from importlib import metadata

import pytest

from trnfleet import __version__
from trnfleet.cli.main import run
from trnfleet.record.format.schema import SCHEMA


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
