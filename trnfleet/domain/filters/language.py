"""The filter language: `text`, `!text`, `power>450 & (job=a or not sev>=warning)`.

`&` and `and` are the same and bind more than `or` and ` | `. A bracket begins a group where a term
begins; elsewhere it belongs to the text or the value. A filter is parsed once, and then applied to
single rows (`keeps`) or to a table of any size (`mask`). A table is numpy's work: it compares its
columns, and reads each name only once.
"""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from trnfleet.domain.alerts.alert import is_below
from trnfleet.domain.expressions import expression
from trnfleet.domain.filters.columns import Column, Columns, Kind, is_unit, parse_number, parse_word
from trnfleet.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray


LONGEST = 400
_DEEPEST = 9
"""Most groups inside each other."""
SYNTAX = "text, !text, power>450 & (job=a or job=b), sev>=warning"
"""Examples, for an empty prompt."""
_ORDERS: dict[str, Callable[..., NDArray[np.bool_]]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "!=": operator.ne,
}
_PATTERNS = ("=~", "!~", "~")
_COMPARISON = re.compile(
    r'([A-Za-z_][\w-]*)\s*(=~|!~|!=|>=|<=|==|=|>|<|~)\s*("(?:[^"\\]|\\.)*"?|[^\s,&"]*)', re.DOTALL
)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"?', re.DOTALL)
_UNIT = re.compile(r"\s+([^\s,&]+)")
_AND = re.compile(r"\s*[&,]+\s*|(?:\s+|(?<=\)))and(?:\s+|(?=\()|$)", re.IGNORECASE)
_OR = re.compile(r"(?:\s+|(?<=\)))(?:or|\|{1,2})(?:\s+|(?=\()|$)", re.IGNORECASE)
_NOT = re.compile(rf"!\s*|not(?:\s*(?=\()|\s+(?={_COMPARISON.pattern}))", re.IGNORECASE | re.DOTALL)
"""`not` before plain text is part of the text."""
_WORD = re.compile(r"[^\s&]+")


class Row(Protocol):
    """A row for a filter."""

    def value(self, column: str) -> str | float | None:
        """Return its value in a column: a text or a number; None if unset.

        For a column of words, the word's number.
        """

    def has(self, part: str) -> bool:
        """Return whether it contains a text in lower case."""


class Table(Protocol):
    """Rows as columns, for a filter's mask."""

    def having(self, part: str) -> NDArray[np.bool_]:
        """Return the mask of rows that contain a text in lower case."""

    def numbers(self, column: str) -> NDArray[np.float64]:
        """Return a column's numbers, or the numbers of its words; NaN for none."""

    def named(self, column: str, fits: Callable[[str], bool]) -> NDArray[np.bool_]:
        """Return the mask of rows whose text in a column satisfies `fits`.

        A row without a text has the empty one.
        """

    def at(self, address: str) -> NDArray[np.bool_]:
        """Return the mask of rows at, below or above an address."""


class Part(NamedTuple):
    """A part of text to look for."""

    part: str
    """Lower case."""

    def keeps(self, row: Row) -> bool:
        return row.has(self.part)

    def mask(self, table: Table) -> NDArray[np.bool_]:
        return table.having(self.part)

    def __str__(self) -> str:
        return quoted(self.part)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of a column with a value."""

    column: Column
    sign: str
    written: str
    """The value as it was written."""
    limit: float = 0.0
    words: frozenset[int] = frozenset()
    """Numbers of the matching words, in a column of words."""

    def keeps(self, row: Row) -> bool:
        value = row.value(self.column.name)
        if self.column.kind is Kind.PLACE:
            return touches(str(value or ""), self.written) is (self.sign != "!=")
        if self.column.kind is Kind.TEXT:
            return self.fits("" if value is None else str(value))
        if value is None or isinstance(value, str) or value != value:  # noqa: PLR0124  NaN is the one value unlike itself
            return False
        return (
            int(value) in self.words
            if self.words_only
            else bool(_ORDERS[self.sign](value, self.limit))
        )

    def mask(self, table: Table) -> NDArray[np.bool_]:
        name = self.column.name
        kind = self.column.kind
        if kind is Kind.PLACE:
            mask = table.at(self.written)
            return ~mask if self.sign == "!=" else mask
        if kind is Kind.TEXT:
            return table.named(name, self.fits)
        numbers = table.numbers(name)
        if self.words_only:
            return np.isin(numbers, np.array(sorted(self.words), np.float64))
        with np.errstate(invalid="ignore"):
            return _ORDERS[self.sign](numbers, self.limit) & ~np.isnan(numbers)

    @property
    def words_only(self) -> bool:
        return self.column.kind is Kind.WORDS

    def fits(self, text: str) -> bool:
        """Return whether a text fulfils it; case does not matter."""
        return _fits(self.sign, self.written, text)

    def __str__(self) -> str:
        return f"{self.column.name}{self.sign}{_written(self.written)}"


class Either(NamedTuple):
    """A group of filters; one must match."""

    options: tuple[Filter, ...]

    def keeps(self, row: Row) -> bool:
        return any(option.keeps(row) for option in self.options)

    def mask(self, table: Table) -> NDArray[np.bool_]:
        masks = (option.mask(table) for option in self.options)
        return reduce(operator.or_, (mask for mask in masks if mask is not None))

    def __str__(self) -> str:
        return f"({' or '.join(map(str, self.options))})"


class Not(NamedTuple):
    """A negated term."""

    term: Part | Comparison | Either

    def keeps(self, row: Row) -> bool:
        return not self.term.keeps(row)

    def mask(self, table: Table) -> NDArray[np.bool_]:
        return ~self.term.mask(table)

    def __str__(self) -> str:
        return f"!{self.term}"


Term = Part | Comparison | Either | Not


@dataclass(frozen=True, slots=True)
class Filter:
    """Terms that must all be true; without terms everything matches."""

    terms: tuple[Term, ...] = ()
    typed: str = field(default="", compare=False)
    """The text it was parsed from."""

    def __bool__(self) -> bool:
        """Return whether anything is asked for."""
        return bool(self.terms)

    def keeps(self, row: Row) -> bool:
        """Return whether a row is left."""
        return all(term.keeps(row) for term in self.terms)

    def mask(self, table: Table) -> NDArray[np.bool_] | None:
        """Return the mask of matching rows of a table; None for all rows."""
        left: NDArray[np.bool_] | None = None
        for term in self.terms:
            mask = term.mask(table)
            left = mask if left is None else left & mask
        return left

    @property
    def parts(self) -> tuple[str, ...]:
        """All texts of the filter, negated ones included."""
        return tuple(term.part for term in self._plain() if isinstance(term, Part))

    @property
    def places(self) -> tuple[str, ...]:
        """The addresses that are asked for."""
        return tuple(
            term.written
            for term in self._plain()
            if isinstance(term, Comparison) and term.column.kind is Kind.PLACE
        )

    @property
    def columns(self) -> frozenset[str]:
        """Names of the columns compared."""
        return frozenset(term.column.name for term in self._plain() if isinstance(term, Comparison))

    def _plain(self) -> Iterator[Part | Comparison]:
        for term in self.terms:
            plain = term.term if isinstance(term, Not) else term
            if isinstance(plain, Either):
                for option in plain.options:
                    yield from option._plain()  # noqa: SLF001  another filter's
            else:
                yield plain

    def __str__(self) -> str:
        """Return it as it can be written."""
        return " & ".join(map(str, self.terms))


EVERYTHING = Filter()


def parse(text: str, columns: Columns) -> Filter:
    """Return the parsed filter.

    Raises:
        ConfigError: a column is unknown, or a value is invalid in it; the message names the nearest
            valid one.
    """
    if len(text) > LONGEST:
        raise ConfigError(f"a filter of {len(text)} characters: at most {LONGEST}")
    terms, _ = _group(text, 0, columns, 0)
    return Filter(terms, text.strip() if terms else "")


def _group(text: str, position: int, columns: Columns, depth: int) -> tuple[tuple[Term, ...], int]:
    """Return the terms up to the bracket that closes a group, or to the end of the text."""
    options: list[list[Term]] = [[]]
    while position < len(text) and not (depth and text[position] == ")"):
        either = _OR.match(text, position) if options[-1] else None
        between = (
            _AND.match(text, position) if options[-1] or text[position] in "&," else None
        ) or either
        if between is not None:
            position = between.end()
            if between is either:
                options.append([])
        elif text[position].isspace():
            position += 1
        else:
            terms, position = _term(text, position, columns, depth)
            options[-1] += terms
    if depth and position == len(text):
        raise ConfigError("a bracket is open: write ) behind the group")
    if len(options := [terms for terms in options if terms]) < 2:
        return tuple(*options), position
    return (Either(tuple(Filter(tuple(terms)) for terms in options)),), position


def hint(text: str, columns: Columns) -> str:
    """Return a hint for a filter without matches that is only a column's name.

    Else empty.
    """
    column = columns.get(text.strip().lstrip("!")) if text.strip() else None
    return "" if column is None else f"{column.name} is a column; write {column.example}"


def _term(text: str, position: int, columns: Columns, depth: int) -> tuple[tuple[Term, ...], int]:
    """Return the term at a position, and its end; none for a lone `!`, several for a group."""
    is_inverse = False
    while (sign := _NOT.match(text, position)) is not None:
        is_inverse = not is_inverse
        position = sign.end()
    terms: tuple[Term, ...]
    if text.startswith("(", position):
        if depth == _DEEPEST:
            raise ConfigError(f"groups in groups: at most {_DEEPEST}")
        terms, position = _group(text, position + 1, columns, depth + 1)
        position += 1
        if is_inverse and len(terms) > 1:
            terms = (Either((Filter(terms),)),)
    elif (match := _COMPARISON.match(text, position)) is not None:
        column = columns.find(match[1])
        position = _word_end(text, match.start(3), match.end(), depth)
        value = _value(text[match.start(3) : position])
        unit = _UNIT.match(text, position)
        if unit is not None and value and not value[-1].isalpha():
            end = _word_end(text, unit.start(1), unit.end(), depth)
            if is_unit(column, written := text[unit.start(1) : end]):
                value = f"{value} {written}"
                position = end
        terms = (compared(column, match[2].replace("==", "="), value),)
    else:
        terms, position = _part(text, position, depth)
    if not is_inverse or not terms:
        return terms, position
    (term,) = terms
    return (term.term if isinstance(term, Not) else Not(term),), position


def _word_end(text: str, start: int, end: int, depth: int) -> int:
    """Return where a word ends: at the bracket that closes the group around it, or at `end`."""
    opened = 0
    for place in range(start, end if depth and text[start : start + 1] != '"' else start):
        opened += (text[place] == "(") - (text[place] == ")")
        if opened < 0:
            return place
    return end


def _part(text: str, position: int, depth: int) -> tuple[tuple[Part, ...], int]:
    """Return the part of text at a position: to the next operator or comparison."""
    start = position
    whole = _QUOTED.match(text, position)
    if whole is not None:
        part = re.sub(r"\\(.)", r"\1", whole[1], flags=re.DOTALL).lower()
        return ((Part(part),) if part else ()), whole.end()
    while position < len(text) and text[position] != "&":
        between = _AND.match(text, position)
        if _OR.match(text, position) or (between is not None and text[position] != ","):
            break
        word = _WORD.match(text, position)
        if word is None:
            position += 1
        elif position > start and _COMPARISON.match(text, position):
            break
        else:
            position = _word_end(text, start, word.end(), depth)
            if position < word.end():
                break
    part = text[start:position].strip().lower()
    return ((Part(part),) if part else ()), position


def compared(column: Column, sign: str, value: str) -> Comparison:
    """Return a comparison.

    Raises:
        ConfigError: the value is invalid in the column, or the sign makes no sense for it.
    """
    if not value and column.kind is not Kind.TEXT:
        raise ConfigError(f"{column.name}{sign}: a value is missing, such as {column.example}")
    if sign in _PATTERNS and column.kind in {Kind.TEXT, Kind.WORDS}:
        expression(value, ignores_case=True)
    elif sign not in _ORDERS or (column.kind is Kind.PLACE and sign not in {"=", "!="}):
        raise ConfigError(f"{column.name}: {sign} does not go with it; write {column.example}")
    if column.kind is Kind.TEXT:
        if sign in {">", ">=", "<", "<="}:
            raise ConfigError(
                f"{column.name} is a text: compare it with =, != or ~, such as {column.example}"
            )
        return Comparison(column, sign, value)
    if column.kind is Kind.PLACE:
        return Comparison(column, sign, value)
    if column.kind is Kind.WORDS:
        if sign in _PATTERNS:
            fitting = [
                number for number, word in enumerate(column.words) if _fits(sign, value, word)
            ]
        else:
            limit = parse_word(column, value)
            fitting = [
                number for number in range(len(column.words)) if _ORDERS[sign](number, limit)
            ]
        return Comparison(column, sign, value, words=frozenset(fitting))
    return Comparison(column, sign, value, limit=parse_number(column, value))


def _fits(sign: str, value: str, text: str) -> bool:
    if sign in _PATTERNS:
        pattern = expression(value, ignores_case=True)
        return pattern.is_in(text) if sign == "~" else pattern.matches(text) is (sign == "=~")
    return (text.lower() == value.lower()) is (sign == "=")


def touches(address: str, place: str) -> bool:
    """Return whether an address is at, below or above a place.

    Without an address it is at the fleet alone.
    """
    return is_below(address, place) or (bool(address) and is_below(place, address))


def _value(written: str) -> str:
    if not written.startswith('"'):
        return written
    inside = _QUOTED.fullmatch(written)
    return re.sub(r"\\(.)", r"\1", inside[1], flags=re.DOTALL) if inside else written[1:]


def quoted(text: str) -> str:
    """Return a text in quotes, so that none of its characters is an operator."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _written(value: str) -> str:
    return value if re.fullmatch(r'[^\s,&"\\()]+', value) else quoted(value)
