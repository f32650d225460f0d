from __future__ import annotations

from typing import Any

import pytest
from support.monitor.rules import HOT, rule_of, rules_of

from trnfleet.domain.address import Level
from trnfleet.domain.alerts.conditions import COMPARISON_KEYS
from trnfleet.domain.alerts.rules import Group, RuleFile, inhibitors, join_rules
from trnfleet.domain.metrics import Provider
from trnfleet.errors import ConfigError

JOB = {"scope": "job", "figure": "state", "above": None, "equals": "hung"}
PIPELINE = {"scope": "pipeline", "figure": "lost", "increase_over": "30s"}
LINK = {"scope": "link", "figure": "link_up", "above": None, "equals": 0.0}
HOT_TOO = {"figure": "temperature_c", "above": 85}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({**JOB, "changes_over": "10m"}, "changes_over is a number"),
        ({**JOB, "max_over": "10m"}, "only equals or changes_over goes with it"),
        ({"name": None}, "key 'rules.0.name' is missing"),
        ({"name": "a b"}, "rules.0.name = 'a b'"),
        ({"abov": 3}, "unknown key 'rules.0.abov': did you mean 'above'?"),
        ({"scope": "chips"}, "rules.0.scope = 'chips'"),
        ({"severity": "bad"}, "rules.0.severity = 'bad'"),
        ({"above": None}, f"give one of {', '.join(COMPARISON_KEYS)}, not none"),
        ({"below": 3}, "not above and below"),
        ({"absent": True, "above": None}, "give either figure or absent = true"),
        ({"figure": None}, "give either figure or absent = true"),
        ({"above": float("inf")}, "rules.0.above = inf"),
        ({"above": "90"}, "rules.0.above = '90'"),
        ({"figure": "temprature_c"}, "no figure 'temprature_c': did you mean 'temperature_c'?"),
        ({"figure": "step_time_s"}, "the scope chip has no figure 'step_time_s'"),
        ({"clear": 91}, "clear = 91 must not be above 90"),
        ({"above": None, "below": 10, "clear": 9}, "clear = 9 must not be below 10"),
        ({"above": None, "equals": 10, "clear": 9}, "clear goes with above or below"),
        ({"for": "soon"}, "'soon' is not a duration"),
        ({"for": -1}, "rules.0.for = -1"),
        ({"increase_over": "1m"}, "temperature_c is not a counter"),
        ({"figure": "mem_ecc_corrected"}, "is a counter, which only grows"),
        ({"above": None, "total_above": 0}, "temperature_c is not a counter"),
        (
            {"figure": "events", "named": ["xid"], "above": None, "total_above": 0},
            "events is a counter, which only grows",
        ),
        (
            {"scope": "instance", "figure": "exec_errors", "above": None, "unchanged_for": "2m"},
            "unchanged_for is for chips, not for instance",
        ),
        (
            {
                "figure": "exec_errors",
                "above": None,
                "unchanged_for": "2m",
                "share_of_median_of": "job",
            },
            "unchanged_for stands alone",
        ),
        ({"figure": "mem_ecc_corrected", "increase_over": "2d"}, "longer than 86400 s"),
        (
            {"figure": "mem_ecc_corrected", "increase_over": "1m", "rate_over": "1m"},
            "exclude each other",
        ),
        (
            {"figure": "mem_ecc_corrected", "increase_over": "1m", "minus_median_of": "job"},
            "does not go with a median",
        ),
        ({"max_over": "1m"}, "max_over is for jobs"),
        ({"minus_median_of": "job", "share_of_median_of": "job"}, "exclude each other"),
        ({"minus_median_of": "instance"}, "rules.0.minus_median_of = 'instance'"),
        ({"share_of_median_of": "past"}, 'past goes with share_of_median_of = "past"'),
        ({"past": "1h"}, 'past goes with share_of_median_of = "past"'),
        ({"share_of_median_of": "past", "past": "1h"}, "is for jobs, reservations"),
        (
            {"scope": "instance", "minus_median_of": "job"},
            "a median of the job is for chips and links",
        ),
        ({"figure": "health"}, "health is a bit mask: only has goes with it"),
        (
            {"figure": "health", "above": None, "has": ["hbmm"]},
            "health has no bit 'hbmm': did you mean 'hbm'?",
        ),
        ({"above": None, "has": ["hbm"]}, "temperature_c is not a bit mask"),
        ({"above": None, "equals": "hot"}, "temperature_c is not text"),
        ({**JOB, "equals": 3.0}, "state is a text: only equals or changes_over goes with it"),
        (
            {**JOB, "equals": None, "above": 1},
            "state is a text: only equals or changes_over goes with it",
        ),
        ({**JOB, "group": "instance"}, "group goes with scopes that have addresses, not with job"),
        (
            {**JOB, "figure": None, "equals": None, "absent": True},
            "absent goes with the scopes chip",
        ),
        ({**PIPELINE, "increase_over": None}, "lost is a counter, which only grows"),
        ({"figure": "events"}, "events is a counter, which only grows"),
        ({"figure": "events", "increase_over": "1m"}, 'named goes with figure = "events"'),
        ({"named": ["xid"]}, 'named goes with figure = "events"'),
        ({"scope": "instance", "group": "chip"}, "is below the scope instance"),
        ({"group": "rack"}, "rules.0.group = 'rack'"),
        ({"labels": {"instance": "x"}}, "labels: 'instance' is set by itself"),
        ({"labels": {"a-b": "x"}}, "rules.0.labels"),
        ({"summary": "{wurst} is hot"}, "{wurst} is not a placeholder: did you mean 'worst'?"),
        ({"summary": "{worst is hot"}, "expected '}'"),
        ({"summary": "{}"}, "{} is not a placeholder"),
        (
            {"summary": "{value:9999999d}"},
            "{value:9999999d}: a noun goes with count, links, value alone",
        ),
        (
            {"title": "{worst:chip}"},
            "{worst:chip}: a noun goes with count, links, value alone, as in {value:error}",
        ),
        ({"summary": "{worst.__class__}"}, "is not a placeholder"),
        ({"summary": "{value!r}"}, "is not a placeholder"),
        (
            {"also": [{"figure": "tflops", "below": 1, "clear": 2}]},
            "clear stands beside the rule's own condition",
        ),
        (
            {"also": [{"figure": "exec_errors", "above": 1, "increase_over": "1m"}]},
            "looks at the value of the moment",
        ),
        ({"also": [{"figure": "tflop", "below": 1}]}, "did you mean 'tflops'?"),
        ({"also": [{"figure": "tflops", "below": 1}] * 9}, "rules.0.also"),
        (
            {"runbook_url": "Look at it."},
            "rules.toml: in 'hot': rules.0.runbook_url = 'Look at it.': not a URL such as https://",
        ),
        (
            {"runbook_url": "ftp://wiki.example/hot"},
            "rules.0.runbook_url = 'ftp://wiki.example/hot': not a URL",
        ),
        ({"runbook_url": "https:///hot"}, "not a URL such as https://"),
        ({"runbook_url": "https://[::/hot"}, "not a URL such as https://"),
        ({"runbook_url": "https://ann:secret@wiki.example/hot"}, "a URL with a user name"),
        ({"runbook_url": "https://wiki.example/a b"}, "without blanks and quotes"),
        ({"runbook_url": "https://wiki.example/\x1b[31m"}, "only printable ASCII"),
        ({"runbook_url": "https://wiki.example/" + "x" * 380}, "rules.0.runbook_url"),
        ({"when_silent": "maybe"}, "rules.0.when_silent = 'maybe'"),
    ],
)
def test_what_is_wrong_with_a_rule_is_said(changed: dict[str, Any], said: str) -> None:
    """Each refusal is one line with the file, the key or figure, and valid values."""
    with pytest.raises(ConfigError) as caught:
        rule_of(**changed)

    message = str(caught.value)
    assert message.startswith("rules.toml: ")
    assert said in message
    assert "\n" not in message


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"clear": 90},
        {"runbook_url": "https://wiki.example:8443/runbooks/hot?for=chips#now"},
        {"clear": 80, "for": "10s", "keep_firing_for": 30},
        {"above": None, "below": 10, "clear": 10},
        {"above": None, "equals": 10},
        {"figure": "mem_ecc_corrected", "rate_over": "5m"},
        {"figure": "health", "above": None, "has": ["hbm", "sram"]},
        {"figure": None, "above": None, "absent": True},
        {"minus_median_of": "job"},
        {"figure": "events", "named": ["a", "b"], "increase_over": "1d"},
        {"summary": "{{braces}} {value} of {target}"},
        {"also": [{"figure": "tflops", "below": 1}, {"figure": "health", "has": ["hbm"]}]},
        JOB,
        {**JOB, "equals": ["hung", "failed"]},
        {
            **JOB,
            "above": 3,
            "equals": None,
            "figure": "step_time_s",
            "max_over": "1m",
            "share_of_median_of": "past",
            "past": "1h",
        },
        PIPELINE,
        LINK,
        {**LINK, "group": "chip"},
    ],
)
def test_what_makes_sense_is_taken(changed: dict[str, Any]) -> None:
    """The forms used by the shipped pack are accepted, limits included."""
    assert rule_of(**changed).name == "hot"


def test_a_text_that_changes_is_no_text_any_more() -> None:
    """How often a text changed is a number, so it is compared with one."""
    made = rule_of(**{**JOB, "equals": None, "above": 3, "changes_over": "10m"})

    assert made.comparison.key == "above"


def test_links_and_cores_are_grouped_by_instance() -> None:
    """By default an alert has one chip, and all links or cores of an instance."""
    assert rule_of().grouping is Group.NONE
    assert rule_of(**LINK).grouping is Group.INSTANCE
    assert rule_of(**LINK).group_level is Level.INSTANCE
    assert rule_of(**{**LINK, "group": "none"}).grouping is Group.NONE


@pytest.mark.parametrize(
    ("changed", "sources"),
    [
        ({}, (Provider.OTHERS,)),
        ({"figure": "power_w"}, ()),
        ({"figure": "power_w", "also": [HOT_TOO]}, (Provider.OTHERS,)),
        ({"figure": "hbm_bw_util_pct"}, (Provider.OTHERS,)),
        ({"figure": "links_down", "scope": "instance"}, (Provider.OTHERS,)),
        (LINK, (Provider.OTHERS,)),
        (JOB, (Provider.JOB,)),
        ({"scope": "job", "figure": "efa_tx_bytes_per_s"}, (Provider.JOB,)),
        # Claims of hosts place jobs, too.
        ({"figure": "power_w", "share_of_median_of": "job"}, ()),
        ({"figure": "throttle_pct", "minus_median_of": "job"}, (Provider.OTHERS,)),
        ({"figure": None, "above": None, "absent": True}, ()),
    ],
)
def test_sources_follow_from_the_figures(
    changed: dict[str, Any], sources: tuple[Provider, ...]
) -> None:
    """A rule needs what the metrics below its figures need, and a job's median the job."""
    assert rule_of(**changed).sources == sources


def test_names_are_one_over_all_files() -> None:
    """Two rules with one name are refused with both files.

    So is a rule that inhibits an unknown one.
    """
    one, two = (RuleFile(rules=rules_of(HOT)) for _ in range(2))
    with pytest.raises(
        ConfigError, match=r"b\.toml: rules\.0\.name = 'hot' is there already, in a\.toml"
    ):
        join_rules([("a.toml", one), ("b.toml", two)])

    wrong = RuleFile(rules=rules_of({**HOT, "inhibits": ["hott"]}))
    with pytest.raises(
        ConfigError, match=r"a\.toml: rule hot inhibits 'hott': did you mean 'hot'\?"
    ):
        join_rules([("a.toml", wrong)])


def test_a_star_inhibits_all_but_what_stands_before_it() -> None:
    """`*` is every other rule except earlier ones with `*`; a rule never inhibits itself."""
    rules = rules_of(
        {**HOT, "name": "dead", "inhibits": ["*"]},
        {**HOT, "name": "silent", "inhibits": ["*"]},
        {**HOT, "name": "hot", "inhibits": ["hot"]},
    )

    by = inhibitors(rules)

    assert by == {"dead": (), "silent": ("dead",), "hot": ("dead", "silent")}


@pytest.mark.parametrize(
    "inhibits",
    [
        {"a": ["b"], "b": ["a"], "c": []},
        {"a": ["b"], "b": ["c"], "c": ["a"]},
        {"a": ["*"], "b": [], "c": ["a"]},
    ],
)
def test_rules_that_inhibit_each_other_are_refused(inhibits: dict[str, list[str]]) -> None:
    """Rules that inhibit each other in a circle would never notify and are refused."""
    rules = rules_of(
        *({**HOT, "name": name, "inhibits": names} for name, names in inhibits.items())
    )

    with pytest.raises(ConfigError, match=r" inhibits .*: when all of them fire, none notifies"):
        join_rules([("a.toml", RuleFile(rules=rules))])
