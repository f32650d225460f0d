from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from trnfleet.cli.commands import inject
from trnfleet.cli.commands.inject import TARGETS, active_lines
from trnfleet.cli.main import run
from trnfleet.domain.faults.fault import FaultScope
from trnfleet.domain.faults.table import FAULTS
from trnfleet.services.simulator import client
from trnfleet.services.simulator.client import Command, Reply

BROKER = ("--broker", "mqtt://127.0.0.1:1")
CHIP = "uc1/us-0001/trn2u-0001-2/chip05"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Replace the broker by fixed answers.

    The list starts with the replies; requests are appended.
    """
    log: list[Any] = []

    async def send(
        _session: Any, name: str | None, command: Command, *, timeout_s: float
    ) -> list[Reply]:
        log.append((name, command, timeout_s))
        replies: list[Reply] = log[0]
        return replies

    monkeypatch.setattr(client, "send_command", send)
    log.append([Reply("sim-1", True, "done", {})])
    return log


def call(*arguments: str) -> Result:
    return CliRunner().invoke(inject.command, arguments)


def test_a_fault_is_asked_for(asked: list[Any]) -> None:
    """Fault, target and options become one request.

    The reply is one line with the simulator's name.
    """
    result = call(
        "straggler",
        CHIP,
        "--for",
        "5m",
        "--magnitude",
        "30",
        *BROKER,
        "--timeout",
        "2s",
        "--name",
        "lab",
    )
    assert (result.exit_code, result.stdout) == (0, "sim-1: done\n")
    args: dict[str, Any] = {"fault": "straggler", "for_s": 300.0, "magnitude": 30.0}
    assert asked[1:] == [("lab", Command("inject", CHIP, args), 2.0)]


def test_what_is_not_given_is_left_to_the_table(asked: list[Any]) -> None:
    """Without options the request has only the fault, and goes to the broker's only fleet."""
    assert call("straggler", CHIP, *BROKER).exit_code == 0
    assert asked[1:] == [(None, Command("inject", CHIP, {"fault": "straggler"}), 5.0)]


def test_a_refusal_is_one_line_and_a_failure(asked: list[Any]) -> None:
    """Where every simulator refuses, the exit status is 1 and stderr says who and why."""
    asked[0] = [Reply("sim-1", False, "commands are off", {})]
    result = call("straggler", CHIP, *BROKER)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "trnfleet: sim-1 refuses: commands are off\n"


def test_one_of_several_is_enough(asked: list[Any]) -> None:
    """Where several simulators answer, each is told, and one that did it makes a success."""
    asked[0] = [Reply("sim-1", False, "no", {}), Reply("sim-2", True, "done", {})]
    result = call("straggler", CHIP, *BROKER)
    assert result.exit_code == 0
    assert "sim-1 refuses: no" in result.stderr
    assert result.stdout == "sim-2: done\n"


def test_json_tells_all(asked: list[Any]) -> None:
    """With --json stdout is one list of answers, and the exit status is the same."""
    asked[0] = [Reply("sim-1", False, "no", {"nasty": "\u202e\u009b"})]
    result = call("straggler", CHIP, *BROKER, "--json")
    assert result.exit_code == 1
    assert result.stdout.isascii()
    assert json.loads(result.stdout) == [
        {"simulator": "sim-1", "ok": False, "reason": "no", "result": {"nasty": "\u202e\u009b"}}
    ]


def test_what_is_active(asked: list[Any]) -> None:
    """With --active the simulator is asked for its faults, and each has a line."""
    asked[0] = [
        Reply(
            "sim-1",
            True,
            "2 faults",
            {"active": [{"fault": "straggler", "target": CHIP, "left_s": 90.0}]},
        )
    ]
    result = call("--active", *BROKER)
    assert asked[1][1] == Command("faults")
    assert result.stdout.splitlines()[0] == "sim-1: 2 faults"
    assert result.stdout.splitlines()[1].split() == ["straggler", CHIP, "for", "another", "90", "s"]


def test_active_faults_are_plain_text() -> None:
    """An invalid or too long reply, or one with control characters, is shown in part.

    The part is the one with meaning.
    """
    assert (
        active_lines({}) == active_lines({"active": 7}) == active_lines({"active": [1, None]}) == []
    )
    (line,) = active_lines({"active": [{"fault": "\x1b[2J", "target": ["\u202e"], "left_s": None}]})
    assert line.isprintable()
    assert line.isascii()
    assert "until it is repaired" in line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "name a fault and a target"),
        (["straggler", *BROKER], "name a target"),
        (["straggler", CHIP], "--broker URL"),
        (["--active"], "--broker URL"),
        (["--list", "--active"], "name a fault and a target"),
        (["--list", "straggler"], "name a fault and a target"),
        (["stragler", CHIP, *BROKER], "did you mean 'straggler'"),
        (["stragler", CHIP], "did you mean 'straggler'"),
        (["straggler", CHIP, "--magnitude", "99", *BROKER], "must be 1 to 95"),
        (["runtime_crash", CHIP, "--magnitude", "1", *BROKER], "has no magnitude"),
        (["straggler", CHIP, *BROKER, "--for", "soon"], "not a duration"),
        (["straggler", CHIP, *BROKER, "--for", "0s"], "above zero"),
        (["straggler", CHIP, *BROKER, "--timeout", "2h"], "at most 1 h 00 min"),
        (["straggler", CHIP, *BROKER, "--magnitude", "much"], "not a valid float"),
        (["straggler", CHIP, *BROKER, "--name", "a/b"], "--name"),
    ],
)
def test_wrong_use(
    asked: list[Any], capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    """Wrong use is refused before anything is sent, with the correct form.

    The exit status is 2.
    """
    assert run(["inject", *arguments]) == 2
    assert said in capsys.readouterr().err
    assert len(asked) == 1


def test_the_catalogue_is_listed_without_a_broker() -> None:
    """--list shows every fault with its scope, effect and end."""
    listed = call("--list")
    assert listed.exit_code == 0
    assert set(TARGETS) == {scope.value for scope in FaultScope}
    lines = listed.stdout.splitlines()
    for name, fault in FAULTS.items():
        (number,) = (number for number, line in enumerate(lines) if line.split()[:1] == [name])
        assert fault.title in lines[number]
        seconds = fault.lasts_s if fault.ends_by_itself else fault.stages.total_s
        assert f"{seconds:g} s" in lines[number + 1]
    assert max(map(len, lines)) <= 120


def test_the_catalogue_for_programs() -> None:
    """--list --json has every fault as an object.

    Missing values are null.
    """
    facts = {row["name"]: row for row in json.loads(call("--list", "--json").stdout)["faults"]}
    assert list(facts) == list(FAULTS)
    assert facts["straggler"]["magnitude"] == FAULTS["straggler"].magnitude
    assert facts["straggler"]["recovery_s"] is None
    crash = facts["hbm_uncorrectable"]
    assert (crash["lasts_s"], crash["magnitude"]) == (None, None)
    assert crash["recovery_s"] == FAULTS["hbm_uncorrectable"].stages.total_s


def test_help_has_examples() -> None:
    """The help shows how to call it."""
    assert "trnfleet inject straggler uc1/" in call("--help").stdout


def test_the_list_has_rates() -> None:
    """Each random fault has a rate for the requested fleet size, and its source."""
    listed = call("--list", "--chips", "32768")
    assert listed.exit_code == 0
    assert "at random 61 in a million device-days: one in 12 h on 32,768 chips" in listed.stdout
    assert listed.stdout.count("at random ") == sum(
        bool(each.rate_per_device_day) for each in FAULTS.values()
    )
    assert "together: one in 92.8 min on 32,768 chips" in listed.stdout
    facts = json.loads(call("--list", "--json").stdout)
    assert facts["chips"] == 16_384
    assert facts["mean_between_interruptions_s"] == pytest.approx(3.1 * 3_600, rel=0.01)
    crash = next(each for each in facts["faults"] if each["name"] == "runtime_crash")
    assert crash["mean_between_s"] == pytest.approx(54 * 86_400 / 24)
    assert "22 of 54 software bug" in crash["rate_source"]
    cap = next(each for each in facts["faults"] if each["name"] == "power_cap")
    assert (cap["rate_per_device_day"], cap["mean_between_s"]) == (None, None)
