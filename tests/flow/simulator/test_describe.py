from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support.paths import CONFIG
from support.processes.forked import ForkedCommands
from support.processes.programs import run

if TYPE_CHECKING:
    from pathlib import Path


def described(file: str) -> dict[str, Any]:
    result = run("fleet", "describe", file, "--json")
    assert result.returncode == 0, result.stderr
    facts: dict[str, Any] = json.loads(result.stdout)
    return facts


def test_the_demo() -> None:
    """The demo's totals are those of its hardware."""
    facts = described("demo")
    assert (facts["chips"], facts["instances"], facts["ultraservers"]) == (192, 12, 2)
    assert (facts["torus_links"], facts["z_links"]) == (12 * 32, 2 * 64)


def test_one_ultraserver(tmp_path: Path) -> None:
    """One UltraServer has the published totals."""
    file = tmp_path / "one.toml"
    file.write_text('name = "one"\n[[clusters]]\nname = "uc1"\nultraservers = [{ count = 1 }]\n')
    facts = described(str(file))
    assert facts["chips"] == 64
    assert facts["neuroncores"] == 512
    assert facts["hbm_bytes"] == 6 * 2**40
    assert facts["hbm_bytes_per_s"] == pytest.approx(185.6e12)
    assert facts["fp8_dense_flops"] == pytest.approx(83.2e15, rel=0.01)
    assert facts["bf16_dense_flops"] == pytest.approx(42.7e15, rel=0.01)
    assert (facts["torus_links"], facts["z_links"]) == (128, 64)


@pytest.mark.parametrize(
    ("name", "chips"),
    [("lab", 1), ("trn3", 208), ("mixed", 179), ("cluster-10k", 10_240), ("rainier-1m", 1_000_000)],
)
def test_shipped_fleets(name: str, chips: int) -> None:
    """Shipped fleets have the size in their names."""
    assert described(name)["chips"] == chips


def test_efa_is_that_of_the_types_that_have_it() -> None:
    """EFA is counted only for types with it; Inf2 has a network but no EFA.

    2 x 800 Gb/s of trn1, 200 of trn2.3xlarge, and 12.8 Tb/s of each UltraServer.
    """
    facts = described("mixed")
    assert facts["efa_bytes_per_s"] * 8 == pytest.approx(27.4e12)
    assert facts["network_bytes_per_s"] * 8 == pytest.approx(27.4e12 + 150e9)
    assert (
        "27.4 Tb/s, and 150.0 Gb/s of network without it"
        in run("fleet", "describe", "mixed").stdout
    )


def test_text_is_for_people() -> None:
    """Without --json it reads well."""
    assert "192" in run("fleet", "describe", "demo").stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fleet", "describe", "dmeo"], "did you mean 'demo'"),
        (["fleet", "describe", "none.toml"], "no such file"),
        (["simulat"], "did you mean 'simulate'"),
        (["simulate"], "--broker URL, --stdout or --record FILE"),
        (["simulate", "--stdout", "--period", "soon"], "is not a duration"),
        (["simulate", "--stdout", "--fleet", "demo", "--name", "a/b"], "--name"),
        (["status", "--broker", "http://x"], "is not MQTT"),
        (["status", "--broker", "mqtt://me:hunter2@host"], "TRNFLEET_MQTT_PASSWORD"),
        (["status", "--broker", "mqtt://h", "--root", "a/#"], "--root"),
        (["status", "--broker", "mqtt://h", "--wait", "-1s"], "is not a duration"),
    ],
)
def test_wrong_use_is_explained(arguments: list[str], said: str) -> None:
    """Wrong use exits with 2 and the remedy.

    A URL's password is never repeated.
    """
    result = run(*arguments)
    assert result.returncode == 2, result.stdout
    assert said in result.stderr
    assert "hunter2" not in result.stderr
    assert "Traceback" not in result.stderr


def test_settings_come_from_file_and_environment(tmp_path: Path) -> None:
    """A settings file gives defaults, a variable goes before it, the command line before both."""
    file = tmp_path / "settings.toml"
    file.write_text("[common]\nlog-level = 'error'\n[simulate]\nticks = 2\nfleet = 'lab'\n")
    lab = 2
    assert len(run("simulate", "--stdout", "--config", str(file)).stdout.splitlines()) == 2 * lab
    assert (
        len(
            run(
                "simulate", "--stdout", TRNFLEET_CONFIG=str(file), TRNFLEET_TICKS="3"
            ).stdout.splitlines()
        )
        == 3 * lab
    )
    line = run(
        "simulate", "--stdout", "--ticks", "1", TRNFLEET_CONFIG=str(file), TRNFLEET_TICKS="3"
    )
    assert len(line.stdout.splitlines()) == lab
    file.write_text("[simulate]\ntikcs = 2\n")
    wrong = run("simulate", "--stdout", "--config", str(file))
    assert wrong.returncode == 2
    assert "did you mean 'ticks'" in wrong.stderr
    file.write_text("[simulat]\nticks = 2\n")
    assert "did you mean 'simulate'" in run("simulate", "--stdout", "--config", str(file)).stderr


def test_help_is_there_for_every_command() -> None:
    """Each command explains itself, with an example."""
    for command in ("demo", "monitor", "simulate", "status", "broker"):
        result = run(command, "--help")
        assert result.returncode == 0
        assert "Example" in result.stdout, command
    assert "Exit status" in run("--help").stdout
    assert run("--version").stdout.startswith("trnfleet, version")


def test_hardware_is_refused_with_the_command_that_has_it() -> None:
    result = run("fleet", "describe", "trn2-ultraserver")
    assert result.returncode == 2
    assert (
        result.stderr.strip()
        == "trnfleet: 'trn2-ultraserver' is hardware, not a fleet: see trnfleet fleet compare"
        " trn2-ultraserver"
    )


def test_a_check_takes_no_memory_for_chips(tmp_path: Path) -> None:
    """A check of a million chips takes at most 100 MB more than of one.

    The columns alone would take 80 MB.
    """
    with ForkedCommands(tmp_path) as forked:
        for name in ("lab", "rainier-1m"):
            forked.start(name, "check", str(CONFIG / "fleets" / f"{name}.toml"))
        ended = forked.wait()
    assert [each.status for each in ended.values()] == [0, 0]
    assert "1,000,000 chips" in ended["rainier-1m"].output
    assert ended["rainier-1m"].peak_mb - ended["lab"].peak_mb < 100
