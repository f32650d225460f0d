"""Conditions of alert rules: their keys, valid combinations, and words.

A condition passes the value of a figure, or nothing for `absent`, through up to two transforms and
compares the result:

    figure  ->  window (`rate_over`, `mean_over`, ...)  ->  reference (`minus_median_of`, ...)  ->
    comparison (`above`, ...)

Each stage is one of the tables `WINDOWS`, `REFERENCES` and `COMPARISONS`. A row has everything
about a key except its evaluation: valid figures and scopes, and its words. A new kind of condition
is a row here, with its key as a field of `Condition`, and a row in the table of
`trnfleet.monitor.alerting.conditions` with its evaluation.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from trnfleet.domain.alerts.signals import CLAIMED_STATES, FIGURES, LEVEL_OF, Figure, Form, Scope
from trnfleet.domain.durations import DAY_S
from trnfleet.domain.quantities import (
    IEC,
    SHORT_UNITS,
    SI,
    DurationStyle,
    duration,
    scaled_by,
    with_unit,
)
from trnfleet.domain.schema import Duration, Model, Segment
from trnfleet.errors import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Text = Annotated[str, StringConstraints(min_length=1, max_length=400)]
Number = Annotated[float, Field(allow_inf_nan=False)]

_EVERY_SCOPE = frozenset(Scope)
_NAMED_SCOPES = frozenset(Scope) - LEVEL_OF.keys()
_NAMED_WORDS = "jobs, reservations, publishers and the pipeline"
_PEER_SCOPES = frozenset({Scope.CHIP, Scope.LINK})


def plain_value(value: float, unit: str, style: DurationStyle) -> str:
    """Return a number with its unit as people read it."""
    if unit != "s":
        return with_unit(value, unit)
    if value >= 60:
        return duration(value, style)
    return f"{value:.3g}{' ' if style is DurationStyle.LONG else ''}s"


def _rate_value(value: float, unit: str, _style: DurationStyle) -> str:
    return with_unit(value, "/s") if unit == "events" else f"{with_unit(value, unit)}/s"


def _distance_value(value: float, unit: str, _style: DurationStyle) -> str:
    return f"{'+' if value >= 0 else '-'}{with_unit(abs(value), unit)}"


def _share_value(value: float, _unit: str, _style: DurationStyle) -> str:
    return f"{100 * value:.0f} %"


def limit_text(limit: float, unit: str) -> str:
    """Return a limit with its unit: `85 °C`, `2 GB/s`, `6 h`."""
    if unit == "s":
        return exact_duration(limit)
    if unit == "bytes":
        scaled, prefix = scaled_by(limit, IEC, 1024.0)
    elif unit in {"bytes/s", "W"}:
        scaled, prefix = scaled_by(limit, SI, 1000.0)
    else:
        scaled = limit
        prefix = ""
    return f"{scaled:g} {prefix}{SHORT_UNITS.get(unit, unit)}".rstrip()


def exact_duration(seconds: float) -> str:
    """Return a rule's duration in the largest unit without a remainder: `90 s`, `15 min`."""
    for length, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds and not seconds % length:
            return f"{seconds / length:g} {unit}"
    return f"{seconds:g} s"


@dataclass(frozen=True, slots=True)
class WindowKind:
    """A key that reduces a figure's recent past to a number."""

    key: str
    """Its value is the window's length."""
    forms: frozenset[Form]
    """Of the figures that it takes."""
    words: str
    """Words for the number, with `{figure}` and `{window}`."""
    scopes: frozenset[Scope] = _EVERY_SCOPE
    value_text: Callable[[float, str, DurationStyle], str] = plain_value
    """Formats the number with the figure's unit."""


@dataclass(frozen=True, slots=True)
class ReferenceKind:
    """A key and value that relate the figure to a median."""

    key: str
    of: str
    scopes: frozenset[Scope]
    scope_words: str
    """The scopes, for the error at another one."""
    takes_window: bool
    value_text: Callable[[float, str, DurationStyle], str]

    def limit_text(self, limit: float, condition: Condition, unit: str) -> str:
        """Return a limit in words, such as `85 % of the instance's median`.

        Or `the job's median + 8 %`.
        """
        median = f"the {self.of}'s median"
        if condition.past is not None:
            median = f"its median of the last {exact_duration(condition.past)}"
        if self.key == "median_of":
            return f"{limit_text(limit, unit)} in {median}"
        if self.key == "share_of_median_of":
            return f"{100 * limit:g} % of {median}"
        return f"{median} {'-' if limit < 0 else '+'} {limit_text(abs(limit), unit)}"


@dataclass(frozen=True, slots=True)
class ComparisonKind:
    """A key for the comparison of a value."""

    key: str
    form: Form | None
    """Form of the figure it compares; None for `absent`, without a figure."""
    misfit: str
    """The error where the figure has another form; after its name."""
    words: Callable[[Condition, str], str]
    """Formats the comparison without the figure: `> 85 °C`, with the figure's unit."""
    is_worse: Callable[[float, float], bool] | None = None
    """Whether a first number is worse than a second one. None if `clear` makes no sense."""

    def check_clear(self, condition: Condition, clear: float) -> None:
        """Raise unless a rule may clear at a limit.

        Raises:
            ValueError: it would clear at a value at which it fires, or the comparison has no order.
        """
        if self.is_worse is None:
            ordered = " or ".join(row.key for row in COMPARISONS if row.is_worse is not None)
            raise ValueError(f"clear goes with {ordered}")
        limit = condition.limit
        if limit is not None and self.is_worse(clear, limit):
            raise ValueError(
                f"clear = {clear:g} must not be {self.key} {limit:g}, from which it fires"
            )


_SIGNS = {"above": ">", "below": "<", "equals": "=", "total_above": "in total >"}


def compared_with(limit: float, condition: Condition, unit: str) -> str:
    """Return a condition's limit in words, with its median, if any."""
    if condition.reference is None:
        return limit_text(limit, unit)
    return condition.reference.limit_text(limit, condition, unit)


def _number_words(condition: Condition, unit: str) -> str:
    words = compared_with(condition.limit or 0.0, condition, unit)
    return f"{_SIGNS[condition.comparison.key]} {words}"


def _any_of(words: Sequence[str]) -> str:
    """Return `a, b or c`."""
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


_COUNTERS = frozenset({Form.COUNTER})
_NUMBERS = frozenset({Form.NUMBER})

WINDOWS: Mapping[str, WindowKind] = MappingProxyType(
    {
        window.key: window
        for window in (
            WindowKind(
                "rate_over", _COUNTERS, "{figure} per s over {window}", value_text=_rate_value
            ),
            WindowKind("increase_over", _COUNTERS, "{figure} in {window}"),
            WindowKind(
                "changes_over",
                frozenset({Form.NUMBER, Form.TEXT}),
                "changes of {figure} in {window}",
                _NAMED_SCOPES,
            ),
            WindowKind("max_over", _NUMBERS, "largest {figure} in {window}", _NAMED_SCOPES),
            WindowKind("mean_over", _NUMBERS, "mean {figure} over {window}", _NAMED_SCOPES),
        )
    }
)
"""Windows by their key."""

REFERENCES: Mapping[tuple[str, str], ReferenceKind] = MappingProxyType(
    {
        (kind.key, kind.of): kind
        for kind in (
            ReferenceKind(
                "median_of", "instance", _PEER_SCOPES, "chips and links", False, plain_value
            ),
            ReferenceKind(
                "minus_median_of", "job", _PEER_SCOPES, "chips and links", False, _distance_value
            ),
            ReferenceKind(
                "share_of_median_of",
                "job",
                _PEER_SCOPES | {Scope.INSTANCE},
                "chips, links and instances",
                False,
                _share_value,
            ),
            ReferenceKind(
                "share_of_median_of",
                "instance",
                _PEER_SCOPES,
                "chips and links",
                False,
                _share_value,
            ),
            ReferenceKind(
                "share_of_median_of", "past", _NAMED_SCOPES, _NAMED_WORDS, True, _share_value
            ),
        )
    }
)
"""References by key and value."""

COMPARISONS: tuple[ComparisonKind, ...] = (
    ComparisonKind("above", Form.NUMBER, "is not a number", _number_words, operator.gt),
    ComparisonKind("below", Form.NUMBER, "is not a number", _number_words, operator.lt),
    ComparisonKind("equals", Form.NUMBER, "is not a number", _number_words),
    ComparisonKind(
        "equals",
        Form.TEXT,
        "is not text: give equals a number",
        lambda condition, _: f"is {_any_of(condition.texts)}",
    ),
    ComparisonKind(
        "has",
        Form.BITS,
        "is not a bit mask: has does not go with it",
        lambda condition, _: f"has {_any_of(condition.has)}",
    ),
    ComparisonKind("total_above", Form.COUNTER, "is not a counter", _number_words, operator.gt),
    ComparisonKind(
        "unchanged_for",
        Form.COUNTER,
        "is not a counter",
        lambda condition, _: f"unchanged for {exact_duration(condition.unchanged_for or 0.0)}",
    ),
    ComparisonKind("absent", None, "", lambda _condition, _unit: "silent"),
)
"""Comparisons; `equals` is two, depending on its value."""
COMPARISON_KEYS = tuple(dict.fromkeys(kind.key for kind in COMPARISONS))

_FORM_WORDS: Mapping[Form, str] = MappingProxyType(
    {
        Form.TEXT: "is a text: only equals or changes_over goes with it",
        Form.BITS: "is a bit mask: only has goes with it",
        Form.COUNTER: (
            "is a counter, which only grows: give rate_over, increase_over, total_above or"
            " unchanged_for"
        ),
    }
)
"""Keys for figures other than plain numbers, for errors."""


class Condition(Model):
    """A condition of a rule: a figure, its transforms, and the value to compare with."""

    figure: str | None = None
    """Its name in the table of figures; none for `absent`."""
    named: Annotated[tuple[Segment, ...], Field(max_length=32)] = ()
    """Names of the events counted by `events`."""
    rate_over: Duration | None = None
    """Window; the value is the counter's increase a second."""
    increase_over: Duration | None = None
    """Window; the value is the counter's increase. A counter reset to 0 has increased by its new
    value."""
    changes_over: Duration | None = None
    """Window; the value is how often the figure was seen to change. Scopes with names only."""
    max_over: Duration | None = None
    """Window; the value is the figure's largest one. Scopes with names only."""
    mean_over: Duration | None = None
    """Window; the value is the figure's mean. Scopes with names only."""
    median_of: Literal["instance"] | None = None
    """The median itself of the same link or figure of the instance's chips."""
    minus_median_of: Literal["job"] | None = None
    """The figure minus the median of the chips of the same job."""
    share_of_median_of: Literal["job", "instance", "past"] | None = None
    """The figure as a share of a median. `job`: the chips or instances of the same job.
    `instance`: the same link or figure of the instance's chips. `past`: the target itself, without
    times of trouble."""
    past: Duration | None = None
    """Length of the target's own past; scopes with names only."""
    above: Number | None = None
    below: Number | None = None
    equals: Number | Text | tuple[Text, ...] | None = None
    """A number, a text, or several texts (any matches)."""
    has: Annotated[tuple[Segment, ...], Field(max_length=32)] = ()
    """Bits of a bit mask (any matches)."""
    total_above: Number | None = None
    """Of a counter itself, which begins at 0 when the driver is loaded."""
    unchanged_for: Duration | None = None
    """How long a counter of chips stands still, at most since it was first seen."""
    absent: Literal[True] | None = None
    """Whether it is silent: described, and nothing live comes from it."""
    clear: Number | None = None
    """A firing alert goes on until the value reaches this limit or its good side."""

    @property
    def allows_claimed(self) -> bool:
        """Whether a job's state may be one that claims tell."""
        states = (self.equals,) if isinstance(self.equals, str) else self.equals
        return not isinstance(states, tuple) or bool({*states} & {*CLAIMED_STATES})

    @cached_property
    def window(self) -> WindowKind | None:
        """The window's row; None for the value of the moment."""
        return next((row for key, row in WINDOWS.items() if getattr(self, key) is not None), None)

    @property
    def window_s(self) -> float | None:
        """Length of the window in seconds; None for the current value."""
        window = self.window
        return None if window is None else getattr(self, window.key)

    @cached_property
    def reference(self) -> ReferenceKind | None:
        """The reference's row; None without a reference."""
        return next(
            (row for (key, group), row in REFERENCES.items() if getattr(self, key) == group), None
        )

    @cached_property
    def comparison(self) -> ComparisonKind:
        """The comparison's row."""
        return next(row for row in COMPARISONS if self._is_given(row))

    @cached_property
    def is_plain(self) -> bool:
        """Whether the figure is compared as it is."""
        return self.figure is not None and self.window is None and self.reference is None

    @cached_property
    def limits(self) -> tuple[float, ...]:
        """Numbers to compare with; empty for texts, bits or none."""
        given = getattr(self, self.comparison.key)
        many = given if isinstance(given, tuple) else (given,)
        return tuple(limit for limit in many if isinstance(limit, float))

    @property
    def limit(self) -> float | None:
        """The number to compare with; None for other comparisons."""
        return self.limits[0] if len(self.limits) == 1 else None

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts of `equals`."""
        if isinstance(self.equals, str):
            return (self.equals,)
        return self.equals if isinstance(self.equals, tuple) else ()

    def _is_given(self, comparison: ComparisonKind) -> bool:
        value = getattr(self, comparison.key)
        if comparison.key != "equals":
            return value not in {None, ()}
        return bool(self.texts) if comparison.form is Form.TEXT else isinstance(value, float)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        given = [row.key for row in COMPARISONS if self._is_given(row)]
        if len(given) != 1:
            raise ValueError(
                f"give one of {', '.join(COMPARISON_KEYS)}, not {' and '.join(given) or 'none'}"
            )
        if (self.figure is None) != (self.absent is not None):
            raise ValueError("give either figure or absent = true")
        for keys in (WINDOWS, dict.fromkeys(key for key, _ in REFERENCES)):
            many = [key for key in keys if getattr(self, key) is not None]
            if len(many) > 1:
                raise ValueError(f"{' and '.join(many)} exclude each other")
        if (self.share_of_median_of == "past") != (self.past is not None):
            raise ValueError('past goes with share_of_median_of = "past"')
        if (self.absent or self.unchanged_for is not None) and (self.window or self.reference):
            raise ValueError(f"{self.comparison.key} stands alone")
        if self.clear is not None:
            self.comparison.check_clear(self, self.clear)
        for seconds in (self.window_s, self.past, self.unchanged_for):
            if seconds is not None and seconds > DAY_S:
                raise ValueError(f"a window of {seconds:g} s is longer than {DAY_S} s")
        return self

    def check_scope(self, scope: Scope) -> None:
        """Check it against the figures of a scope.

        Raises:
            ValueError: the scope has no such figure, or the condition makes no sense there.
        """
        if self.absent:
            if scope not in {Scope.CHIP, Scope.INSTANCE, Scope.ULTRASERVER}:
                raise ValueError(
                    "absent goes with the scopes chip, instance and ultraserver; a publisher has a"
                    " state"
                )
            return
        if self.unchanged_for is not None and scope is not Scope.CHIP:
            raise ValueError(f"unchanged_for is for chips, not for {scope.value}")
        figures = FIGURES[scope]
        if self.figure is None or self.figure not in figures:
            raise ValueError(
                f"the scope {scope.value} has no figure {self.figure!r}:"
                f" {nearest(str(self.figure), figures)}"
            )
        figure = figures[self.figure]
        self._check_form(figure)
        if bool(self.named) != (figure.name == "events"):
            raise ValueError('named goes with figure = "events", which needs it')
        self._check_transforms(scope)

    def _check_form(self, figure: Figure) -> None:
        """Raise if the window does not fit the figure, or the comparison the window."""
        name = figure.name
        form = figure.form
        window = self.window
        if window is None:
            # Events are counted by their time alone.
            if form is Form.COUNTER and (self.comparison.form is not form or self.named):
                raise ValueError(f"{name} {_FORM_WORDS[form]}")
        elif form not in window.forms:
            raise ValueError(
                f"{name}"
                f" {_FORM_WORDS.get(form, f'is not a counter: {window.key} does not go with it')}"
            )
        made = form if window is None else Form.NUMBER
        if self.comparison.form is not made:
            if window is not None:
                raise ValueError(
                    f"{window.key} is a number: give above, below or a number to equals"
                )
            raise ValueError(f"{name} {_FORM_WORDS.get(made, self.comparison.misfit)}")
        for bit in self.has:
            if bit not in figure.bit_names:
                raise ValueError(f"{name} has no bit {bit!r}: {nearest(bit, figure.bit_names)}")

    def _check_transforms(self, scope: Scope) -> None:
        window = self.window
        reference = self.reference
        if window is not None and scope not in window.scopes:
            raise ValueError(f"{window.key} is for {_NAMED_WORDS}, not for {scope.value}")
        if reference is None:
            return
        if scope not in reference.scopes:
            if reference.of == "past":
                raise ValueError(f'{reference.key} = "past" is for {reference.scope_words}')
            raise ValueError(
                f"a median of the {reference.of} is for {reference.scope_words}, not for"
                f" {scope.value}"
            )
        if window is not None and not reference.takes_window:
            raise ValueError(f"{window.key} does not go with a median of the {reference.of}")
