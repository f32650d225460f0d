"""Matchers: conditions on labels, in Alertmanager's form.

Such as `instance="uc1/us-0001/trn2u-0001-0"`, `alertname=~"hbm.*"`, `job!="finetune-8b"`,
`chip!~"..."`. All matchers of a silence must match.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, Self

from trnfleet.domain.expressions import LONGEST, expression
from trnfleet.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MOST_MATCHERS = 32
_OPPOSITES = {"=": "!=", "!=": "=", "=~": "!~", "!~": "=~"}
_FORM = re.compile(
    r"""\s*(?:([A-Za-z_]\w*)|"([A-Za-z_]\w*)")\s*(=~|!~|!=|=)\s*(.*?)\s*""", re.DOTALL | re.ASCII
)
_LISTED = re.compile(
    r"""\s*"?[A-Za-z_]\w*"?(?:\s+(?:=~|!~|!=|=)\s*|(?:=~|!~|!=|=))(?:"(?:[^"\\]|\\.)*"|[^\s,"]*)""",
    re.DOTALL | re.ASCII,
)
"""One of several matchers in a line. `a= b=c` is two: an empty value may end the first."""
_BETWEEN = re.compile(r"[\s,]*")


class Matcher(NamedTuple):
    """One condition on a label; a missing label has the empty value."""

    label: str
    operator: str
    value: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a matcher; quotes around the value may be left out.

        Raises:
            ConfigError: it is not a matcher, or its expression is not valid.
        """
        if len(text) > LONGEST:
            raise ConfigError(
                f"matcher {_cut(text)}: {len(text):,} characters, at most {LONGEST:,}"
            )
        parts = _FORM.fullmatch(text)
        if parts is None:
            raise ConfigError(
                f'matcher {_cut(text)}: write it as label="value", or with !=, =~ or !~'
            )
        label = parts[1] or parts[2]
        operator = parts[3]
        value = parts[4]
        if operator == "=" and value.startswith("="):
            raise ConfigError(f"matcher {_cut(text)}: write one =, as in {label}{value}")
        if len(value) >= 2 and value[0] == value[-1] == '"':
            value = re.sub(r'\\(["\\])', r"\1", value[1:-1])
        elif '"' in value:
            raise ConfigError(f"matcher {_cut(text)}: a quote is missing")
        if operator in {"=~", "!~"}:
            try:
                expression(value)
            except ConfigError as error:
                raise ConfigError(f"matcher {_cut(text)}: {error}") from error
        return cls(label, operator, value)

    @property
    def is_positive(self) -> bool:
        """Whether it is `=` or `=~`, not a negation."""
        return self.operator in {"=", "=~"}

    @property
    def opposite(self) -> Matcher:
        """The negated matcher."""
        return Matcher(self.label, _OPPOSITES[self.operator], self.value)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels match; a regular expression must match the whole value."""
        return self.accepts(labels.get(self.label, ""))

    def accepts(self, value: str) -> bool:
        """Return whether a value of its label matches."""
        same = (
            expression(self.value).matches(value) if "~" in self.operator else value == self.value
        )
        return same is self.is_positive

    def __str__(self) -> str:
        """Return it as it is written."""
        value = self.value.replace("\\", "\\\\").replace('"', '\\"')
        return f'{self.label}{self.operator}"{value}"'


def _cut(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:79] + "…")


def has_matchers(text: str) -> bool:
    """Return whether a text contains matchers, unlike the name of an alert."""
    return "=" in text or "~" in text


def split_matchers(text: str) -> list[str]:
    """Return the matchers of a line, which spaces or commas divide and braces may surround.

    Raises:
        ConfigError: a part of it is not a matcher.
    """
    text = text.strip()
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1]
    matchers: list[str] = []
    position = _skip(text, 0)
    while position < len(text):
        matcher = _LISTED.match(text, position)
        if matcher is None or text[matcher.end() : matcher.end() + 1] == '"':
            rest = text[position:]
            raise ConfigError(
                f'{_cut(rest)}: write matchers as label="value", with =, !=, =~ or !~'
            )
        matchers.append(matcher[0])
        position = _skip(text, matcher.end())
    return matchers


def _skip(text: str, position: int) -> int:
    between = _BETWEEN.match(text, position)
    return position if between is None else between.end()


def parse_matchers(texts: Iterable[str]) -> tuple[Matcher, ...]:
    """Parse the matchers of a silence; all of them must match.

    Raises:
        ConfigError: one is invalid, there are too few or too many, or they match nearly every alert
            or
            none at all.
    """
    matchers = tuple(Matcher.parse(text) for text in texts)
    if not matchers:
        raise ConfigError('a silence needs a matcher, such as instance="uc1/us-0001/trn2u-0001-0"')
    if len(matchers) > MOST_MATCHERS:
        raise ConfigError(f"{len(matchers)} matchers: at most {MOST_MATCHERS}")
    if all(matcher.matches({}) for matcher in matchers):
        raise ConfigError(
            "these matchers also match alerts without such labels, so nearly all: name a value to"
            " match"
        )
    for exact in matchers:
        for other in matchers:
            same = exact.operator == "=" and other.label == exact.label
            if same and not other.accepts(exact.value):
                raise ConfigError(f"no alert can match both {exact} and {other}")
    return matchers


PLACES = ("chip", "instance", "rack", "ultraserver", "cluster", "job", "reservation", "publisher")
"""Labels that locate an alert, the deepest first."""
_SPECIAL = re.compile(r"[][.*+?(){}|^$\\]")


def matchers_for(
    alerts: Sequence[Mapping[str, str]], others: Iterable[Mapping[str, str]]
) -> tuple[Matcher, ...]:
    """Return the shortest matchers for some alerts and no others.

    Matchers of the common labels if there are no such matchers.

    Args:
        alerts: The labels of at least one alert.
        others: The labels of alerts that are not meant.
    """
    others = tuple(others)
    name = _one_of("alertname", alerts)
    place = next((label for label in PLACES if _shared(label, alerts)), "")
    choices: list[tuple[Matcher, ...]] = []
    if place and name.operator != "=":
        choices.append((_one_of(place, alerts),))
    if place:
        choices.append((name, _one_of(place, alerts)))
    rack = (_one_of("rack", alerts),) if any("rack" in labels for labels in alerts) else ()
    choices.append((name, _one_of("target", alerts), *rack))
    choices = [
        choice for choice in choices if max(len(str(matcher)) for matcher in choice) <= LONGEST
    ]
    exact = (
        choice for choice in choices if not any(all_match(choice, labels) for labels in others)
    )
    return next(exact, choices[0] if choices else ())


def _shared(label: str, alerts: Sequence[Mapping[str, str]]) -> bool:
    value = alerts[0].get(label, "")
    return bool(value) and all(labels.get(label) == value for labels in alerts)


def _one_of(label: str, alerts: Sequence[Mapping[str, str]]) -> Matcher:
    values = sorted({labels.get(label, "") for labels in alerts})
    if len(values) == 1:
        return Matcher(label, "=", values[0])
    return Matcher(label, "=~", "|".join(_SPECIAL.sub(r"\\\g<0>", value) for value in values))


def all_match(matchers: Iterable[Matcher], labels: Mapping[str, str]) -> bool:
    """Return whether labels match every matcher."""
    return all(matcher.matches(labels) for matcher in matchers)
