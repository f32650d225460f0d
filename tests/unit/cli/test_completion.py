"""Completion as a shell asks for it: click's environment, a process of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.processes.programs import run

from trnfleet.cli.command_table import COMMANDS
from trnfleet.domain.faults.table import FAULTS

if TYPE_CHECKING:
    from pathlib import Path


def completed(*words: str, **variables: Any) -> list[str]:
    """Return bash's completions for the last word of a `trnfleet` line."""
    line = " ".join(("trnfleet", *words))
    result = run(
        _TRNFLEET_COMPLETE="bash_complete", COMP_WORDS=line, COMP_CWORD=str(len(words)), **variables
    )
    assert (result.returncode, result.stderr) == (0, ""), result.stderr
    return [offered.partition(",")[2] for offered in result.stdout.split()]


def test_an_empty_word_gives_every_command() -> None:
    """Without a beginning, all commands are offered, in the order of `--help`."""
    assert completed("") == list(COMMANDS)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("mon",), ["monitor"]),
        (("re",), ["record", "replay", "reserve", "relay"]),
        (("nothing",), []),
        (("nothing", "--unknown"), []),
        (("monitor", "--b"), ["--broker", "--bell"]),
        (("inject", "link_"), ["link_degraded", "link_down"]),
        (("simulate", "--fleet", "d"), ["demo"]),
        (("simulate", "--scenario", "ecc"), ["ecc-storm"]),
        (("monitor", "--rules", "j"), ["jobs"]),
        (("monitor", "--theme", "m"), ["monochrome"]),
        (("monitor", "--name", "la"), ["lab"]),
        (("simulate", "--client-id", ""), []),
        (("simulate", "--include", "jobs,e"), ["jobs,events"]),
        (("reserve", "buy", "--instance-type", "trn2u"), ["trn2u.48xlarge"]),
        (("fleet", "compare", "trn2.3"), ["trn2.3xlarge"]),
        (("config", "print", "silence", "l"), ["list"]),
        (("config", "print", "--profile", ""), []),
        (("completion", ""), ["bash", "zsh", "fish"]),
        (("inject", "transport_drop", ""), ["*"]),
        (
            ("inject", "straggler", "uc1/us-0001/trn2u-0001-2/chip1"),
            [f"uc1/us-0001/trn2u-0001-2/chip{n}" for n in range(10, 16)],
        ),
        (
            ("inject", "--name", "cluster-10k", "straggler", "uc1/us-0150/"),
            [
                f"uc1/us-0150/trn2u-0150-{host}/chip{chip:02d}"
                for host in range(4)
                for chip in range(16)
            ],
        ),
        (("inject", "--name", "nobodys", "straggler", ""), []),
    ],
)
def test_a_beginning_is_completed(words: tuple[str, ...], expected: list[str]) -> None:
    """Commands, options and named values are completed.

    A wrong command returns nothing, without a message.
    """
    assert completed(*words) == expected


def test_addresses_come_from_the_level_of_which_there_are_not_too_many() -> None:
    """For 10,240 chips all UltraServers are offered first, to complete their common beginning."""
    offered = completed("inject", "--name", "cluster-10k", "straggler", "")
    assert (len(offered), offered[0], offered[-1]) == (160, "uc1/us-0001", "uc1/us-0160")


def test_profiles_come_from_the_settings_files(tmp_path: Path) -> None:
    """Profiles come from the files of the line or a variable.

    An invalid file has none, without a message.
    """
    file = tmp_path / "mine.toml"
    file.write_text("[profile.prod]\n[profile.lab]\n")
    assert completed("status", "--config", str(file), "--profile", "") == ["lab", "prod"]
    assert completed("status", "--profile", "p", TRNFLEET_CONFIG=str(file)) == ["prod"]
    file.write_text("[profile")
    assert completed("status", "--profile", "", TRNFLEET_CONFIG=str(file)) == []


@pytest.mark.parametrize(
    ("shell", "variables", "said"),
    [
        (
            "zsh",
            {"COMP_WORDS": "trnfleet simulate --fleet d", "COMP_CWORD": "3"},
            "plain\ndemo\n_\n",
        ),
        ("zsh", {"COMP_WORDS": "trnfleet info n", "COMP_CWORD": "2"}, "file\nn\n_\n"),
        (
            "fish",
            {"COMP_WORDS": "trnfleet mon", "COMP_CWORD": "mon"},
            "plain,monitor\tWatch the fleets of a broker in the app.\n",
        ),
    ],
)
def test_other_shells_ask_in_their_own_way(
    shell: str, variables: dict[str, Any], said: str
) -> None:
    """Files are left to the shell."""
    result = run(_TRNFLEET_COMPLETE=f"{shell}_complete", **variables)
    assert (result.returncode, result.stdout) == (0, said)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_asks_the_program(shell: str) -> None:
    """The script sets click's completion variable."""
    result = run("completion", shell)
    assert result.returncode == 0
    assert f"_TRNFLEET_COMPLETE={shell}_complete" in result.stdout


def test_a_fault_is_asked_for_first() -> None:
    """`trnfleet inject` offers every fault."""
    assert completed("inject", "") == list(FAULTS)


def test_options_without_a_command_are_the_demos() -> None:
    """Options of `trnfleet` itself are offered once, with the demo's options."""
    assert completed("--fleet") == ["--fleet"]
    offered = completed("--")
    assert {"--version", "--help", "--seed"} <= set(offered)
    assert len(set(offered)) == len(offered)
    assert completed("--fleet", "demo", "--see") == ["--seed"]
