from __future__ import annotations

import re

import pytest
from support.monitor.rules import alert_of, rule_of

from trnfleet.domain.alerts.alert import (
    address_of,
    common_place,
    fingerprint_of,
    is_below,
    labels_of,
)
from trnfleet.domain.alerts.templates import fill, limit_text, summary, value_text
from trnfleet.domain.quantities import DurationStyle

CHIP = "uc1/us-0001/trn2u-0001-0/chip05"


def test_a_fingerprint_is_of_fleet_rule_and_target() -> None:
    """Every monitor finds the same one; what differs in any part has another, also where parts join alike."""
    mark = fingerprint_of("demo", "hot", CHIP)

    assert re.fullmatch("[0-9a-f]{16}", mark)
    assert mark == fingerprint_of("demo", "hot", CHIP)
    others = {
        fingerprint_of("demo", "hot", ""),
        fingerprint_of("demoh", "ot", CHIP),
        fingerprint_of("dem", "ohot", CHIP),
    }
    assert len(others | {mark}) == 4


def test_labels_say_where_it_is() -> None:
    """Every level of an address is a label with the whole path to it; the rule's own labels are there, too."""
    labels = labels_of("demo", rule_of(labels={"team": "hpc"}), CHIP, "train-1")

    assert labels == {
        "team": "hpc",
        "alertname": "hot",
        "severity": "warning",
        "fleet": "demo",
        "scope": "chip",
        "target": CHIP,
        "cluster": "uc1",
        "ultraserver": "uc1/us-0001",
        "instance": "uc1/us-0001/trn2u-0001-0",
        "chip": CHIP,
        "job": "train-1",
    }


def test_labels_of_what_has_a_name() -> None:
    """A job is its own label; the fleet's alert has the fleet for a target and no level."""
    job = rule_of(scope="job", figure="state", above=None, equals="hung")
    link = rule_of(scope="link", figure="link_up", above=None, equals=0.0, group="none")

    assert labels_of("demo", job, "train-1")["job"] == "train-1"
    assert labels_of("demo", link, f"{CHIP}:east")["chip"] == CHIP
    whole = labels_of("demo", rule_of(group="fleet"), "")
    assert whole["target"] == "demo"
    assert "cluster" not in whole


@pytest.mark.parametrize(
    ("address", "other", "expected"),
    [
        ("uc1/us-0001", "", True),
        ("uc1/us-0001", "uc1", True),
        ("uc1/us-0001", "uc1/us-0001", True),
        ("uc1/us-00012", "uc1/us-0001", False),
        (f"{CHIP}:east", CHIP, True),
        ("uc1", "uc1/us-0001", False),
    ],
)
def test_what_lies_below(address: str, other: str, expected: bool) -> None:
    """Whole segments count, not beginnings of names."""
    assert is_below(address, other) is expected


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        ([], ""),
        ([CHIP], CHIP),
        ([f"{CHIP}:east", f"{CHIP}:west"], CHIP),
        ([CHIP, "uc1/us-0001/trn2u-0001-0/chip06"], "uc1/us-0001/trn2u-0001-0"),
        ([CHIP, "uc1/us-0001/trn2u-0001-1/chip05"], "uc1/us-0001"),
        (["uc1/us-0001", "uc2/us-0001"], ""),
        ([CHIP, "uc1/us-0001"], "uc1/us-0001"),
    ],
)
def test_the_deepest_common_place(addresses: list[str], expected: str) -> None:
    """The place of an alert is the deepest address that has all of its members."""
    assert common_place(addresses) == expected


def test_where_to_go_from_an_alert() -> None:
    """Its place, or its own address; a job without a place leads nowhere."""
    alert = alert_of("hot", f"{CHIP}:east")
    assert address_of(alert) == CHIP
    alert.place = "uc1/us-0001"
    assert address_of(alert) == "uc1/us-0001"
    job = alert_of("hung", "train-1", scope="job", figure="state", above=None, equals="hung")
    assert address_of(job) == ""


def test_a_summary_has_the_figures_and_the_cause() -> None:
    """Placeholders are filled in, what a target's name has in braces is left alone, cause and flapping are told."""
    alert = alert_of("hot", CHIP, clear=80, summary="{count} at {value}, {limit}, {worst}")
    alert.value, alert.members, alert.worst = 93.25, 1_200, "{value}"
    assert summary(alert) == "1,200 at 93.2 °C, above 90 °C, {value}"

    alert.cause, alert.is_flapping, alert.times = "uc1 (fault)", True, 5
    assert summary(alert).endswith("; cause: uc1 (fault) (flapping, 5 times in 30 min)")


@pytest.mark.parametrize(
    ("changed", "value", "expected"),
    [
        ({}, 93.0, "93.0 °C"),
        ({}, None, "n/a"),
        ({}, float("nan"), "n/a"),
        ({"figure": "throttle_pct", "minus_median_of": "job"}, 8.0, "+8.0 %"),
        ({"figure": "throttle_pct", "share_of_median_of": "job"}, 1.25, "125 %"),
        ({"figure": None, "above": None, "absent": True}, 75.0, "1 min 15 s"),
        ({"scope": "pipeline", "figure": "lag_s"}, 1.5, "1.5 s"),
        ({"scope": "pipeline", "figure": "lag_s"}, 90.0, "1 min 30 s"),
    ],
)
def test_a_value_is_told_with_its_unit(
    changed: dict[str, object], value: float | None, expected: str
) -> None:
    """As people read it: percent, degrees, times; n/a where there is none."""
    assert value_text(rule_of(**changed), value) == expected


@pytest.mark.parametrize(
    ("changed", "value", "expected"),
    [
        ({}, 93.0, "93.0 °C"),
        ({"figure": None, "above": None, "absent": True}, 75.0, "1m 15s"),
        ({"scope": "pipeline", "figure": "lag_s"}, 1.5, "1.5s"),
        ({"scope": "pipeline", "figure": "lag_s"}, 6_840.0, "1h 54m"),
    ],
)
def test_a_value_has_short_durations(
    changed: dict[str, object], value: float, expected: str
) -> None:
    """A narrow column has durations in letters, other values as ever."""
    assert value_text(rule_of(**changed), value, style=DurationStyle.SHORT) == expected


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, "above 90 °C"),
        ({"figure": "throttle_pct", "share_of_median_of": "job", "above": 1.1}, "above 110 %"),
        ({"figure": None, "above": None, "absent": True}, "silent"),
        (
            {"scope": "job", "figure": "state", "above": None, "equals": ["hung", "failed"]},
            "hung or failed",
        ),
        ({"figure": "health", "above": None, "has": ["hbm", "sram"]}, "has hbm or sram"),
        (
            {"scope": "reservation", "figure": "ends_in_s", "above": None, "below": 3600},
            "below 1 h 00 min",
        ),
    ],
)
def test_a_limit_is_written_with_its_unit(changed: dict[str, object], expected: str) -> None:
    """What the value is compared with, with its unit."""
    rule = rule_of(**changed)
    assert limit_text(rule.scope, rule) == expected


def test_every_placeholder_can_be_filled() -> None:
    """An alert of which nothing is known yet has a text for each."""
    names = "alertname target place worst value limit count chips job cause severity"
    alert = alert_of("hot", "", summary=" ".join(f"{{{name}}}" for name in names.split()))

    assert fill(alert.rule.summary, alert) == (
        "hot the fleet the fleet the fleet n/a above 90 °C 1 0 chips no job unknown warning"
    )
