from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnfleet.domain.alerts.matchers import (
    LONGEST,
    MOST_MATCHERS,
    Matcher,
    all_match,
    parse_matchers,
)
from trnfleet.errors import ConfigError

LABELS = {
    "alertname": "hbm-uncorrectable",
    "severity": "critical",
    "instance": "uc1/us-0001/trn2u-0001-0",
    "job": "",
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('severity="critical"', True),
        ("severity=critical", True),
        (" severity = critical ", True),
        ('severity="warning"', False),
        ('severity!="warning"', True),
        ('severity!="critical"', False),
        ('alertname=~"hbm.*"', True),
        ('alertname=~"hbm"', False),
        ('alertname=~"ecc-rate|hbm-uncorrectable"', True),
        ('alertname!~"hbm.*"', False),
        ('alertname!~"sram.*"', True),
        ('instance="uc1/us-0001/trn2u-0001-0"', True),
        ('chip=""', True),
        ('job=""', True),
        ('chip!=""', False),
        ('chip=~".+"', False),
        (r'alertname=~"hbm\-uncorrectable"', True),
        ('alertname=~"[*+?|.]*[a-z-]+"', True),
    ],
)
def test_it_matches_as_alertmanager_does(text: str, expected: bool) -> None:
    """Four operators, whole values, and a label that is not there is the empty text."""
    assert Matcher.parse(text).matches(LABELS) is expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "write it as label"),
        ("severity", "write it as label"),
        ("0job=x", "write it as label"),
        ("job-name=x", "write it as label"),
        ('job="x', "a quote is missing"),
        ('job=x"', "a quote is missing"),
        ('job=~"("', "no regular expression"),
        ('job=~"[[a]"', "no regular expression"),
        ('job=~"(a+)+b"', "take for ever"),
        ('job=~"(a|b){9}"', "take for ever"),
        ('job=~"a{1,999}"', "take for ever"),
        (r'job=~"(a)\1"', "take for ever"),
        ('job=~"(?i)a"', "take for ever"),
        ('job=~"[ab]*[ab]*[ab]*[ab]*c"', "take for ever"),
        ('job=~"' + "a?" * 28 + "a" * 28 + '"', "take for ever"),
        ('job=~"' + "(a|)" * 28 + 'b"', "take for ever"),
        ('job=~"' + "((a|b)|c)" * 20 + 'b"', "take for ever"),
        ('job=~"' + "*" * 380 + '"', "take for ever"),
        ('job=~"' + "a*" * 190 + '"', "take for ever"),
        ("job=" + "x" * LONGEST, "write it as label"),
    ],
)
def test_what_is_no_matcher_is_refused(text: str, said: str) -> None:
    """A refusal shows the matcher, cut short, and says what is wrong."""
    with pytest.raises(ConfigError, match="matcher") as caught:
        Matcher.parse(text)

    assert said in str(caught.value)
    assert len(str(caught.value)) < 320


@given(st.text("ab.*+?|()[]\\^-{}1", max_size=60), st.sampled_from(["a", "ab", "b-"]))
def test_every_accepted_pattern_ends_soon(pattern: str, part: str) -> None:
    """No pattern that is taken keeps anybody waiting, however long and alike the label."""
    with contextlib.suppress(ConfigError):
        matcher = Matcher("job", "=~", Matcher.parse(f"job=~{pattern}").value)
        begun = time.process_time()
        matcher.matches({"job": part * LONGEST})
        assert time.process_time() - begun < 1.0


@pytest.mark.parametrize(
    "pattern",
    ["[ab]*[ab]*[ab]*c", "a?" * 20 + "a" * 20 + "b", "(a|)" * 20 + "b", "(a|aa|)" * 12 + "b"],
)
def test_the_dearest_that_is_taken_ends_soon(pattern: str) -> None:
    """What is just allowed takes less than a second on the longest label."""
    matcher = Matcher.parse(f'job=~"{pattern}"')

    begun = time.process_time()
    matcher.matches({"job": "a" * LONGEST})

    assert time.process_time() - begun < 1.0


@given(st.text(max_size=100))
def test_what_is_written_is_read_again(value: str) -> None:
    """Quotes and backslashes in a value survive being written and read."""
    matcher = Matcher("job", "=", value)

    assert Matcher.parse(str(matcher)) == matcher


def test_all_of_a_silence_must_match() -> None:
    """One matcher that does not hold is enough for none."""
    both = parse_matchers(['severity="critical"', 'alertname=~"hbm.*"'])
    other = parse_matchers(['severity="critical"', 'alertname="ecc-rate"'])

    assert all_match(both, LABELS)
    assert not all_match(other, LABELS)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ([], "needs a matcher"),
        (["a=b"] * (MOST_MATCHERS + 1), f"at most {MOST_MATCHERS}"),
        (['job=""'], "nearly all"),
        (['job=~".*"'], "nearly all"),
        (['job!="x"', 'chip!~"y"'], "nearly all"),
    ],
)
def test_a_silence_for_everything_is_refused(texts: list[str], said: str) -> None:
    """At least one matcher must exclude some alert: one that matches every alert excludes none."""
    with pytest.raises(ConfigError, match=said):
        parse_matchers(texts)
