"""Containerfile and compose file, checked without a container engine."""

from __future__ import annotations

import re
import subprocess

import pytest
from support.documents import ROOT

from trnfleet.cli.command_table import load_command

FOLDER = ROOT / "config" / "container"
CONTAINERFILE = (FOLDER / "Containerfile").read_text(encoding="utf-8")
COMPOSE = (FOLDER / "compose.yaml").read_text(encoding="utf-8")


def test_everything_that_is_copied_is_there() -> None:
    sources = re.findall(r"^COPY (?!--from)(.+) \S+$", CONTAINERFILE, re.MULTILINE)
    names = [name for line in sources for name in line.split()]
    assert {
        "trnfleet",
        "config",
        "docs/man",
        "pyproject.toml",
        "config/agent/requirements.txt",
    } <= set(names)
    assert [name for name in names if not (ROOT / name).exists()] == []


def test_images_are_named_without_a_registry() -> None:
    """The engine decides where they come from."""
    images = re.findall(r"^ARG BASE=(\S+)$", CONTAINERFILE, re.MULTILINE)
    images += re.findall(r"^ +image: (\S+)$", COMPOSE, re.MULTILINE)
    assert len(images) == 3
    assert [image for image in images if "/" in image] == []


def test_nothing_runs_as_root() -> None:
    """Both images are made of the stage with a user."""
    stages = re.split(r"^FROM ", CONTAINERFILE, flags=re.MULTILINE)[1:]
    users = [stage.partition("\n")[0] for stage in stages if "USER 65532:65532" in stage]
    assert users == ["${BASE} AS base"]
    assert [stage.split()[0] for stage in stages[-2:]] == ["base", "base"]
    assert stages[-2].startswith("base AS agent\nCOPY --from=build-agent ")


def test_the_services_are_commands_with_their_variables() -> None:
    found = re.findall(
        r'command: \["(\w+)"\]\n +environment:\n((?: +TRNFLEET_\w+: .+\n)+)', COMPOSE
    )
    assert [command for command, _ in found] == ["simulate", "watch", "monitor"]
    for command, variables in found:
        known = {each.envvar for each in load_command(command).params}
        assert set(re.findall(r"TRNFLEET_\w+", variables)) <= known


@pytest.mark.parametrize(("status", "healthy"), [(0, True), (1, False), (2, False), (3, True)])
def test_a_container_is_healthy_while_its_fleet_can_be_heard(status: int, *, healthy: bool) -> None:
    """A container is healthy with an unhealthy fleet, but not without a broker."""
    found = re.search(r"^ +CMD (test -z .+)$", CONTAINERFILE, re.MULTILINE)
    assert found is not None
    shell = f"trnfleet() {{ return {status}; }}\n{found[1]}"
    with_broker = subprocess.run(["sh", "-c", shell], env={"TRNFLEET_BROKER": "x"}, check=False)
    assert (with_broker.returncode == 0) is healthy
    assert subprocess.run(["sh", "-c", shell], env={}, check=False).returncode == 0
