from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnfleet.config import validate
from trnfleet.domain.alerts.rule_tests import (
    MOST_INSTANCES,
    MOST_SAMPLES,
    CaseFile,
    Mark,
    code_of,
    expand_address,
    parse_series,
)
from trnfleet.domain.metrics import BY_NAME
from trnfleet.errors import ConfigError

GAP, STALE = Mark.GAP, Mark.STALE


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 2 3", (1, 2, 3)),
        ("0+10x5", (0, 10, 20, 30, 40, 50)),
        ("5-2x3", (5, 3, 1, -1)),
        ("1x4", (1, 1, 1, 1, 1)),
        ("0x3", (0, 0, 0, 0)),
        ("-2+1.5x3", (-2, -0.5, 1, 2.5)),
        ("-4-1x1", (-4, -5)),
        ("_", (GAP,)),
        ("_x3 1", (GAP, GAP, GAP, 1)),
        ("_x0 1", (1,)),
        ("1 stale _ 2", (1, STALE, GAP, 2)),
        (".5 5. 1e3 -.5E-1 +4", (0.5, 5, 1000, -0.05, 4)),
        ('"running"x2 "hung"', ("running", "running", "running", "hung")),
        (r'"a b" "say \"x3\"" "\\"x1', ("a b", 'say "x3"', "\\", "\\")),
        ("  1\t2\n3 ", (1, 2, 3)),
    ],
)
def test_it_is_promtools_notation(text: str, expected: tuple[object, ...]) -> None:
    """Counts apply to following samples, gaps and stale markers stay, texts are quoted."""
    assert parse_series(text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "there is no sample"),
        ("_x0", "there is no sample"),
        ("1 2y 3", "'2y' is not a sample"),
        ("1x", "'1x' is not a sample"),
        ("1xx3", "'1xx3' is not a sample"),
        ("1+x3", "'1+x3' is not a sample"),
        ("1x-3", "'1x-3' is not a sample"),
        ("_ x3", "'x3' is not a sample"),
        ("nan", "'nan' is not a sample"),
        ("STALE", "'STALE' is not a sample"),
        ("stalex2", "'stalex2' is not a sample"),
        ("0x1F", "'0x1F' is not a sample"),
        ('1 "open', "'\"open' is not a sample"),
        ('"a"b', "'\"a\"b' is not a sample"),
        ("running", "'running' is not a sample"),
        ("1e999", "'1e999' is too large"),
        ("1e308+1e308x5", "'1e308+1e308x5' is too large"),
        ("\u0661", "is not a sample"),
        (f"1x{MOST_SAMPLES}", f"more than {MOST_SAMPLES} samples"),
        ("1x" + "9" * 5_000, f"more than {MOST_SAMPLES} samples"),
    ],
)
def test_what_is_wrong_is_named(text: str, said: str) -> None:
    """A refusal names the token, or the limit."""
    with pytest.raises(ValueError, match=r"sample|too large|at most") as caught:
        parse_series(text)

    assert said in str(caught.value)
    assert len(str(caught.value)) < 200


@given(
    st.lists(
        st.one_of(
            st.floats(allow_nan=False, allow_infinity=False),
            st.just(GAP),
            st.just(STALE),
            st.text(max_size=8),
        ),
        min_size=1,
    )
)
def test_what_is_written_is_read_again(samples: list[float | str | Mark]) -> None:
    """Every list of samples survives writing and reading."""
    written = []
    for sample in samples:
        if isinstance(sample, Mark):
            written.append(sample.value)
        elif isinstance(sample, str):
            quoted = sample.replace("\\", "\\\\").replace('"', '\\"')
            written.append(f'"{quoted}"')
        else:
            written.append(repr(sample))

    assert parse_series(" ".join(written)) == tuple(samples)


@given(st.text('"\\x_+-019.e stale', max_size=200))
def test_anything_is_read_or_refused(text: str) -> None:
    """There is no other error, whatever the text."""
    with contextlib.suppress(ValueError):
        assert parse_series(text)


HOST = "uc1/us-0001/trn2u-0"
EXPECT = [{"at": 0, "rule": "hot"}]


def case(**keys: Any) -> CaseFile:
    return validate({"tests": [{"name": "t", "expect": EXPECT, **keys}]}, CaseFile, "t.toml")


def series(figure: str, target: str, values: str, **more: Any) -> dict[str, Any]:
    return {"figure": figure, "target": target, "values": values, **more}


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (HOST, [HOST]),
        (
            f"{HOST}/chip08..chip11",
            [f"{HOST}/chip08", f"{HOST}/chip09", f"{HOST}/chip10", f"{HOST}/chip11"],
        ),
        (f"{HOST}/chip00..chip00:east", [f"{HOST}/chip00:east"]),
        ("uc1/us-1..us-2/a..a", None),
        ("uc1/us-1..us-2/a-1..a-2", [f"uc1/us-{one}/a-{two}" for one in (1, 2) for two in (1, 2)]),
        (f"{HOST}/chip01..chip00", None),
        (f"{HOST}/chip00..core15", None),
        (f"{HOST}/chip00..", None),
        (f"{HOST}/chip0..chip99999", None),
        ("uc1/us-1..us-999/a-1..a-999", None),
        ("uc1//a", None),
        ("a/b/c/d/e/f", None),
        ("uc1/us 1", None),
    ],
)
def test_ranges_in_addresses(address: str, expected: list[str] | None) -> None:
    """A range in any segment includes both ends.

    An invalid or too wide one is refused.
    """
    if expected is None:
        with pytest.raises(ValueError, match=r"range|not an address|at most"):
            expand_address(address)
    else:
        assert list(expand_address(address)) == expected


def test_instances_follow_from_the_targets() -> None:
    """Standalone instances are Trn2, instances in an UltraServer Trn2u.

    Instances in the file are used as they are.
    """
    (derived,) = case(
        series=[
            series("power_w", f"{HOST}/chip00", "1"),
            series("power_w", "uc1/standalone/a/chip00..chip03", "1"),
            series("power_w", "uc1", "1"),
            series("state", "train", '"running"', scope="job"),
        ]
    ).tests
    assert derived.fleet() == {HOST: "trn2u.48xlarge", "uc1/standalone/a": "trn2.48xlarge"}

    (given,) = case(instances=[{"address": "uc1/us-1/a-1..a-2", "type": "trn1.32xlarge"}]).tests
    assert given.fleet() == {"uc1/us-1/a-1": "trn1.32xlarge", "uc1/us-1/a-2": "trn1.32xlarge"}


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (
            {"series": [series("hbm_used_pct", HOST, "1")]},
            "cannot set 'hbm_used_pct' of an address: did you mean 'hbm_used_bytes'?",
        ),
        (
            {"series": [series("vcpu_util_pct", f"{HOST}/chip00", "1")]},
            "vcpu_util_pct is a figure of an instance",
        ),
        ({"series": [series("link_up", HOST, "1")]}, "is not a link"),
        ({"series": [series("link_up", f"{HOST}/chip00:eats", "1")]}, "did you mean 'east'?"),
        ({"series": [series("link_up", f"{HOST}:east", "1")]}, "is not a chip's address"),
        (
            {"series": [series("nc_util_pct", f"{HOST}/chip00:east", "1")]},
            "nc_util_pct is not a figure of a link",
        ),
        (
            {"series": [series("health", f"{HOST}/chip00", '"hbmm"')]},
            "health has no bit 'hbmm': did you mean 'hbm'?",
        ),
        (
            {"series": [series("state", "train", '"running"')]},
            'choose scope = "job" or "reservation" or "publisher"',
        ),
        (
            {"series": [series("state", "train", "1", scope="job")]},
            "state is a text: put 1 in quotes",
        ),
        ({"series": [series("step_time_s", "train", '"x"')]}, "step_time_s is a number, not 'x'"),
        (
            {"series": [series("power_w", "train", "1", scope="job")]},
            "cannot set 'power_w' of a job",
        ),
        (
            {"series": [series("power_w", "train", "1", scope="chip")]},
            "is not an address of the scope chip",
        ),
        (
            {"series": [series("step_tim_s", "train", "1")]},
            "no figure of a name is called 'step_tim_s': did you mean 'step_time_s'?",
        ),
        (
            {"series": [series("lagg_s", "pipeline", "1")]},
            "cannot set 'lagg_s' of a pipeline: did you mean 'lag_s'?",
        ),
        ({"instances": [{"address": "uc1/us-1"}]}, "is not an instance's address"),
        (
            {"instances": [{"address": f"uc1/us-1/a-1..a-{MOST_INSTANCES + 1}"}]},
            f"at most {MOST_INSTANCES}",
        ),
        ({"jobs": [{"name": "a"}, {"name": "a"}]}, "there are two jobs 'a'"),
        ({"expect": []}, "tests.0.expect"),
        ({"expect": [{"at": -1, "rule": "hot"}]}, "tests.0.expect.0.at = -1"),
        (
            {
                "expect": [
                    {"at": 0, "rule": "hot", "alerts": [{"target": "a", "state": "resolved"}]}
                ]
            },
            "state = 'resolved'",
        ),
        (
            {"expect": [{"at": 0, "rule": "hot", "alerts": [{"target": "a", "value": True}]}]},
            "value",
        ),
    ],
)
def test_what_is_wrong_with_a_test_is_said(keys: dict[str, Any], said: str) -> None:
    """One line names the file, the figure or key, and a valid value."""
    with pytest.raises(ConfigError) as caught:
        case(**keys)

    assert str(caught.value).startswith("t.toml: ")
    assert said in str(caught.value)


def test_two_tests_have_two_names() -> None:
    """A difference is reported under its test's name, so there is one of each."""
    both = [{"name": "t", "expect": EXPECT}] * 2
    with pytest.raises(ConfigError, match="there are two tests 't'"):
        validate({"tests": both}, CaseFile, "t.toml")


def test_a_sample_holds_three_intervals_by_default() -> None:
    """Unless the file says otherwise."""
    tests = [{"name": "t", "expect": EXPECT}]
    assert validate({"interval": "20s", "tests": tests}, CaseFile, "t").stale_after_s == 60.0
    assert validate({"stale_after": "5m", "tests": tests}, CaseFile, "t").stale_after_s == 300.0


def test_samples_become_codes() -> None:
    """Numbers become metric codes, bit names a mask, and nothing an empty mask."""
    assert code_of("power_w", 12.34) == 123
    assert code_of("health", "hbm+firmware_service_api") == 0b101
    assert code_of("health", "") == 0
    assert code_of("links_up", "north+z_next") == 0b100001
    with pytest.raises(ValueError, match="outside"):
        code_of("power_w", float(BY_NAME["power_w"].top))
