"""A run from fleet file, scenario and options."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from trnfleet.cli.commands import simulate
from trnfleet.cli.run_options import RunOptions
from trnfleet.config import shipped_names
from trnfleet.domain.fleet import Rates
from trnfleet.errors import ConfigError
from trnfleet.services.simulator.run import Run, load_run

if TYPE_CHECKING:
    from pathlib import Path

FLEET = """
name = "f"
clusters = [{{ name = "c", ultraservers = [{{ count = 1 }}] }}]
{}
"""
NONE = Rates(acceleration=0.0)


def load(
    tmp_path: Path, fleet: str, scenario: str | None, *given: str, random_faults: bool | None
) -> Run:
    (tmp_path / "fleet.toml").write_text(FLEET.format(fleet))
    if scenario is not None:
        (tmp_path / "scenario.toml").write_text(scenario)
    return load_run(
        {"fleet", *given},
        fleet=str(tmp_path / "fleet.toml"),
        scenario=None if scenario is None else str(tmp_path / "scenario.toml"),
        seed=7,
        period_s=1.0,
        speed=1.0,
        start=None,
        random_faults=random_faults,
    )


@pytest.mark.parametrize(
    ("fleet", "random_faults", "rates"),
    [
        ("", None, None),
        ("", True, Rates()),
        ("", False, NONE),
        ("rates = { acceleration = 5.0 }", None, Rates(acceleration=5.0)),
        ("rates = { acceleration = 5.0 }", True, Rates(acceleration=5.0)),
        ("rates = { acceleration = 5.0 }", False, NONE),
        ("rates = { acceleration = 0.0 }", True, Rates()),
    ],
)
def test_the_option_turns_faults_at_random_on_or_off(
    tmp_path: Path, fleet: str, random_faults: bool | None, rates: Rates | None
) -> None:
    """On uses the file's rates, or the published ones; off overrides the file.

    Without the option the file decides.
    """
    assert load(tmp_path, fleet, None, random_faults=random_faults).fleet.rates == rates


@pytest.mark.parametrize(
    ("scenario", "given", "random_faults", "rates"),
    [
        ("", (), False, None),
        ("", ("random_faults",), False, NONE),
        ("", ("random_faults",), True, Rates()),
        ("rates = { acceleration = 9.0 }", (), False, Rates(acceleration=9.0)),
        ("rates = { acceleration = 9.0 }", ("random_faults",), False, NONE),
        ("rates = { acceleration = 9.0 }", ("random_faults",), True, Rates(acceleration=9.0)),
    ],
)
def test_a_scenario_decides_unless_the_command_line_does(
    tmp_path: Path, scenario: str, given: tuple[str, ...], random_faults: bool, rates: Rates | None
) -> None:
    """A settings file's option does not count, as the fleet's name and the seed do."""
    run = load(tmp_path, "", scenario, *given, random_faults=random_faults)
    assert run.scenario is not None
    assert run.scenario.rates == rates


@pytest.mark.parametrize(
    ("scenario", "random_faults", "given", "expected"),
    [
        (None, None, (), []),
        (None, False, (), ["--no-random-faults"]),
        (None, True, (), ["--random-faults"]),
        ("game-day", True, (), []),
        ("game-day", True, ("random_faults",), ["--random-faults"]),
    ],
)
def test_the_demos_simulator_gets_the_option(
    scenario: str | None, random_faults: bool | None, given: tuple[str, ...], expected: list[str]
) -> None:
    """Only where it decides."""
    run = RunOptions("demo", scenario, 7, 1.0, 1.0, None, random_faults, frozenset(given))
    assert [each for each in run.arguments() if "random" in each] == expected


def test_random_faults_begin_with_the_option(tmp_path: Path) -> None:
    """A small fleet has none by itself, and with the option those of its file."""
    (tmp_path / "fleet.toml").write_text(FLEET.format("rates = { acceleration = 200000.0 }"))
    common = [
        "--stdout",
        "--fleet",
        str(tmp_path / "fleet.toml"),
        "--ticks",
        "60",
        "--include",
        "events",
    ]
    on, off = (
        CliRunner().invoke(simulate.command, [*common, *more], catch_exceptions=False).stdout
        for more in (["--random-faults"], ["--no-random-faults"])
    )
    assert "EC2 status" in on
    assert off == ""


def options(fleet: str, scenario: str | None = None) -> RunOptions:
    return RunOptions(
        fleet, scenario, 1, 1.0, 1.0, None, random_faults=None, given=frozenset({"fleet"})
    )


@pytest.mark.parametrize("fleet", shipped_names("fleets"))
def test_the_head_of_a_shipped_fleet_is_that_of_its_file(fleet: str) -> None:
    """The app of the demo reads no more of it, and shows the same."""
    whole = options(fleet).load().fleet
    assert options(fleet).head() == (whole.name, whole.pue, (*whole.power_caps_w.items(),))


def test_a_fleet_of_ones_own_is_validated_for_its_head(tmp_path: Path) -> None:
    """What is wrong in it is told before the app begins, as is a scenario's."""
    file = tmp_path / "own.toml"
    file.write_text(FLEET.format("pue = 1.5\npower_caps_w = { fleet = 9_000 }"))
    assert options(str(file)).head() == ("f", 1.5, (("fleet", 9_000.0),))
    file.write_text(FLEET.format("pue = 1.5\nperiod = 1"))
    with pytest.raises(ConfigError, match="period"):
        options(str(file)).head()
    with pytest.raises(ConfigError, match="no file in scenarios"):
        options("demo", "gameday").head()
    with pytest.raises(ConfigError, match="no file in fleets"):
        options("dmo").head()
