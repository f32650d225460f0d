"""Completion as a shell asks for it: click's environment, a process of its own."""

from __future__ import annotations

import pytest
from support.processes.programs import run

from trnfleet.cli.command_table import COMMANDS
from trnfleet.domain.faults import FAULTS


def completed(*words: str) -> list[str]:
    """Return what bash is offered for the last of the words of a line that begins with `trnfleet`."""
    line = " ".join(("trnfleet", *words))
    result = run(_TRNFLEET_COMPLETE="bash_complete", COMP_WORDS=line, COMP_CWORD=str(len(words)))
    assert (result.returncode, result.stderr) == (0, ""), result.stderr
    return [offered.partition(",")[2] for offered in result.stdout.split()]


def test_an_empty_word_gives_every_command() -> None:
    """Without a beginning, all commands are offered, in the order of `--help`."""
    assert completed("") == list(COMMANDS)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("mon",), ["monitor"]),
        (("re",), ["record", "replay", "reserve"]),
        (("nothing",), []),
        (("nothing", "--unknown"), []),
        (("monitor", "--b"), ["--broker", "--bell"]),
        (("inject", "link_"), ["link_degraded", "link_down"]),
        (("inject", "link_down", ""), []),
    ],
)
def test_a_beginning_is_completed(words: tuple[str, ...], expected: list[str]) -> None:
    """Commands, a command's options and the names of faults; a wrong command gives nothing, and no message."""
    assert completed(*words) == expected


def test_a_fault_is_asked_for_first() -> None:
    """`trnfleet inject` offers every fault."""
    assert completed("inject", "") == list(FAULTS)


def test_options_without_a_command_are_the_demos() -> None:
    """What `trnfleet` takes by itself is offered once, with the demo's options."""
    assert completed("--fleet") == ["--fleet"]
    offered = completed("--")
    assert {"--version", "--help", "--seed"} <= set(offered)
    assert len(set(offered)) == len(offered)
    assert completed("--fleet", "demo", "--see") == ["--seed"]
