"""Matchers: conditions on labels, in Alertmanager's form.

Such as `instance="uc1/us-0001/trn2u-0001-0"`, `alertname=~"hbm.*"`, `job!="finetune-8b"`, `chip!~"..."`. All of a silence must hold.
"""

from __future__ import annotations

import math
import re
import warnings
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Self

from trnfleet.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MOST_MATCHERS = 32
LONGEST = 400
_FORM = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*(=~|!~|!=|=)\s*(.*?)\s*", re.DOTALL)
_COSTLY = re.compile(r"\)\s*[*+?{]|\(\?|\\\d|\{")
"""Constructs that can make a regular expression take for ever (repeated groups, references back) or mean more than a match."""
_STEP = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
"""Elements of a pattern, as far as its cost goes: an escaped character, a set, or any other character."""
MOST_WORK = 20_000_000
"""Steps that a pattern may take on a label as long as labels get: less than a tenth of a second."""
OPTION_STEPS = 16
"""Cost of one alternative, in steps of a repetition: measured."""


class Matcher(NamedTuple):
    """One condition on a label; a label that is not there is the empty text."""

    label: str
    operator: str
    value: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a matcher; quotes around the value may be left out.

        Raises:
            ConfigError: it is none, or its pattern is no regular expression.
        """
        found = _FORM.fullmatch(text)
        if found is None or len(text) > LONGEST:
            raise ConfigError(
                f'matcher {text[:80]!r}: write it as label="value", or with !=, =~ or !~'
            )
        label, operator, value = found[1], found[2], found[3]
        if len(value) >= 2 and value[0] == value[-1] == '"':
            value = value[1:-1].replace('\\"', '"').replace("\\\\", "\\")
        elif '"' in value:
            raise ConfigError(f"matcher {text[:80]!r}: a quote is missing")
        if operator in {"=~", "!~"}:
            try:
                checked_pattern(value)
            except ConfigError as error:
                raise ConfigError(f"matcher {text[:80]!r}: {error}") from error
        return cls(label, operator, value)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels fulfil it; a regular expression must match the whole value."""
        value = labels.get(self.label, "")
        if self.operator == "=":
            return value == self.value
        if self.operator == "!=":
            return value != self.value
        found = _matches(self.value, value)
        return found if self.operator == "=~" else not found

    def __str__(self) -> str:
        """Return it as it is written."""
        value = self.value.replace("\\", "\\\\").replace('"', '\\"')
        return f'{self.label}{self.operator}"{value}"'


def _work(pattern: str) -> float:
    """Return about how many steps a pattern without repeated groups takes at most on the longest label.

    Repetitions share a label between them in as many ways as there are, an option goes two ways and a group as many as it has
    alternatives: these multiply, alternatives of the whole pattern add up.
    """
    total, repetitions, ways = 0.0, 0, 1
    groups: list[int] = []

    def work() -> float:
        shared = float(LONGEST) ** repetitions / math.factorial(repetitions)
        return shared * (ways * OPTION_STEPS if ways > 1 else 1)

    for found in _STEP.finditer(pattern):
        step = found[0]
        if step == "(":
            groups.append(1)
        elif step == ")" and groups:
            ways = min(ways * groups.pop(), MOST_WORK)
        elif step == "|" and groups:
            groups[-1] += 1
        elif step == "|":
            total, repetitions, ways = total + work(), 0, 1
        elif step in {"*", "+"}:
            repetitions = min(repetitions + 1, 8)
        elif step == "?":
            ways = min(ways * 2, MOST_WORK)
    return total + work()


@lru_cache(maxsize=256)
def checked_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return a regular expression that takes no longer than `MOST_WORK` steps on a label.

    Raises:
        ConfigError: it could, or it is none.
    """
    if _COSTLY.search(pattern) or _work(pattern) > MOST_WORK:
        raise ConfigError(
            "patterns have no repeated groups, no {n}, no (?, no references and few of *, +, ? and |, because others can take for ever"
        )
    try:
        return _compiled(pattern, flags)
    except (re.error, FutureWarning) as error:
        raise ConfigError(f"no regular expression: {error}") from error


def _compiled(pattern: str, flags: int) -> re.Pattern[str]:
    with warnings.catch_warnings():
        # A set that may mean something else one day is refused, not warned of on a screen.
        warnings.simplefilter("error", FutureWarning)
        return re.compile(pattern, flags)


@lru_cache(maxsize=10_000)
def _matches(pattern: str, value: str) -> bool:
    return re.fullmatch(pattern, value[:LONGEST]) is not None


def parse_matchers(texts: Iterable[str]) -> tuple[Matcher, ...]:
    """Read matchers, all of which must hold.

    Raises:
        ConfigError: one is none, there is none, there are too many, or all of them match every alert.
    """
    matchers = tuple(Matcher.parse(text) for text in texts)
    if not matchers:
        raise ConfigError('a silence needs a matcher, such as instance="uc1/us-0001/trn2u-0001-0"')
    if len(matchers) > MOST_MATCHERS:
        raise ConfigError(f"{len(matchers)} matchers: at most {MOST_MATCHERS}")
    if all(matcher.matches({}) for matcher in matchers):
        raise ConfigError(
            "these matchers also match alerts without such labels, so nearly all: name a value to match"
        )
    return matchers


def all_match(matchers: Iterable[Matcher], labels: Mapping[str, str]) -> bool:
    """Return whether labels fulfil every matcher."""
    return all(matcher.matches(labels) for matcher in matchers)
