from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnfleet.domain.alerts.matchers import (
    MOST_MATCHERS,
    Matcher,
    all_match,
    parse_matchers,
    split_matchers,
)
from trnfleet.domain.expressions import LONGEST, MOST_STEPS, expression
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
        ('alertname=~"(?i)HBM-Uncorrectable"', True),
        ('alertname=~"HBM-Uncorrectable"', False),
        (r'instance=~"uc1/us-\d{4}/.*"', True),
        (r'instance=~"uc1/us-\d{5}/.*"', False),
        ('instance=~"(uc1/.*|uc2/.*|uc3/.*)"', True),
        ('instance=~"(uc2/.*|uc3/.*|uc4/.*)"', False),
        ('"alertname"="hbm-uncorrectable"', True),
        ('job=~"(a+)+b"', False),
        (
            'alertname=~"' + "|".join(f"host-{number:04d}" for number in range(100)) + '|hbm.*"',
            True,
        ),
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
        ('job=~"("', "not a valid regular expression: missing ): ("),
        ('job=~"*exec"', "no argument for repetition operator: *"),
        (r'job=~"(a)\\1"', "invalid escape sequence"),
        ('job=~"(?=a)"', "invalid perl operator: (?="),
        ('job=~"a{1001}"', "invalid repetition size: {1001}"),
        (r'job=~"\\pL{1000}"', "it is too large when its repetitions are written out"),
        (
            'job=~"[a-z0-9]{999}[a-z]{999}[a-z]{9}"',
            f"3,010 steps when its repetitions are written out: at most {MOST_STEPS:,}",
        ),
        ("job==x", "write one =, as in job=x"),
        ("job=" + "x" * LONGEST, f"4,004 characters, at most {LONGEST:,}"),
    ],
)
def test_what_is_no_matcher_is_refused(text: str, said: str) -> None:
    """A refusal shows the matcher, shortened, and the error."""
    with pytest.raises(ConfigError, match="matcher") as caught:
        Matcher.parse(text)

    assert said in str(caught.value)
    assert len(str(caught.value)) < 320


@pytest.mark.parametrize(
    "pattern", ["(a+)+b", "(a|aa)+b", "[ab]*[ab]*[ab]*c", "a?" * 60 + "a" * 60 + "b", "(.*a){40}b"]
)
def test_expressions_take_linear_time(pattern: str) -> None:
    """A backtracking engine would need years for these."""
    assert not Matcher.parse(f'job=~"{pattern}"').matches({"job": "a" * 400})


def test_expressions_take_any_text() -> None:
    """Half of a surrogate pair, as JSON may have it, is a character like others."""
    assert not Matcher("job", "=~", "[a-z]+").matches({"job": "\ud800"})
    assert expression("\u00fc.*", ignores_case=True).is_in("-\u00dc-")


@pytest.mark.parametrize(
    ("line", "matchers"),
    [
        ('{alertname="exec-errors"}', ['alertname="exec-errors"']),
        ("alertname=exec-errors,", ['alertname="exec-errors"']),
        (
            "alertname=exec-errors,severity=warning",
            ['alertname="exec-errors"', 'severity="warning"'],
        ),
        ('alertname = "exec-errors"', ['alertname="exec-errors"']),
        ('"alertname"="exec-errors"', ['alertname="exec-errors"']),
        ("job= severity=warning", ['job=""', 'severity="warning"']),
        ('chip=~".{1,3}, x"', ['chip=~".{1,3}, x"']),
        (r'alertname="\"exec-errors\""', [r'alertname="\"exec-errors\""']),
    ],
)
def test_a_line_as_operators_write_it(line: str, matchers: list[str]) -> None:
    """Alertmanager's own forms are accepted, in one argument or several."""
    assert [str(Matcher.parse(text)) for text in split_matchers(line)] == matchers


@given(st.text(max_size=100))
def test_what_is_written_is_read_again(value: str) -> None:
    """Quotes and backslashes in a value survive being written and read."""
    matcher = Matcher("job", "=", value)

    assert Matcher.parse(str(matcher)) == matcher


def test_all_of_a_silence_must_match() -> None:
    """A single failing matcher prevents a match."""
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
