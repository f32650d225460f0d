from __future__ import annotations

import json
import random
import shutil
import subprocess
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trnfleet.config import validate
from trnfleet.domain.alerts.rule_tests import Case
from trnfleet.domain.alerts.rules import Rule, RuleFile
from trnfleet.monitor.alerting.inputs import LEAST_PEERS
from trnfleet.monitor.alerting.rule_tests.play import Frame, frames
from trnfleet.services.files.rule_tests import run_tests

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


pytestmark = pytest.mark.skipif(
    shutil.which("promtool") is None,
    reason="promtool is not installed: nothing to hold the alert engine against",
)

HOST = "uc1/us-0001/trn2u-0001-0"
STEPS = 48
INTERVAL_S = 60.0
LOOKBACK_S = 300.0
"""How long a sample holds in Prometheus."""
FIGURES = {"power_w": 0.5, "temperature_c": 0.5, "tflops": 0.25}
"""Figures of chips with a step that both their codes and floating point have exactly."""


class Pair(NamedTuple):
    """A rule as trnfleet and as Prometheus has it."""

    ours: dict[str, Any]
    theirs: dict[str, Any]


def pair(
    name: str, scope: str, expression: str, for_minutes: int, keep_minutes: int, **condition: Any
) -> Pair:
    ours = {
        "name": name,
        "scope": scope,
        "severity": "warning",
        "summary": "compared with Prometheus",
        "when_silent": "resolve",
        "for": f"{for_minutes}m",
        "keep_firing_for": f"{keep_minutes}m",
        **condition,
    }
    theirs = {
        "alert": name,
        "expr": expression,
        "for": f"{for_minutes}m",
        **({"keep_firing_for": f"{keep_minutes}m"} if keep_minutes else {}),
    }
    return Pair(ours, theirs)


def play(
    pairs: Sequence[Pair], series: Sequence[dict[str, str]], stale_after_s: float
) -> list[Frame]:
    """Return the alerts of every minute."""
    rules: tuple[Rule, ...] = validate(
        {"rules": [each.ours for each in pairs]}, RuleFile, "rules"
    ).rules
    case = validate(
        {"name": "same", "series": list(series), "expect": [{"at": 0, "rule": rules[0].name}]},
        Case,
        "case",
    )
    played = frames(case, rules, interval_s=INTERVAL_S, stale_after_s=stale_after_s, flapping=False)
    return [next(played) for _ in range(STEPS)]


def labels_of(target: str) -> dict[str, str]:
    """Return Prometheus's labels of a target."""
    return {"chip": target.rpartition("/")[2]} if "/" in target else {"name": target}


def ask(
    folder: Path, pairs: Sequence[Pair], series: Sequence[dict[str, str]], played: Sequence[Frame]
) -> str:
    """Compare alerts with Prometheus at every minute, and return promtool's output.

    Empty if both agree.
    """
    names = [each.theirs["alert"] for each in pairs]
    rules = {"groups": [{"name": "g", "interval": "1m", "rules": [each.theirs for each in pairs]}]}
    firing = []
    pending = []
    for minute, frame in enumerate(played):
        held = []
        for name in names:
            alerts = frame.get(name, ())
            fires = [
                {"exp_labels": labels_of(each.target)} for each in alerts if each.state == "firing"
            ]
            firing.append({"eval_time": f"{minute}m", "alertname": name, "exp_alerts": fires})
            held += [
                {**labels_of(each.target), "alertname": name}
                for each in alerts
                if each.state == "pending"
            ]
        samples = [
            {
                "labels": "ALERTS{"
                + ",".join(f'{key}="{value}"' for key, value in each.items())
                + ',alertstate="pending"}',
                "value": 1,
            }
            for each in held
        ]
        pending.append(
            {
                "expr": 'ALERTS{alertstate="pending"}',
                "eval_time": f"{minute}m",
                "exp_samples": samples,
            }
        )
    tests = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {
                        "series": each["figure"]
                        + "{"
                        + ",".join(
                            f'{key}="{value}"' for key, value in labels_of(each["target"]).items()
                        )
                        + "}",
                        "values": each["values"],
                    }
                    for each in series
                ],
                "alert_rule_test": firing,
                "promql_expr_test": pending,
            }
        ],
    }
    # JSON is YAML.
    (folder / "rules.yml").write_text(json.dumps(rules), encoding="utf-8")
    (folder / "tests.yml").write_text(json.dumps(tests), encoding="utf-8")
    done = subprocess.run(
        ["promtool", "test", "rules", "tests.yml"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0 or "FAILED" in said, said
    return "" if done.returncode == 0 else said


@st.composite
def values(draw: st.DrawFn, step: float, top: float, *, gaps: bool = True) -> str:
    """Return a series that begins with a sample: noise, ramps, plateaus, gaps and stale markers."""
    dice = random.Random(draw(st.integers(0, 2**32 - 1)))  # noqa: S311  not for secrets
    length = 0
    tokens: list[str] = []

    def number(most: float = top) -> float:
        return step * dice.randint(0, max(0, int(most / step)))

    while length < STEPS:
        kind = dice.choice(
            [
                "noise",
                "noise",
                "level",
                "level",
                "up",
                "down",
                *(["gap", "stale"] if gaps and tokens else []),
            ]
        )
        count = dice.randint(1, 9)
        if kind == "noise":
            tokens += [f"{number():g}" for _ in range(count)]
        elif kind == "level":
            tokens.append(f"{number():g}x{count}")
        elif kind == "up":
            tokens.append(f"{number():g}+{number(top / 8):g}x{count}")
        elif kind == "down":
            by = number(top / 8)
            tokens.append(f"{by * count + number():g}-{by:g}x{count}")
        elif kind == "gap":
            tokens.append(f"_x{count}")
        else:
            tokens.append("stale")
        length += count + 1
    return " ".join(tokens)


minutes = st.integers(0, 5)


@st.composite
def of_the_moment(draw: st.DrawFn) -> tuple[list[Pair], list[dict[str, str]]]:
    """Return rules on current values and on silence, and series for a few chips."""
    chips = [f"chip{number:02d}" for number in range(3)]
    series = [
        {"figure": figure, "target": f"{HOST}/{chip}", "values": draw(values(step, 10 * step))}
        for figure, step in FIGURES.items()
        for chip in chips
    ]
    pairs = []
    signs = {"above": ">", "below": "<", "equals": "=="}
    for figure, step in FIGURES.items():
        for comparison, sign in signs.items():
            limit = step * draw(st.integers(1, 9))
            pairs.append(
                pair(
                    f"{figure}-{comparison}".replace("_", "-"),
                    "chip",
                    f"{figure} {sign} {limit}",
                    draw(minutes),
                    draw(minutes),
                    figure=figure,
                    **{comparison: limit},
                )
            )
    # Chips with one figure alone, so that its gaps are their silence.
    alone = ["chip03", "chip04"]
    series += [
        {"figure": "power_w", "target": f"{HOST}/{chip}", "values": draw(values(0.5, 5.0))}
        for chip in alone
    ]
    any_of = "|".join(FIGURES)
    silent = " or ".join(
        f'absent({{__name__=~"{any_of}",chip="{chip}"}})' for chip in [*chips, *alone]
    )
    pairs.append(pair("silent", "chip", silent, draw(minutes), draw(minutes), absent=True))
    both = pair(
        "both",
        "chip",
        "power_w > 2 and temperature_c < 3",
        draw(minutes),
        draw(minutes),
        figure="power_w",
        above=2,
        also=[{"figure": "temperature_c", "below": 3}],
    )
    return [*pairs, both], series


@st.composite
def over_windows(draw: st.DrawFn) -> tuple[list[Pair], list[dict[str, str]]]:
    """Return rules on five minutes of job figures, and series for three jobs."""
    series = [
        {
            "figure": figure,
            "target": f"job-{number}",
            "values": draw(values(1.0, 4.0)),
            "scope": "job",
        }
        for figure in ("step_time_s", "batch")
        for number in range(3)
    ]
    pairs = []
    for figure in ("step_time_s", "batch"):
        # Prometheus 2's windows hold both their ends, these only the present one.
        for key, function, limit in (
            ("changes_over", "changes", draw(st.integers(0, 3))),
            ("max_over", "max_over_time", draw(st.integers(0, 3))),
            # No mean of five whole numbers at most comes near it, so that rounding decides nothing.
            ("mean_over", "avg_over_time", draw(st.integers(0, 3)) + 0.37),
        ):
            expression = f"{function}({figure}[299s]) > {limit}"
            if key != "changes_over":
                expression += f" and count_over_time({figure}[299s]) >= {LEAST_PEERS}"
            pairs.append(
                pair(
                    f"{figure}-{key}".replace("_", "-"),
                    "job",
                    expression,
                    draw(minutes),
                    draw(minutes),
                    figure=figure,
                    above=limit,
                    **{key: "5m"},
                )
            )
    return pairs, series


BOUNDED = settings(
    max_examples=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@BOUNDED
@given(drawn=of_the_moment())
def test_values_of_the_moment_agree(
    tmp_path: Path, drawn: tuple[list[Pair], list[dict[str, str]]]
) -> None:
    """Pending, firing and resolved are at every minute as in Prometheus.

    Covers limits, equality, silence, two conditions.
    """
    pairs, series = drawn
    played = play(pairs, series, LOOKBACK_S)

    assert ask(tmp_path, pairs, series, played) == ""


@BOUNDED
@given(drawn=over_windows())
def test_windows_agree(tmp_path: Path, drawn: tuple[list[Pair], list[dict[str, str]]]) -> None:
    """Changes, maximum and mean over a window are as in Prometheus.

    Covers gaps, and resets of the known values.
    """
    pairs, series = drawn
    # What is looked at in a window are samples, not what is carried on from them.
    played = play(pairs, series, 1.0)

    assert ask(tmp_path, pairs, series, played) == ""


KNOWN = pair("hot", "chip", "temperature_c > 90", 2, 3, figure="temperature_c", above=90)
SERIES = {
    "figure": "temperature_c",
    "target": f"{HOST}/chip00",
    "values": "80 91x5 80x9 91 _x9 80x30",
}


def test_a_known_course_is_the_same_in_both(tmp_path: Path) -> None:
    """A course written by hand: `rules test` accepts it, and so does promtool."""
    firing = [*range(3, 10), *range(19, 26)]
    pending = [1, 2, 17, 18]
    expect = [
        {
            "at": f"{minute}m",
            "rule": "hot",
            "alerts": [{"target": SERIES["target"], "state": state}],
        }
        for state, minutes_ in (("firing", firing), ("pending", pending))
        for minute in minutes_
    ]
    expect += [
        {"at": f"{minute}m", "rule": "hot"}
        for minute in range(STEPS)
        if minute not in {*firing, *pending}
    ]
    write(tmp_path / "hot.toml", {"rules": [KNOWN.ours]})
    content = {
        "rules": ["hot.toml"],
        "interval": "1m",
        "stale_after": "5m",
        "flapping": False,
        "tests": [{"name": "a hot chip", "series": [SERIES], "expect": expect}],
    }
    write(tmp_path / "tests.toml", content)

    assert run_tests(tmp_path / "tests.toml") == (1, [])
    assert ask(tmp_path, [KNOWN], [SERIES], play([KNOWN], [SERIES], LOOKBACK_S)) == ""


@pytest.mark.parametrize(
    "broken",
    [
        KNOWN._replace(ours={**KNOWN.ours, "for": "3m"}),
        KNOWN._replace(ours={**KNOWN.ours, "keep_firing_for": "4m"}),
        KNOWN._replace(ours={**KNOWN.ours, "above": 91}),
        KNOWN._replace(ours={**KNOWN.ours, "when_silent": "hold"}),
    ],
    ids=["for", "keep_firing_for", "limit", "silence"],
)
def test_the_comparison_can_fail(tmp_path: Path, broken: Pair) -> None:
    """A rule an interval or a limit away from Prometheus's is found different."""
    said = ask(tmp_path, [broken], [SERIES], play([broken], [SERIES], LOOKBACK_S))

    assert "FAILED" in said
    assert "hot" in said


def write(path: Path, content: dict[str, Any]) -> None:
    """Write plain data as TOML: arrays and tables in line."""
    path.write_text(
        "".join(f"{key} = {toml(value)}\n" for key, value in content.items()), encoding="utf-8"
    )


def toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml(each) for each in value) + "]"
    return json.dumps(value)
