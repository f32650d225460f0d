"""Reach of a silence beyond current alerts, and its errors."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.monitor.feed import standalone, ultraservers
from support.monitor.rules import rule_of

from trnfleet.domain.alerts.alert import Alert, fingerprint_of, labels_of
from trnfleet.domain.alerts.matchers import all_match, matchers_for, parse_matchers, split_matchers
from trnfleet.domain.alerts.reach import MOST_TRIED, Known, preview, reach
from trnfleet.domain.alerts.status import AlertState
from trnfleet.domain.layout import Layout
from trnfleet.services.files.rules import load_rules

RULES = (*load_rules(), rule_of(name="chip-hot"))
FLEET = Known(
    "demo",
    RULES,
    Layout.of(ultraservers(2) + standalone(2)),
    [-1, 1, 0, 0, 0, 0, -1, -1, -1, -1],
    {
        "job": ["pretrain-70b", "serve-8b"],
        "reservation": ["cb-02c8"],
        "publisher": ["sim-1"],
    },
)
RACK = "uc1/us-0001/rack-b"


def fires(rule: str, target: str, *, rack: str = "", place: str = "", chips: int = 0) -> Alert:
    found = next(each for each in RULES if each.name == rule)
    return Alert(
        found,
        target,
        fingerprint_of("demo", rule, target),
        state=AlertState.FIRING,
        fired_ns=1,
        place=place,
        rack=rack,
        chips=chips,
        labels=labels_of("demo", found, target, rack=rack),
    )


HOT = [
    fires("rack-event", "uc1/us-0001", rack="rack-b", place="uc1/us-0001", chips=32),
    fires("overheated", "uc1/us-0001", rack="rack-b", place="uc1/us-0001", chips=32),
    fires("straggler", "uc1/us-0001/trn2u-0001-2", rack="rack-b", chips=16),
]
MIXED = (
    f'alertname=~"job-slow|overheated|straggler" target=~"pretrain-70b|uc1/us-0001|{HOT[2].target}"'
    f' rack=~"|{RACK}"'
)
SLOW = fires("job-slow", "pretrain-70b", place="uc1/us-0001", chips=64)


@pytest.mark.parametrize(
    ("line", "doubt"),
    [
        ('alertname="overheatd"', "no rule here is called 'overheatd': did you mean 'overheated'?"),
        (
            'alertname=~"overheat"',
            (
                "no rule here matches as a whole 'overheat': for a part of names such as overheated"
                ' write ".*overheat.*"'
            ),
        ),
        ("alertname='overheated'", "did you mean 'overheated'?"),
        ("severity=critcal", "no severity here is called 'critcal': did you mean 'critical'?"),
        (
            'cluster="uc1" severity!="critcal"',
            "severity!=\"critcal\" excludes nothing: no severity here is called 'critcal'",
        ),
        ("fleet=dmo", "did you mean 'demo'?"),
        (
            "instance=trn2-0001",
            "no instance here is called 'trn2-0001': did you mean 'uc1/standalone/trn2-0001'?",
        ),
        ("instance=uc1/standalone/TRN2-0001", "did you mean 'uc1/standalone/trn2-0001'?"),
        (
            'instance=~"trn2-000.*"',
            'for a part of names such as uc1/standalone/trn2-0001 write ".*trn2-000.*.*"',
        ),
        ("instance=uc1/us-0001", 'write ultraserver="uc1/us-0001"'),
        ("rack=B", "no rack here is called 'B': did you mean 'uc1/us-0001/rack-b'?"),
        ("chip=chip07", "did you mean 'uc1/standalone/trn2-0001/chip07'?"),
        ("job=pretrain", "no job here is called 'pretrain': did you mean 'pretrain-70b'?"),
        ("target=overheated", "no target here is called 'overheated'"),
        ('alertname="overheated" nod="x"', "no alert has the label nod"),
        ("instnce=x", "no alert has the label instnce: did you mean 'instance'?"),
        ("alertname=overheated instance=uc1/us-0001/trn2u-0001-2", "no alert can match all of"),
        ("ultraserver=uc1/us-0001 instance=uc1/us-0002/trn2u-0002-0", "no alert can match all of"),
        (
            "alertname=ultraserver-silent chip=uc1/us-0001/trn2u-0001-2/chip00",
            "these alerts have no label chip; choose from cluster, ultraserver, rack",
        ),
        ("alertname=job-slow ultraserver=uc1/us-0001", "no alert can match all of"),
    ],
)
def test_what_can_match_nothing_is_doubted(line: str, doubt: str) -> None:
    """The doubt names the nearest name, or the values of its rule's alerts."""
    (found,) = reach(parse_matchers(split_matchers(line)), FLEET).doubts
    assert doubt in found


@pytest.mark.parametrize(
    ("line", "chips"),
    [
        (f"rack={RACK}", 32),
        ("ultraserver=uc1/us-0001", 64),
        ("ultraserver=uc1/us-0001 instance!=uc1/us-0001/trn2u-0001-2", 64),
        ("instance=uc1/us-0001/trn2u-0001-2", 16),
        ("chip=uc1/us-0001/trn2u-0001-2/chip07", 1),
        (r'chip=~".*/chip0\d"', 100),
        ("job=pretrain-70b", 64),
        ('job=""', 80),
        ("alertname=overheated", 160),
        ("alertname=overheated rack=" + RACK, 32),
        ("alertname=overheated instance=uc1/standalone/trn2-0001", 16),
        ("target=uc1/us-0001", 64),
        ('severity!="critical"', 160),
        ('instance=~"uc1/standalone/.*|uc1/us-0002/.*"', 96),
        ("scope=job", 0),
        ("reservation=cb-02c8", 0),
        ("publisher=sim-1", 0),
        ("alertname=job-slow job=serve-8b", 0),
        ("scope=pipeline", 0),
    ],
)
def test_chips_that_a_silence_can_mute(line: str, chips: int) -> None:
    """Counted are chips whose alerts can have its labels, at its rules' level."""
    matchers = parse_matchers([*split_matchers(line), "fleet=demo"])
    assert reach(matchers, FLEET) == ((), chips)


def test_a_preview_tells_what_else_is_muted() -> None:
    """The healthy rack of an UltraServer, if the silence is about all of it."""
    known = replace(FLEET, alerts=[*HOT, SLOW])
    assert preview(parse_matchers(["ultraserver=uc1/us-0001"]), known)[0::4] == (3, 32)
    assert preview(parse_matchers([f"rack={RACK}"]), known)[0::4] == (3, 0)
    assert preview(parse_matchers(["alertname=overheated"]), known).other_chips == 128


def test_a_rule_that_only_the_watch_knows() -> None:
    """Its alerts show its existence and its level."""
    own = HOT[2].rule.model_copy(update={"name": "my-own"})
    labels = labels_of("demo", own, "uc1/us-0001/trn2u-0001-0")
    alert = Alert(own, "uc1/us-0001/trn2u-0001-0", "0" * 16, state=AlertState.FIRING, labels=labels)
    found = reach(parse_matchers(["alertname=my-own"]), replace(FLEET, alerts=[alert]))
    assert found == ((), 160)


def test_what_is_not_described_is_not_judged() -> None:
    """In a fleet with unknown hosts no address is called wrong, and nothing is counted."""
    assert reach(parse_matchers(["instance=uc1/us-0001/x"]), Known("demo", RULES)) == ((), None)


def test_too_many_chips_are_not_tried() -> None:
    """An expression on each of a million chips would hold up every key."""
    large = replace(FLEET, layout=Layout.of(ultraservers(MOST_TRIED // 64 + 1)), job_of=())
    assert reach(parse_matchers(['chip=~"no-such-chip"']), large) == ((), None)
    assert reach(parse_matchers(["chip=uc1/us-0001/trn2u-0001-0/chip00"]), large) == ((), 1)


@pytest.mark.parametrize(
    ("chosen", "others", "line"),
    [
        (HOT[1:2], [], f'alertname="overheated" rack="{RACK}"'),
        (HOT, [], f'rack="{RACK}"'),
        (HOT[:2], HOT[2:], f'alertname=~"overheated|rack-event" rack="{RACK}"'),
        (HOT[2:], [], 'alertname="straggler" instance="uc1/us-0001/trn2u-0001-2"'),
        (
            [*HOT[1:], SLOW],
            HOT[:1],
            MIXED,
        ),
    ],
)
def test_matchers_of_a_problem_match_its_alerts_alone(
    chosen: list[Alert], others: list[Alert], line: str
) -> None:
    """The shortest that do."""
    found = matchers_for([each.labels for each in chosen], [each.labels for each in others])
    assert " ".join(map(str, found)) == line
    assert parse_matchers(split_matchers(line)) == found
    assert all(all_match(found, each.labels) for each in chosen)
    assert not any(all_match(found, each.labels) for each in others)
