"""Columns of a filter: names, kinds and units, and the values that people write."""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.durations import parse_duration_s
from trnfleet.domain.severity import BY_RANK, Severity
from trnfleet.errors import ConfigError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable


class Kind(enum.Enum):
    """Kinds of a column."""

    TEXT = enum.auto()
    NUMBER = enum.auto()
    DURATION = enum.auto()
    """Seconds, written as `10m` or `2h`."""
    WORDS = enum.auto()
    """Words in an order, such as severities; a value is a word's number."""
    PLACE = enum.auto()
    """An address; `=` matches the address and everything below or above it."""


class Column(NamedTuple):
    """A column."""

    name: str
    """Its name in a filter, and the key of a row's value."""
    kind: Kind = Kind.TEXT
    unit: str = ""
    """Of a number: as in the metric table."""
    aliases: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    """The words of a column of words, ascending."""

    @property
    def example(self) -> str:
        """A comparison of it, as a message shows it."""
        if self.kind is Kind.NUMBER:
            return f"{self.name}>{_EXAMPLES.get(self.unit, '10')}"
        if self.kind is Kind.DURATION:
            return f"{self.name}>10m"
        if self.kind is Kind.WORDS:
            return f"{self.name}>={self.words[len(self.words) // 2]}"
        return f"{self.name}=uc1/us-0001" if self.kind is Kind.PLACE else f"{self.name}=name"


_EXAMPLES = {
    "W": "450",
    "%": "90",
    "degC": "80",
    "bytes/s": "40G",
    "bytes": "64Gi",
    "TFLOP/s": "300",
}

SEVERITY = Column(
    "sev",
    Kind.WORDS,
    aliases=("severity",),
    words=tuple(severity.value for severity in reversed(BY_RANK)),
)


def severity_number(severity: Severity) -> int:
    """Return the number of a severity's word in `SEVERITY`: the worse, the greater."""
    return len(BY_RANK) - 1 - severity.rank


class Columns:
    """The columns of a view."""

    def __init__(self, columns: Iterable[Column]) -> None:
        """Index columns by their spellings; a shared spelling belongs to the first column."""
        self.all = tuple(columns)
        self._by_spelling: dict[str, Column] = {}
        for spelling in (lambda column: (column.name,), lambda column: column.aliases):
            for column in self.all:
                for name in spelling(column):
                    self._by_spelling.setdefault(_spelled(name), column)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.all)

    def get(self, name: str) -> Column | None:
        """Return the column of a name; None if unknown.

        Upper and lower case, `-` and `_` do not matter.
        """
        return self._by_spelling.get(_spelled(name))

    def find(self, name: str) -> Column:
        """Return the column of a name.

        Raises:
            ConfigError: unknown.
        """
        match = self.get(name)
        if match is None:
            spellings = {spelling: column.name for spelling, column in self._by_spelling.items()}
            known = {*self.names, *(alias for column in self.all for alias in column.aliases)}
            near = nearest(name.lower(), known or spellings)
            also = "" if near.startswith("choose") else f" Columns: {', '.join(self.names)}."
            raise ConfigError(
                f'{name!r} is not a column: {near}{also} Text with =, < or > needs "quotes".'
            )
        return match


def _spelled(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


_NUMBER = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))\s*(.*)", re.DOTALL)
_PREFIX = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15} | {
    f"{letter}i": 1024.0**power for power, letter in enumerate("KMGTP", start=1)
}
_SPELLINGS = {
    "W": ("w", "watt", "watts"),
    "%": ("%", "pct", "percent"),
    "degC": ("°c", "degc", "c"),
    "bytes/s": ("b/s", "bytes/s"),
    "bytes": ("b", "bytes"),
    "TFLOP/s": ("flop/s", "flops"),
    "TFLOP/s/W": ("tflops/w", "tflop/s/w"),
    "$/h": ("$/h", "usd/h"),
}


def parse_number(column: Column, text: str) -> float:
    """Return a number in a column's unit.

    Examples: `450`, `450W`, `1.2 kW`, `40 GB/s`, `64Gi`, `10m` of a duration.

    Raises:
        ConfigError: it is not a number, or in another unit.
    """
    if column.kind is Kind.DURATION:
        try:
            return parse_duration_s(text)
        except ValueError as error:
            raise ConfigError(f"{column.name}: {error}, such as {column.example}") from None
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        unit = f" in {column.unit}" if column.unit else ""
        raise ConfigError(
            f"{column.name}: {text[:40]!r} is not a number; write one{unit}, such as"
            f" {column.example}"
        )
    number = float(match[1])
    rest = match[2].strip()
    if not rest:
        return number
    for prefix, factor in _PREFIX.items():
        unit = rest.removeprefix(prefix)
        if not rest.startswith(prefix) or (
            unit and unit.lower() not in _SPELLINGS.get(column.unit, ())
        ):
            continue
        if column.unit == "TFLOP/s" and prefix:
            return number * factor / _PREFIX["T"]
        return number * factor
    unit = column.unit or "no unit"
    raise ConfigError(
        f"{column.name}: {rest[:20]!r} is another unit; write it in {unit}, such as"
        f" {column.example}"
    )


def is_unit(column: Column, text: str) -> bool:
    """Return whether a word is a unit of a column, with or without a prefix."""
    return column.kind is Kind.NUMBER and any(
        text.startswith(prefix)
        and text.removeprefix(prefix).lower() in _SPELLINGS.get(column.unit, ())
        for prefix in _PREFIX
    )


def parse_word(column: Column, text: str) -> int:
    """Return the number of a column's word; an unambiguous beginning is enough.

    Raises:
        ConfigError: there is no such word.
    """
    fitting = [number for number, word in enumerate(column.words) if word.startswith(text.lower())]
    if not text or len(fitting) != 1:
        raise ConfigError(
            f"{column.name}: {text[:40]!r} is not one of its words:"
            f" {nearest(text.lower(), column.words)}"
        )
    return fitting[0]
