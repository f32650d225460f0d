from __future__ import annotations

import re
from typing import Any

import pytest
from support.monitor.rules import alert_of, rule_of

from trnfleet.domain.alerts.alert import (
    address_of,
    common_place,
    fingerprint_of,
    is_below,
    labels_of,
    named,
)
from trnfleet.domain.alerts.templates import (
    clear_text,
    conditions_text,
    fill,
    limit_text,
    summary,
    value_text,
)
from trnfleet.domain.quantities import DurationStyle

CHIP = "uc1/us-0001/trn2u-0001-0/chip05"


def test_a_fingerprint_is_of_fleet_rule_and_target() -> None:
    """Every monitor computes the same one; a difference in any part changes it.

    Also where parts join alike.
    """
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
    """Every level of an address is a label with its path.

    The rule's own labels are included.
    """
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
    """A job is its own label.

    The fleet's alert has the fleet as target and no level.
    """
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
    """Placeholders are filled in; cause and flapping are added.

    Braces in a target's name stay.
    """
    alert = alert_of("hot", CHIP, clear=80, summary="{count} at {value}, {limit}, {worst}")
    alert.value = 93.25
    alert.members = 1_200
    alert.worst = "{value}"
    assert summary(alert) == "1,200 at 93.2 °C, > 90 °C, {value}"

    alert.cause = "uc1 (fault)"
    alert.is_flapping = True
    alert.times = 5
    assert summary(alert).endswith("; cause: uc1 (fault) (flapping, 5 times in 30 min)")


@pytest.mark.parametrize(
    ("changed", "value", "expected", "short"),
    [
        ({}, 93.0, "93.0 °C", "93.0 °C"),
        ({}, None, "n/a", "n/a"),
        ({}, float("nan"), "n/a", "n/a"),
        ({"figure": "throttle_pct", "minus_median_of": "job"}, 8.0, "+8.0 %", "+8.0 %"),
        ({"figure": "throttle_pct", "share_of_median_of": "job"}, 1.25, "125 %", "125 %"),
        ({"figure": "mem_ecc_corrected", "rate_over": "1m"}, 24.9, "24.9 /s", "24.9 /s"),
        ({"figure": "mem_ecc_corrected", "rate_over": "1m"}, 1_812.0, "1.81 k/s", "1.81 k/s"),
        ({"figure": None, "above": None, "absent": True}, 75.0, "1 min 15 s", "1m 15s"),
        ({"scope": "pipeline", "figure": "lag_s"}, 1.5, "1.5 s", "1.5s"),
        ({"scope": "pipeline", "figure": "lag_s"}, 90.0, "1 min 30 s", "1m 30s"),
        ({"scope": "pipeline", "figure": "lag_s"}, 6_840.0, "1 h 54 min", "1h 54m"),
    ],
)
def test_a_value_is_told_with_its_unit(
    changed: dict[str, object], value: float | None, expected: str, short: str
) -> None:
    """As people read it: percent, degrees, times; n/a where there is none.

    A narrow column has durations in letters.
    """
    assert value_text(rule_of(**changed), value) == expected
    assert value_text(rule_of(**changed), value, style=DurationStyle.SHORT) == short


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, "> 90 °C"),
        (
            {"figure": "throttle_pct", "share_of_median_of": "job", "above": 1.1},
            "> 110 % of the job's median",
        ),
        (
            {"figure": "throttle_pct", "minus_median_of": "job", "above": 8},
            "> the job's median + 8 %",
        ),
        ({"figure": "hbm_used_bytes", "above": 2**30}, "> 1 GiB"),
        ({"figure": None, "above": None, "absent": True}, "silent"),
        (
            {"scope": "job", "figure": "state", "above": None, "equals": ["hung", "failed"]},
            "is hung or failed",
        ),
        ({"figure": "health", "above": None, "has": ["hbm", "sram"]}, "has hbm or sram"),
        ({"scope": "reservation", "figure": "ends_in_s", "above": None, "below": 3600}, "< 1 h"),
    ],
)
def test_a_limit_is_written_with_its_unit(changed: dict[str, object], expected: str) -> None:
    """A limit has its unit."""
    rule = rule_of(**changed)
    assert limit_text(rule.scope, rule) == expected


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, ""),
        ({"clear": 82}, "82 °C"),
        (
            {"figure": "throttle_pct", "minus_median_of": "job", "above": 8, "clear": 5},
            "the job's median + 5 %",
        ),
    ],
)
def test_the_value_at_which_an_alert_clears(changed: dict[str, object], expected: str) -> None:
    """It is not the limit, and has the same form."""
    rule = rule_of(**changed)
    assert clear_text(rule.scope, rule) == expected


def test_every_placeholder_can_be_filled() -> None:
    """An alert without known values has a text for each placeholder."""
    names = "alertname target place worst value limit count chips job cause severity"
    template = " ".join(f"{{{name}}}" for name in names.split())
    alert = alert_of("hot", "")

    assert fill(template, alert) == (
        "hot fleet demo fleet demo fleet demo n/a > 90 °C 1 0 chips no job unknown warning"
    )


def test_alerts_by_id_rule_and_place() -> None:
    """Alerts are found as `alerts` and the screen print them.

    A beginning of an id is enough.
    """
    chip = alert_of("hot", CHIP)
    rack = alert_of("warm", "uc1/us-0001")
    rack.place = "uc1/us-0001"
    rack.rack = "rack-b"
    rack.worst = "uc1/us-0001/trn2u-0001-3/chip01:east"
    rack.labels = labels_of("demo", rack.rule, rack.target, rack="rack-b")
    job = alert_of("slow", "pretrain-70b", scope="job", figure="step_time_s")
    alerts = [chip, rack, job]
    for text, found in [
        (chip.fingerprint, [chip]),
        (chip.fingerprint[:4], [chip]),
        (f" {chip.fingerprint[:7].upper()} ", [chip]),
        (chip.fingerprint[:3], []),
        (chip.fingerprint[1:], []),
        ("hot", [chip]),
        (f"hot {CHIP}", [chip]),
        ("hot trn2u-0001-0/chip05", [chip]),
        (f"warm {CHIP}", []),
        (CHIP, [chip]),
        ("warm uc1/us-0001 rack B", [rack]),
        ("us-0001 rack B", [rack]),
        ("uc1/us-0001/rack-b", [rack]),
        ("warm uc1/us-0001", [rack]),
        ("warm trn2u-0001-3/chip01:east", [rack]),
        ("trn2u-0001-3/chip01", [rack]),
        ("pretrain-70b", [job]),
        ("slow pretrain-70b", [job]),
        ("", []),
        ("cold", []),
    ]:
        assert named(text, alerts) == found, text


@pytest.mark.parametrize(
    ("changed", "target", "annotated", "expected"),
    [
        ({}, CHIP, {"worst": CHIP}, f"{CHIP}: 93.0 °C"),
        (
            {},
            "uc1/us-0001",
            {"rack": "rack-b", "members": 16, "worst": CHIP},
            f"uc1/us-0001 rack B: 93.0 °C, worst {CHIP[12:]}",
        ),
        (
            {"scope": "link", "figure": "link_up", "above": None, "equals": 0.0},
            CHIP,
            {"worst": f"{CHIP}:east", "members": 2},
            f"{CHIP}: 93, first {CHIP[-6:]}:east",
        ),
        ({"summary": "{worst} hot"}, CHIP, {"worst": CHIP, "members": 2}, f"{CHIP} hot"),
        (
            {"scope": "job", "figure": "restarts", "summary": "{value:restart}"},
            "llama",
            {"value": 1.0},
            "job llama: 1 restart",
        ),
        (
            {"scope": "job", "figure": "restarts", "summary": "{value:restart}"},
            "llama",
            {"value": 2.0},
            "job llama: 2 restarts",
        ),
        (
            {
                "scope": "job",
                "figure": "step_time_s",
                "share_of_median_of": "past",
                "past": "30m",
                "title": "step {change}",
                "summary": None,
            },
            "llama",
            {"value": 1.23},
            "job llama: step +23 %",
        ),
        ({"scope": "pipeline", "figure": "lag_s"}, "pipeline", {"value": 2.0}, "fleet demo: 2 s"),
        ({"summary": None}, CHIP, {"worst": CHIP}, f"{CHIP}: hot 93.0 °C"),
    ],
)
def test_a_summary_names_its_place(
    changed: dict[str, Any], target: str, annotated: dict[str, Any], expected: str
) -> None:
    """A text without a place gets it in front, and the worst of several behind."""
    alert = alert_of("hot", target, **{"summary": "{value}", **changed})
    alert.value = 93.0
    for name, value in annotated.items():
        setattr(alert, name, value)
    assert summary(alert) == expected


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, "temperature > 90 °C"),
        (
            {"scope": "pipeline", "figure": "lost", "increase_over": "30s", "above": 5},
            "lost in 30 s > 5",
        ),
        ({"figure": None, "above": None, "absent": True}, "silent"),
        (
            {"figure": "health", "above": None, "has": ["hbm", "sram", "axi_fabric"]},
            "health has hbm, sram or axi_fabric",
        ),
        (
            {"scope": "job", "figure": "state", "above": None, "equals": ["failed", "hung"]},
            "state is failed or hung",
        ),
        (
            {
                "scope": "job",
                "figure": "step_time_s",
                "share_of_median_of": "past",
                "past": "30m",
                "above": 1.1,
            },
            "step time > 110 % of its median of the last 30 min",
        ),
        (
            {
                "scope": "link",
                "figure": "link_tx_bytes_per_s",
                "share_of_median_of": "instance",
                "above": None,
                "below": 0.85,
                "also": [
                    {"figure": "link_up", "equals": 1.0},
                    {"figure": "link_tx_bytes_per_s", "above": 2e9},
                ],
            },
            "link tx < 85 % of the instance's median, link up, link tx > 2 GB/s",
        ),
        ({"scope": "link", "figure": "link_up", "above": None, "equals": 0.0}, "link down"),
    ],
)
def test_conditions_are_written_in_words(changed: dict[str, object], expected: str) -> None:
    """Names without their unit, signs, units that people read, and the median by its owner."""
    assert conditions_text(rule_of(**changed)) == expected
