"""Findings of `trnfleet doctor` about a machine."""

from __future__ import annotations

import os
import shutil
import tomllib
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from support.paths import ROOT

from trnfleet.services.doctor import machine
from trnfleet.services.doctor.findings import Finding, Health, took

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

VERSIONS: dict[str, Any] = {
    "version": "1.2.3",
    "python": "3.11.7",
    "platform": "Linux",
    "dependencies": {"numpy": "2.4", "boto3": None},
}


def by_name(findings: Iterable[Finding]) -> dict[str, Finding]:
    return {each.name: each for each in findings}


def test_a_library_that_is_missing_is_a_problem_but_for_those_of_extras() -> None:
    found = by_name(machine.software(VERSIONS, agent=False))
    assert (found["libraries"].health, found["libraries"].value) == (Health.OK, "numpy 2.4")
    assert found["boto3"].health is Health.OK
    lacking = {**VERSIONS, "dependencies": {"numpy": None}}
    assert by_name(machine.software(lacking, agent=False))["libraries"][2:4] == (
        Health.PROBLEM,
        "missing: numpy",
    )


def test_an_agent_needs_only_the_packages_of_its_lock() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert set(groups["dependency-groups"]["agent"]) == machine.AGENT_PACKAGES
    lacking = {**VERSIONS, "dependencies": {"numpy": "2.4", "textual": None}}
    assert by_name(machine.software(lacking, agent=True))["libraries"].health is Health.OK
    lacking = {**VERSIONS, "dependencies": {"h2": None, "textual": None}}
    assert by_name(machine.software(lacking, agent=True))["libraries"].value == "missing: h2"


@pytest.mark.parametrize(
    ("variables", "name", "health", "value"),
    [
        ({"TERM": "xterm-256color"}, "colours", Health.OK, "256"),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, "colours", Health.OK, "16 million"),
        ({"TERM": "xterm", "NO_COLOR": "1"}, "colours", Health.OK, "none, for NO_COLOR is set"),
        ({"TERM": "xterm"}, "colours", Health.WARNING, "16"),
        ({"TERM": "dumb"}, "TERM", Health.WARNING, "dumb"),
        ({}, "TERM", Health.WARNING, "not set"),
    ],
)
def test_what_a_terminal_can_do_is_read_off_its_variables(
    variables: dict[str, str], name: str, health: Health, value: str
) -> None:
    found = by_name(machine.terminal(variables))[name]
    assert (found.health, found.value) == (health, value)
    assert bool(found.advice) == (health is not Health.OK)


def test_a_small_terminal_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_is_terminal", lambda _stream: True)
    for lines, health in ((24, Health.OK), (23, Health.WARNING)):
        monkeypatch.setattr(
            shutil, "get_terminal_size", lambda *_, lines=lines, **__: os.terminal_size((80, lines))
        )
        assert by_name(machine.terminal({"TERM": "xterm"}))["size"][2:4] == (health, f"80x{lines}")


def test_an_encoding_other_than_utf_8_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("locale.getpreferredencoding", lambda do_setlocale: "ANSI_X3.4-1968")  # noqa: ARG005  its argument
    assert by_name(machine.terminal({}))["encoding"].health is Health.WARNING


def test_programs_that_are_not_there_say_what_is_used_instead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "mosquitto_program", lambda: None)
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    found = by_name(machine.programs())
    assert found["mosquitto"].health is Health.WARNING
    assert "NATS Server" in found["mosquitto"].advice
    assert found["openssl"][2:4] == (Health.OK, "not installed")


class Disk(NamedTuple):
    """What `shutil.disk_usage` returns."""

    total: int
    used: int
    free: int


def test_folders_are_named_with_the_room_that_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A nearly full disk and a substitute folder are warnings."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: Disk(2**40, 0, 2**29))
    found = by_name(machine.own_folders())
    assert found["state"][2:4] == (Health.OK, f"{tmp_path}/state/trnfleet, 512 MiB free")
    assert found["cache"].health is Health.WARNING
    assert "/dev/null" in found["cache"].advice
    assert found["temporary"].health is Health.WARNING
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert by_name(machine.own_folders())["cache"].advice.startswith(
        "make room: it is for the app's past"
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.000_43, "0.43 ms"), (0.012, "12 ms"), (0.45, "450 ms"), (1.23, "1.2 s")],
)
def test_short_times_have_two_digits(seconds: float, text: str) -> None:
    assert took(seconds) == text
