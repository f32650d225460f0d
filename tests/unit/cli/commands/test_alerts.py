"""`trnfleet alerts` with and without a watch."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from trnfleet.cli.commands import alerts
from trnfleet.cli.commands.silence import add, list_all
from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.alerts.alert import fingerprint_of
from trnfleet.domain.alerts.watches import (
    NO_ERRORS,
    ReceiverError,
    ReceiverErrors,
    WatchPresence,
    Word,
)
from trnfleet.domain.severity import Severity
from trnfleet.errors import ExitStatus
from trnfleet.monitor.alerting.silences import Silences
from trnfleet.monitor.problems.uncovered import CellWatch
from trnfleet.services.alerts_client import FleetAlerts
from trnfleet.wire.alerts import AlertMessage, CellAlertMessage, SilenceMessage

BEGIN_NS = 1_700_000_000 * NS_PER_S
BROKER = ["--broker", "mqtt://127.0.0.1:1", "--name", "demo"]


def alert(severity: str) -> AlertMessage:
    fired = format_rfc3339(BEGIN_NS - 90 * NS_PER_S)
    return msgspec.convert(
        {
            "fingerprint": fingerprint_of("demo", "hot", "a"),
            "rule": "hot",
            "severity": Severity(severity),
            "state": "firing",
            "target": "a",
            "summary": "a is hot",
            "since": fired,
            "fired": fired,
            "watch": "w",
        },
        AlertMessage,
    )


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a command against the given observation."""

    def ask(
        *arguments: str,
        command: Any = alerts.command,
        told: tuple[AlertMessage, ...] = (),
        silenced: tuple[SilenceMessage, ...] = (),
        **seen: Any,
    ) -> tuple[int, str, str]:
        silences = Silences()
        for each in silenced:
            silences.put_silence(each)

        async def read(*_: object, **__: object) -> FleetAlerts:
            known = {each.fingerprint: each for each in told}
            return FleetAlerts("demo", known, silences, BEGIN_NS, **{"watches": (), **seen})

        async def read_several(*_: object, **__: object) -> list[FleetAlerts]:
            return [await read()]

        monkeypatch.setattr("trnfleet.services.alerts_client.read_alerts", read)
        monkeypatch.setattr("trnfleet.services.alerts_client.read_alerts_of_fleets", read_several)
        result = CliRunner().invoke(command, [*arguments, *BROKER])
        return result.exit_code, result.stdout, result.stderr

    return ask


def test_a_command_ends_in_time(asked: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command ends in time with a reason, however much must be matched."""

    def match_for_ever(_fleet: FleetAlerts) -> None:
        while True:
            pass

    monkeypatch.setattr("trnfleet.services.alerts_client.silence_facts", match_for_ever)
    monkeypatch.setattr(alerts, "MATCHING_S", 0.01)
    status, _, error = asked("--wait", "10ms", command=list_all)
    assert status == 1
    assert (
        "no end within 0.02 s: too many retained alerts and silences, or too costly ones" in error
    )


def test_what_no_broker_says_is_not_known(asked: Any) -> None:
    """With retained messages withheld, a live watch does not help.

    Nothing is reported as none, and nothing is proposed.
    """
    seen: dict[str, Any] = {
        "watches": ("w",),
        "present": (WatchPresence("w", BEGIN_NS, 3.0, leads=True, firing=3),),
        "is_withheld": True,
    }
    status, out, _ = asked(told=(alert("critical"),), **seen)
    assert status == 1
    assert out.startswith("alerts, silences and acknowledgements are not known")
    assert "firing (last known)" in out
    status, out, error = asked("--json", **seen)
    facts = json.loads(out)
    assert (status, facts["watched"], facts["silences"], facts["doubts"]) == (1, False, None, [])
    assert "start `trnfleet watch`" not in error
    status, out, error = asked(command=list_all, **seen)
    assert (status, out) == (1, "silences are not known\n")
    assert "not known" in error
    assert asked("--json", command=list_all, **seen)[:2] == (1, "null\n")
    add_one = ("alertname=hot", "--for", "1h", "--why", "swap")
    assert (
        asked(*add_one, command=add, **seen)[1]
        == "matches, with --yes: alerts that are not known\n"
    )


def test_alerts_that_a_text_names(asked: Any) -> None:
    """A text is an id or its beginning, a rule or a place.

    The exit status is about these alone.
    """
    hot = alert("critical")
    cold = msgspec.structs.replace(
        hot,
        fingerprint=fingerprint_of("demo", "cold", "b"),
        rule="cold",
        target="b",
        severity=Severity.WARNING,
    )
    for text in (cold.fingerprint, cold.fingerprint[:5], "cold", "cold b"):
        status, out, _ = asked(text, "--json", told=(hot, cold), watches=("w",))
        assert (status, [each["rule"] for each in json.loads(out)["alerts"]]) == (0, ["cold"]), text
    assert asked("hot", told=(hot, cold), watches=("w",))[0] == ExitStatus.UNHEALTHY
    assert asked("cool", told=(hot, cold), watches=("w",))[0] == 1


def test_a_silence_for_an_alert_by_its_id(asked: Any) -> None:
    """Its matchers are the alert's alone; what names several alerts is refused with their ids."""
    hot = msgspec.structs.replace(alert("critical"), labels={"alertname": "hot", "target": "a"})
    other = msgspec.structs.replace(
        hot,
        fingerprint=fingerprint_of("demo", "hot", "b"),
        target="b",
        labels={"alertname": "hot", "target": "b"},
    )
    known: dict[str, Any] = {"told": (hot, other), "watches": ("w",), "command": add}
    status, out, _ = asked(hot.fingerprint[:6], "--for", "1d12h", "--why", "swap", **known)
    assert (status, out.splitlines()[0]) == (0, "matches, with --yes: 1 firing alert, 1 critical")
    status, _, _ = asked("hot", "--for", "1w", "--why", "swap", **known)
    assert status == 1
    status, _, error = asked("alertname=hot", "--for", "90", "--why", "swap", **known)
    assert status == 2
    assert "90 has no unit; write 90s, 90m or 90h" in error
    status, _, error = asked("alertname=hott,target=a", "--for", "1h30m", "--why", "swap", **known)
    assert (status, error) == (0, "no rule here is called 'hott': did you mean 'hot'?\n")


def test_without_a_watch_it_does_not_say_that_nothing_fires(asked: Any) -> None:
    """Without a watch firing alerts are unknown: one line gives advice, with status 1."""
    status, out, _ = asked()
    assert (status, out) == (1, "no watch publishes alerts of fleet demo; start `trnfleet watch`\n")
    status, out, _ = asked(gone=("w",))
    assert (status, out) == (
        1,
        "no watch publishes alerts of fleet demo (w has gone); start `trnfleet watch`\n",
    )


def test_whose_word_it_shows(asked: Any) -> None:
    """Stderr and --json name the leading watch, its start, and its last heartbeat."""
    leader = WatchPresence("w", BEGIN_NS, 3.0, leads=True, firing=0)
    status, out, err = asked(watches=("w",), present=(leader,))
    assert (status, out) == (0, "0 firing\n")
    assert err == "w leads, which began 2023-11-14T22:13:20.000Z; heard 3 s ago\n"
    facts = json.loads(asked("--json", watches=("w",), present=(leader,))[1])
    assert facts["leader"] == {
        "client": "w",
        "since": "2023-11-14T22:13:20.000Z",
        "heard_s": 3.0,
        "firing": 0,
    }
    assert facts["doubts"] == []


def test_a_leader_that_publishes_nothing_is_doubted(asked: Any) -> None:
    """If another watch sees alerts, the command exits with status 1.

    It does not report an absence of alerts, and operators' commands warn.
    """
    present = (
        WatchPresence("evil", 0, 1.0, leads=True, firing=None),
        WatchPresence("w", BEGIN_NS, 3.0, leads=False, firing=6),
    )
    status, out, err = asked(watches=("evil", "w"), present=present)
    assert (status, out) == (1, "no alert is published, which is in doubt\n")
    assert err.startswith("evil leads and publishes no alert, while w sees 6 fire\n")
    assert (
        "while w sees 6 fire" in asked(command=list_all, watches=("evil", "w"), present=present)[2]
    )
    both = tuple(each._replace(leads=True) for each in present)
    status, _, err = asked(watches=("evil", "w"), present=both, told=(alert("critical"),))
    assert status == 3
    assert err.startswith("2 watches lead, and their alerts may contradict: evil, w\n")


@pytest.mark.parametrize("severity", ["critical", "warning"])
def test_what_a_dead_watch_left_is_last_known(asked: Any, severity: str) -> None:
    """A former watch's alerts are listed as last known, with age and status 1."""
    status, out, _ = asked(told=(alert(severity),), gone=("w",))
    first, heading, row = out.splitlines()
    assert status == 1
    assert first.endswith("(w has gone); start `trnfleet watch`; as last known:")
    assert heading.split() == ["ALERT", "SEVERITY", "STATE", "AGE", "WHAT"]
    assert "firing (last known)  1 min 30 s" in row or "firing (last known)  90 s" in row


def test_json_says_whether_it_is_watched(asked: Any) -> None:
    """A JSON field shows whether the list is current, and stderr states it in words."""
    status, out, told = asked("--json", told=(alert("critical"),), gone=("w",))
    facts = json.loads(out)
    assert (status, facts["watched"], facts["watches"], facts["gone"]) == (1, False, [], ["w"])
    assert [(each["last_known"], each["age_s"]) for each in facts["alerts"]] == [(True, 90.0)]
    assert told.startswith("no watch publishes alerts of fleet demo (w has gone)")
    status, out, told = asked("--json", told=(alert("critical"),), watches=("w",))
    facts = json.loads(out)
    assert (status, facts["watched"], facts["alerts"][0]["last_known"], told) == (
        3,
        True,
        False,
        "",
    )


def test_with_a_watch_nothing_fires_or_something_does(asked: Any) -> None:
    """The status is 0 where nothing critical fires and 3 where something does."""
    assert asked(watches=("w",)) == (0, "0 firing\n", "")
    assert asked(watches=("w",), told=(alert("warning"),))[0] == 0
    assert asked(watches=("w",), told=(alert("critical"),))[0] == 3


def test_a_cell_without_a_watch_is_named_and_hides_no_other(asked: Any) -> None:
    """A critical alert of a watched cell counts.

    Alerts of a cell without a watch are as last known, and stderr names the cell.
    """
    kept, left = (
        CellAlertMessage(
            **{
                **msgspec.structs.asdict(alert("critical")),
                "fingerprint": f"{number:016x}",
                "target": target,
                "cell": cell,
            }
        )
        for number, (target, cell) in enumerate((("a", "cell-a"), ("b", "cell-b")))
    )
    leader = WatchPresence("w", BEGIN_NS, 3.0, leads=True, firing=1)
    cells = (
        CellWatch("cell-a", is_observed=True, word=Word(leader)),
        CellWatch("cell-b", is_observed=True, word=Word(None)),
    )
    status, out, told = asked(told=(kept, left), cells=cells)
    assert status == 3
    assert ["(last known)" in row for row in out.splitlines()[1:]] == [False, True]
    assert told.splitlines() == [
        "cell cell-b: no watch publishes its alerts",
        "cell cell-a: w leads",
    ]
    facts = json.loads(asked("--json", told=(kept, left), cells=cells)[1])
    assert (facts["watched"], [each["last_known"] for each in facts["alerts"]]) == (
        False,
        [False, True],
    )
    assert asked(told=(left,), cells=cells)[0] == 1
    assert asked(cells=cells)[:2] == (1, "no alert is published, which is in doubt\n")
    assert "on the broker of each cell" in asked(cells=cells[1:])[1]


def test_silences_are_listed_with_a_word_about_what_they_hide(asked: Any) -> None:
    """Silences need no watch.

    Stderr notes that the hidden alerts are only last known.
    """
    status, out, told = asked(command=list_all)
    assert (status, out) == (0, "no silences\n")
    assert told == "no watch publishes alerts of fleet demo; start `trnfleet watch`\n"


def test_silences_of_alertmanager_have_owner_and_origin(asked: Any) -> None:
    """A silence made there has its owner and origin.

    One that is not applied has a reason, in the list and in --json.
    """
    lasts: dict[str, Any] = {
        "starts": format_rfc3339(BEGIN_NS),
        "until": format_rfc3339(BEGIN_NS + 9 * NS_PER_S),
    }
    hides = SilenceMessage(
        id="alertmanager-1",
        matchers=('fleet="demo"',),
        who="bob",
        why="night work",
        source="alertmanager",
        **lasts,
    )
    idle = SilenceMessage(
        id="alertmanager-2",
        matchers=('pod="x"',),
        who="eve",
        source="alertmanager",
        not_applied="no label pod",
        **lasts,
    )
    told = msgspec.structs.replace(alert("critical"), labels={"fleet": "demo", "pod": "x"})
    seen: Any = {"told": (told,), "silenced": (hides, idle), "watches": ("w",)}
    status, out, _ = asked(**seen)
    assert status == 0
    assert "silenced" in out
    assert "[silenced by bob at alertmanager: night work]" in out
    _, out, _ = asked(command=list_all, **seen)
    _, first, second = out.splitlines()
    assert "bob at alertmanager" in first
    assert 'fleet="demo": night work' in first
    assert "not applied (no label pod)" in second
    _, out, _ = asked("--json", command=list_all, **seen)
    assert [(each["source"], each["not_applied"], each["hides"]) for each in json.loads(out)] == [
        ("alertmanager", "", 1),
        ("alertmanager", "no label pod", 0),
    ]


def test_what_receivers_do_not_take(asked: Any) -> None:
    """Stderr names a refused alert with the reason.

    --json has it, and the list of silences has it beside the silence.
    """
    fingerprint = fingerprint_of("demo", "hot", "a")
    errors = (
        ReceiverError("alertmanager", "silence", "s-1", "HTTP 400 'bad\x1b[2J'"),
        ReceiverError("alertmanager", "acknowledgement", fingerprint, "HTTP 400"),
    )
    leader = WatchPresence(
        "w", BEGIN_NS, 3.0, leads=True, firing=1, errors=ReceiverErrors(3, errors)
    )
    standby = leader._replace(client="z", leads=False, errors=NO_ERRORS)
    silence = SilenceMessage(
        id="s-1",
        matchers=('alertname="hot"',),
        starts=format_rfc3339(BEGIN_NS - NS_PER_S),
        until=format_rfc3339(BEGIN_NS + 60 * NS_PER_S),
        who="ann",
        why="swap",
    )
    seen: dict[str, Any] = {
        "watches": ("w", "z"),
        "present": (standby, leader),
        "told": (alert("warning"),),
        "silenced": (silence,),
    }
    status, _, err = asked(**seen)
    assert status == 0
    assert err.startswith(
        "receivers do not take 3: alertmanager: silence s-1: HTTP 400 'bad\\u001b[2J'; "
        "alertmanager: acknowledgement hot a: HTTP 400 and 1 more\nw leads"
    )
    facts = json.loads(asked("--json", **seen)[1])
    assert facts["receiver_error_count"] == 3
    assert facts["receiver_errors"][1] == {
        "receiver": "alertmanager",
        "kind": "acknowledgement",
        "id": fingerprint,
        "reason": "HTTP 400",
    }
    assert facts["silences"][0]["refused"] == {"alertmanager": "HTTP 400 'bad\x1b[2J'"}
    out = asked(command=list_all, **seen)[1]
    assert "swap: refused by alertmanager (HTTP 400 'bad\\u001b[2J')" in out


def several(
    monkeypatch: pytest.MonkeyPatch, *arguments: str, **changed: Any
) -> tuple[int, str, str]:
    """Run `alerts` against fleets alpha, with a warning, and beta, with a critical alert."""

    async def read(*_: object, **__: object) -> list[FleetAlerts]:
        made = []
        for name, severity in (("alpha", "warning"), ("beta", "critical")):
            message = alert(severity)
            known = {} if changed.get("is_quiet") else {message.fingerprint: message}
            seen = {"watches": ("w",), **changed.get(name, {})}
            made.append(FleetAlerts(name, known, Silences(), BEGIN_NS, **seen))
        return made

    monkeypatch.setattr("trnfleet.services.alerts_client.read_alerts_of_fleets", read)
    result = CliRunner().invoke(
        alerts.command, ["--broker", "mqtt://127.0.0.1:1", "--all-fleets", *arguments]
    )
    return result.exit_code, result.stdout, result.stderr


def test_several_fleets_are_one_list_with_the_fleet_in_each_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The worst alert comes first, in any fleet.

    In --json each alert has its fleet, and each fleet its facts.
    """
    status, out, _ = several(monkeypatch)
    head, *rows = out.splitlines()
    assert status == 3
    assert head.split()[:4] == ["FLEET", "ALERT", "SEVERITY", "STATE"]
    assert [row.split()[0] for row in rows] == ["beta", "alpha"]
    assert [row.split()[2] for row in rows] == ["critical", "warning"]
    status, out, _ = several(monkeypatch, "--json")
    facts = json.loads(out)
    assert status == 3
    assert [(each["fleet"], each["severity"]) for each in facts["alerts"]] == [
        ("beta", "critical"),
        ("alpha", "warning"),
    ]
    assert [(each["fleet"], each["watched"], each["away"]) for each in facts["fleets"]] == [
        ("alpha", True, []),
        ("beta", True, []),
    ]


def test_of_several_fleets_what_is_unknown_is_named_with_its_fleet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A fleet without a watch, or with an unreachable broker, is never well.

    Its alerts are as last known.
    """
    assert several(monkeypatch, is_quiet=True)[:2] == (0, "0 firing in 2 fleets\n")
    status, out, told = several(monkeypatch, is_quiet=True, beta={"away": ("mqtt://b2:1883",)})
    assert (status, out) == (1, "no alert is published, which is in doubt\n")
    assert "beta: mqtt://b2:1883 away: what is there is not known" in told
    status, out, told = several(monkeypatch, beta={"watches": ()})
    assert status == 1
    assert "firing (last known)" in out.splitlines()[1]
    assert "beta: no watch publishes alerts of fleet beta; start `trnfleet watch`" in told
