from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from trnfleet.cli.commands import reserve
from trnfleet.cli.commands.reserve import command
from trnfleet.cli.main import run
from trnfleet.domain.reservations.states import ReservationState
from trnfleet.services.simulator import client
from trnfleet.services.simulator.client import Command, Reply
from trnfleet.wire.reservations import ReservationMessage

BROKER = ("--broker", "mqtt://127.0.0.1:1")
OFFERING = {
    "id": "cbo-1",
    "instance_type": "trn2.48xlarge",
    "instances": 2,
    "ultraserver_type": None,
    "zone": "us-east-2b",
    "start": "2026-01-05T11:30:00.000Z",
    "end": "2026-01-06T11:30:00.000Z",
    "hours": 24.0,
    "fee": "1716.48",
    "currency": "USD",
}
NASTY = "cbo-\x1b[2J"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Command]:
    """Note the requests, and answer with an offering or a reservation."""
    requests: list[Command] = []

    async def send(_session: object, _name: object, request: Command, **_: object) -> list[Reply]:
        requests.append(request)
        result: dict[str, Any] = {"offerings": [OFFERING], "reservation": {"id": "cb-1"}}
        return [Reply("sim-1", True, "done", result)]

    monkeypatch.setattr(client, "send_command", send)
    return requests


def answer_with(monkeypatch: pytest.MonkeyPatch, *answers: Reply) -> None:
    async def send(*_: object, **__: object) -> list[Reply]:
        return list(answers)

    monkeypatch.setattr(client, "send_command", send)


def call(*arguments: str) -> Any:
    return CliRunner().invoke(command, [*arguments, *BROKER])


def test_buying_is_a_dry_run_unless_told(asked: list[Command]) -> None:
    """Without --yes only offerings are requested, and the purchase is shown."""
    shown = call("buy", "--instance-type", "trn2.48xlarge", "--instances", "2", "--days", "1")
    assert shown.exit_code == 0
    assert "would buy" in shown.output
    assert "1,716.48 USD" in shown.output
    assert [request.action for request in asked] == ["reserve_offerings"]
    assert asked[0].args == {"days": 1.0, "instance_type": "trn2.48xlarge", "instances": 2.0}


def test_buying_takes_the_earliest_offering(asked: list[Command]) -> None:
    """With --yes the first offering is bought."""
    assert call("buy", "--ultraserver", "--days", "7", "--yes").exit_code == 0
    assert [(request.action, request.args) for request in asked] == [
        ("reserve_offerings", {"days": 7.0, "ultraservers": 1.0}),
        ("reserve_buy", {"offering": "cbo-1"}),
    ]


def test_a_named_offering_is_bought_as_it_is(asked: list[Command]) -> None:
    """An offering is looked up by its id, and bought only with --yes."""
    shown = call("buy", "cbo-9").output
    assert "would buy" in shown
    assert "1,716.48 USD" in shown
    assert [request.action for request in asked] == ["reserve_offering"]
    assert call("buy", "cbo-9", "--yes").exit_code == 0
    assert [(request.action, request.args) for request in asked] == [
        ("reserve_offering", {"offering": "cbo-9"}),
        ("reserve_buy", {"offering": "cbo-9"}),
    ]


def test_extending(asked: list[Command]) -> None:
    """An extension is looked for by block and days, and bought with --yes."""
    assert "would extend cb-1" in call("extend", "cb-1", "--days", "2").output
    assert call("extend", "cb-1", "--days", "2", "--yes").exit_code == 0
    assert [request.action for request in asked][-2:] == [
        "reserve_extension_offerings",
        "reserve_extend",
    ]
    assert asked[-2].args == {"block": "cb-1", "days": 2.0}


def test_times_and_zone_are_passed_on(asked: list[Command]) -> None:
    """Earliest start, latest end and zone reach the simulator."""
    result = call(
        "offerings",
        "--ultraserver",
        "--days",
        "1",
        "--zone",
        "us-east-2b",
        "--from",
        "2026-01-06T00:00:00Z",
        "--until",
        "2026-02-01T00:00:00Z",
        "--json",
    )
    assert result.exit_code == 0
    assert asked[0].args == {
        "days": 1.0,
        "ultraservers": 1.0,
        "zone": "us-east-2b",
        "starts_from": "2026-01-06T00:00:00+00:00",
        "ends_by": "2026-02-01T00:00:00+00:00",
    }


@pytest.mark.parametrize(
    ("until", "said"),
    [
        ("2026-04-01T00:00:00.000Z", "prices change at 2026-04-01 00:00 UTC\n"),
        ("\x1b[2J", "prices change at"),
        (5, ""),
        (None, ""),
    ],
)
def test_when_prices_change_is_said(
    monkeypatch: pytest.MonkeyPatch, until: object, said: str
) -> None:
    """A known price change is shown below the offerings.

    JSON has the offerings only.
    """
    answer_with(
        monkeypatch, Reply("sim-1", True, "", {"offerings": [OFFERING], "prices_until": until})
    )
    wanted = ("offerings", "--ultraserver", "--days", "1")
    last = call(*wanted).output.splitlines(keepends=True)[-1]
    assert last.startswith(said) if said else "cbo-1" in last
    assert "\x1b" not in last
    assert [each["id"] for each in json.loads(call(*wanted, "--json").output)] == ["cbo-1"]


def test_a_refusal_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a simulator refuses is told in one line on stderr, with exit status 1."""
    answer_with(monkeypatch, Reply("sim-1", False, "duration-in-days-then-weeks: not 15", {}))
    assert run(["reserve", "buy", "--ultraserver", "--days", "15", "--yes", *BROKER]) == 1
    assert capsys.readouterr() == ("", "trnfleet: duration-in-days-then-weeks: not 15\n")


@pytest.mark.parametrize("more", [(), ("--yes",)])
def test_what_is_not_on_offer_is_no_success(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], more: tuple[str, ...]
) -> None:
    """With and without --yes the simulator's reason is told, and the exit status is 1."""
    answer_with(
        monkeypatch, Reply("sim-1", False, "'nope' is not on offer; did you mean 'cbo-1'?", {})
    )
    assert run(["reserve", "buy", "nope", *more, *BROKER]) == 1
    assert capsys.readouterr() == ("", "trnfleet: 'nope' is not on offer; did you mean 'cbo-1'?\n")


@pytest.mark.parametrize("result", [{}, {"offerings": []}, {"offerings": [{}]}, {"offerings": 3}])
def test_an_answer_that_makes_no_sense(
    monkeypatch: pytest.MonkeyPatch, result: dict[str, Any]
) -> None:
    """An answer without offerings, or with invalid ones, is reported as such."""
    answer_with(monkeypatch, Reply("sim-1", True, "", result))
    failed = call("offerings", "--ultraserver", "--days", "1")
    assert failed.exit_code != 0
    assert "its answer has" in str(failed.exception)


def test_what_comes_back_is_shown_as_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Control characters in an answer never reach the terminal."""
    answer_with(monkeypatch, Reply("sim-1", True, "", {"offerings": [OFFERING | {"zone": NASTY}]}))
    assert "\x1b" not in call("offerings", "--ultraserver", "--days", "1").output


@pytest.mark.parametrize(
    "arguments",
    [
        ("offerings", "--ultraserver"),
        ("buy",),
        ("offerings", "--days", "x"),
        ("offerings", "--days", "-1"),
        ("offerings", "--ultraserver", "--days", "1", "--from", "tomorrow"),
        ("extend", "cb-1"),
    ],
)
def test_wrong_use(arguments: tuple[str, ...]) -> None:
    """Missing or malformed options are wrong use, exit status 2."""
    assert call(*arguments).exit_code == 2


def test_a_block_of_which_nothing_is_used_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the app; an unknown use is no idleness."""
    told: dict[str, Any] = {
        "state": ReservationState.ACTIVE,
        "ts": "2026-01-03T11:30:00Z",
        "instance_type": "trn2.48xlarge",
        "zone": "us-east-2b",
        "instances": 2,
        "created": "2026-01-01T11:30:00Z",
        "start": "2026-01-03T11:30:00Z",
    }
    found = [
        ReservationMessage(id=name, launched=used, **told)
        for name, used in (("cb-used", 1), ("cb-idle", 0), ("cb-unknown", None))
    ]
    monkeypatch.setattr(reserve, "_reservations", lambda _options: found)
    rows = [line.split()[:2] for line in call("list").output.splitlines()[1:]]
    assert rows == [["cb-used", "active"], ["cb-idle", "idle"], ["cb-unknown", "active"]]
