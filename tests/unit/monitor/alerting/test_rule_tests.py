from __future__ import annotations

from typing import Any

import pytest
from support.monitor.rules import rule_of

from trnfleet.config import validate
from trnfleet.domain.alerts.rule_tests import CaseFile
from trnfleet.errors import ConfigError
from trnfleet.monitor.alerting.rule_tests.play import Frame, RuleTest, play

US = "uc1/us-0001"
HOST = f"{US}/trn2u-0"
CHIP = f"{HOST}/chip00"
ABSENT = rule_of(name="silent", figure=None, above=None, absent=True)


def file_of(expect: list[dict[str, Any]], **keys: Any) -> CaseFile:
    return validate({"tests": [{"name": "t", "expect": expect, **keys}]}, CaseFile, "t.toml")


def frames_of(*rules: Any, steps: int, stale_after_s: float = 30.0, **keys: Any) -> list[Frame]:
    file = file_of([{"at": 0, "rule": rules[0].name}], **keys)
    trial = RuleTest(file.tests[0], rules, interval_s=10.0, stale_after_s=stale_after_s)
    return [trial.advance() for _ in range(steps)]


def steps_of(frames: list[Frame], rule: str, target: str | None = None) -> list[int]:
    """Return the steps with an alert of a rule, about a target or any."""
    return [
        step
        for step, frame in enumerate(frames)
        if any(target in {None, each.target} for each in frame.get(rule, ()))
    ]


def series(figure: str, target: str, values: str, **more: Any) -> dict[str, Any]:
    return {"figure": figure, "target": target, "values": values, **more}


def test_a_sample_holds_until_it_is_too_old() -> None:
    """A sample counts up to the maximum age, even after the end of its series.

    Beyond it the chip is silent.
    """
    frames = frames_of(
        rule_of(when_silent="resolve"),
        ABSENT,
        steps=10,
        series=[series("temperature_c", CHIP, "95 _x9")],
    )

    assert steps_of(frames, "hot") == [0, 1, 2, 3]
    assert steps_of(frames, "silent") == [4, 5, 6, 7, 8, 9]
    ended = frames_of(
        rule_of(when_silent="resolve"), steps=10, series=[series("temperature_c", CHIP, "95")]
    )
    assert steps_of(ended, "hot") == [0, 1, 2, 3]


def test_stale_is_at_once() -> None:
    """From the marker on nothing is known, until the next sample."""
    frames = frames_of(
        rule_of(when_silent="resolve"),
        ABSENT,
        steps=6,
        series=[series("temperature_c", CHIP, "95x1 stale _ 95 95")],
    )

    assert steps_of(frames, "hot") == [0, 1, 4, 5]
    assert steps_of(frames, "silent") == [2, 3]


def test_what_has_not_come_yet_is_awaited() -> None:
    """A chip without samples is silent after the maximum age; without a series, never."""
    frames = frames_of(ABSENT, steps=7, series=[series("temperature_c", CHIP, "_x5 20 20")])

    assert steps_of(frames, "silent") == [4]
    assert steps_of(frames, "silent", f"{HOST}/chip01") == []


def test_a_figure_can_go_while_its_chip_lives() -> None:
    """A missing figure is not available while another one shows its chip live."""
    frames = frames_of(
        rule_of(),
        ABSENT,
        steps=4,
        series=[series("temperature_c", CHIP, "95 stale _ _"), series("power_w", CHIP, "100x9")],
    )

    assert steps_of(frames, "hot") == [0]
    assert steps_of(frames, "silent") == []


def test_a_figure_of_a_host_comes_with_its_chips() -> None:
    """A host figure makes its chips live; a chip roll-up uses their series."""
    rules = (
        rule_of(name="busy", scope="instance", figure="vcpu_util_pct", above=80),
        rule_of(name="warm", scope="instance", figure="power_w", above=1_500),
        ABSENT,
    )
    frames = frames_of(
        *rules,
        steps=3,
        series=[
            series("vcpu_util_pct", HOST, "50 90 90"),
            series("power_w", f"{HOST}/chip00..chip03", "300 400 400"),
        ],
    )

    assert steps_of(frames, "busy") == steps_of(frames, "warm") == [1, 2]
    assert frames[1]["warm"][0].value == 1_600.0
    assert steps_of(frames, "silent") == []


def test_links_and_cores_have_their_lanes() -> None:
    """A link's or core's series sets one lane, a chip's all lanes."""
    rules = (
        rule_of(name="down", scope="link", figure="link_up", above=None, equals=0.0, group="none"),
        rule_of(
            name="idle", scope="core", figure="nc_util_pct", above=None, below=10, group="none"
        ),
    )
    frames = frames_of(
        *rules,
        steps=3,
        series=[
            series("link_up", f"{CHIP}:east", "1 0 1"),
            series("link_up", f"{HOST}/chip05:z_next", "1 1 0"),
            series("nc_util_pct", CHIP, "50x3"),
            series("nc_util_pct", f"{CHIP}/nc3", "50 50 5"),
        ],
    )

    assert [[each.target for each in frame.get("down", ())] for frame in frames] == [
        [],
        [f"{CHIP}:east"],
        [f"{HOST}/chip05:z_next"],
    ]
    assert [[each.target for each in frame.get("idle", ())] for frame in frames] == [
        [],
        [],
        [f"{CHIP}/nc3"],
    ]


def test_jobs_have_states_and_the_figures_of_their_chips() -> None:
    """A job's series overrides the test's job list; chip figures are rolled up."""
    rules = (
        rule_of(name="hung", scope="job", figure="state", above=None, equals="hung"),
        rule_of(name="draws", scope="job", figure="power_w", above=500),
    )
    frames = frames_of(
        *rules,
        steps=3,
        jobs=[{"name": "train", "on": [HOST]}, {"name": "tune", "state": "hung"}],
        series=[
            series("state", "train", '"running" "hung" "running"', scope="job"),
            series("power_w", f"{HOST}/chip00..chip01", "200 200 300"),
        ],
    )

    assert steps_of(frames, "hung", "train") == [1]
    assert steps_of(frames, "hung", "tune") == [0, 1, 2]
    assert steps_of(frames, "draws", "train") == [2]


def test_events_come_with_the_interval_in_which_they_fall() -> None:
    """An event between two evaluations is seen by the second one."""
    rule = rule_of(
        name="told",
        scope="instance",
        figure="events",
        named=["fault"],
        above=0,
        increase_over="15s",
    )
    frames = frames_of(
        rule,
        steps=6,
        series=[series("power_w", HOST, "100x9")],
        events=[
            {"at": "15s", "name": "fault", "path": CHIP},
            {"at": "20s", "name": "other", "path": CHIP},
        ],
    )

    assert steps_of(frames, "told", HOST) == [2, 3]


def test_the_evaluation_before_an_instant_counts() -> None:
    """An expectation between two evaluations refers to the first one."""
    expect = [
        {"at": at, "rule": "hot", "alerts": [{"target": CHIP}] if hot else []}
        for at, hot in (("9.9s", False), ("10s", True), ("19.999s", True), ("20s", False))
    ]
    file = file_of(expect, series=[series("temperature_c", CHIP, "20 95 20")])

    assert play(file.tests[0], (rule_of(),), file) == []
    wrong = file_of(
        [{**each, "alerts": []} for each in expect],
        series=[series("temperature_c", CHIP, "20 95 20")],
    )
    assert [each.at_s for each in play(wrong.tests[0], (rule_of(),), wrong)] == [10.0, 19.999]


@pytest.mark.parametrize(
    ("flapping", "steps"), [(True, [1, 3, 5, *range(7, 14)]), (False, [1, 3, 5, 7, 9])]
)
def test_flapping_can_be_left_out(flapping: bool, steps: list[int]) -> None:
    """Flapping alerts are held as in `watch`, but not in Prometheus mode."""
    expect = [
        {"at": step * 10, "rule": "hot", "alerts": [{"target": CHIP}] if step in steps else []}
        for step in range(14)
    ]
    data = {
        "flapping": flapping,
        "tests": [
            {
                "name": "t",
                "expect": expect,
                "series": [series("temperature_c", CHIP, "20 95 20 95 20 95 20 95 20 95 20x9")],
            }
        ],
    }
    file = validate(data, CaseFile, "t.toml")

    assert play(file.tests[0], (rule_of(),), file) == []


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"series": [series("power_w", "uc9", "1")]}, "'uc9' is not there"),
        ({"series": [series("power_w", f"{HOST}/chip77", "1")]}, "chip77' is not there"),
        ({"series": [series("nc_util_pct", f"{CHIP}/nc9", "1")]}, "is not a core"),
        ({"series": [series("link_up", f"{CHIP}:east", "0.5")]}, "link_up 0.5 is neither 0 nor 1"),
        (
            {"series": [series("power_w", CHIP, "70000")]},
            "power_w 70000.0 is outside 0 to 6553.4 W",
        ),
        ({"instances": [{"address": HOST, "type": "trn9.big"}]}, "trn9.big"),
        (
            {"jobs": [{"name": "train", "on": ["uc9"]}]},
            "job train runs on 'uc9', which is not there",
        ),
    ],
)
def test_what_is_not_there_is_said(keys: dict[str, Any], said: str) -> None:
    """With the test's name, in one line."""
    with pytest.raises(ConfigError) as caught:
        frames_of(rule_of(), steps=1, **keys)

    assert str(caught.value).startswith("test 't': ")
    assert said in str(caught.value)


def test_an_unknown_rule_is_said() -> None:
    """An expectation about an unknown rule is refused: it could never fail."""
    file = file_of([{"at": 0, "rule": "hott"}])
    with pytest.raises(ConfigError, match="test 't': no rule 'hott': did you mean 'hot'"):
        play(file.tests[0], (rule_of(),), file)
