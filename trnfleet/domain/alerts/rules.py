"""Alert rules as files say them: what is looked at, what is wrong, for how long, how bad it is, and what to do.

A file is TOML with `[[rules]]`; these are its models, held against the table of figures. They follow Prometheus where it
has the notion: `for`, `keep_firing_for`, labels, annotations, runbook.
"""

from __future__ import annotations

import enum
import graphlib
import string
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from trnfleet.domain.address import Level
from trnfleet.domain.alerts.signals import FIGURES, LANES, LEVEL_OF, Figure, Form, Scope
from trnfleet.domain.schema import Duration, Instant, Model, Segment
from trnfleet.domain.severity import Severity  # noqa: TC001  pydantic reads the types
from trnfleet.errors import ConfigError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Text = Annotated[str, StringConstraints(min_length=1, max_length=400)]
LabelName = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]{0,63}$")]
Number = Annotated[float, Field(allow_inf_nan=False)]
MOST_RULES = 500
LONGEST_WINDOW_S = 86_400.0

RESERVED_LABELS = frozenset(
    {"alertname", "severity", "fleet", "scope", "target", "cluster", "ultraserver", "instance", "chip", "job", "reservation", "publisher"}
)  # fmt: skip  # one line is the list
"""Labels that every alert gets by itself; a rule cannot set them."""
PLACEHOLDERS = frozenset(
    {"alertname", "target", "place", "worst", "value", "limit", "count", "chips", "job", "cause", "severity"}
)
"""What `summary` and `description` may name in braces."""


class Group(enum.StrEnum):
    """What members of one alert have in common; the alert's target is that."""

    NONE = "none"
    CHIP = "chip"
    INSTANCE = "instance"
    ULTRASERVER = "ultraserver"
    CLUSTER = "cluster"
    FLEET = "fleet"


_GROUP_LEVEL = {
    Group.CHIP: Level.CHIP,
    Group.INSTANCE: Level.INSTANCE,
    Group.ULTRASERVER: Level.ULTRASERVER,
    Group.CLUSTER: Level.CLUSTER,
    Group.FLEET: Level.FLEET,
}
_WINDOWS = ("rate_over", "increase_over", "changes_over", "max_over", "mean_over")
_COMPARISONS = ("above", "below", "equals", "has", "absent")
_MEDIANS = ("minus_median_of", "share_of_median_of")


class Condition(Model):
    """Something that is wrong: a figure, what is made of it, and what it is held against."""

    figure: str | None = None
    """Its name in the table of figures; none for `absent`."""
    named: Annotated[tuple[Segment, ...], Field(max_length=32)] = ()
    """Names of the events that `events` counts."""
    rate_over: Duration | None = None
    """The counter's increase over so long, a second."""
    increase_over: Duration | None = None
    """The counter's increase over so long; a counter that begins anew has increased by what it shows."""
    changes_over: Duration | None = None
    """How often a figure was seen to change over so long; scopes with names only."""
    max_over: Duration | None = None
    """The figure's largest value over so long; scopes with names only."""
    mean_over: Duration | None = None
    """The figure's mean over so long; scopes with names only."""
    minus_median_of: Literal["job"] | None = None
    """Of the figure, what it is above the median of the chips of the same job."""
    share_of_median_of: Literal["job", "instance", "past"] | None = None
    """The figure as a share of the median: of the chips of the same job, of the same link or figure of the chips of the
    instance, or of the target's own `past`."""
    past: Duration | None = None
    """How far back the target's own past goes; scopes with names only."""
    above: Number | None = None
    below: Number | None = None
    equals: Number | Text | tuple[Text, ...] | None = None
    """A number, a text, or several texts of which any will do."""
    has: Annotated[tuple[Segment, ...], Field(max_length=32)] = ()
    """Bits of a bit mask, any of which will do."""
    absent: Literal[True] | None = None
    """Whether it is silent: described, and nothing live comes from it."""
    clear: Number | None = None
    """Once it fires, it goes on until the value is at this limit or on its good side."""

    @property
    def comparison(self) -> str:
        """The one key that says what it is held against."""
        return next(key for key in _COMPARISONS if getattr(self, key) not in {None, ()})

    @property
    def window_s(self) -> float | None:
        """Length of the window that it looks back over; None for the value of the moment."""
        return next((getattr(self, key) for key in _WINDOWS if getattr(self, key) is not None), None)

    @property
    def window(self) -> str:
        """The window's key; empty for the value of the moment."""
        return next((key for key in _WINDOWS if getattr(self, key) is not None), "")

    @property
    def limit(self) -> float | None:
        """The number that it is held against, where it is one."""
        if self.above is not None or self.below is not None:
            return self.above if self.below is None else self.below
        return self.equals if isinstance(self.equals, float) else None

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts of `equals`."""
        if isinstance(self.equals, str):
            return (self.equals,)
        return self.equals if isinstance(self.equals, tuple) else ()

    @model_validator(mode="after")
    def _fits(self) -> Self:
        given = [key for key in _COMPARISONS if getattr(self, key) not in {None, ()}]
        if len(given) != 1:
            raise ValueError(f"give one of {', '.join(_COMPARISONS)}, not {' and '.join(given) or 'none'}")
        if (self.figure is None) != (self.absent is not None):
            raise ValueError("give either figure or absent = true")
        for keys in (_WINDOWS, _MEDIANS):
            many = [key for key in keys if getattr(self, key) is not None]
            if len(many) > 1:
                raise ValueError(f"{' and '.join(many)} exclude each other")
        if (self.share_of_median_of == "past") != (self.past is not None):
            raise ValueError('past goes with share_of_median_of = "past"')
        if self.absent and (self.window or self.minus_median_of or self.share_of_median_of):
            raise ValueError("absent stands alone")
        if self.clear is not None:
            self._check_clear(self.clear)
        for seconds in (self.window_s, self.past):
            if seconds is not None and seconds > LONGEST_WINDOW_S:
                raise ValueError(f"a window of {seconds:g} s is longer than {LONGEST_WINDOW_S:g} s")
        return self

    def _check_clear(self, clear: float) -> None:
        if self.above is not None:
            if clear > self.above:
                raise ValueError(f"clear = {clear:g} must not be above {self.above:g}, from which it fires")
        elif self.below is not None:
            if clear < self.below:
                raise ValueError(f"clear = {clear:g} must not be below {self.below:g}, from which it fires")
        else:
            raise ValueError("clear goes with above or below")

    def check_scope(self, scope: Scope) -> None:
        """Hold it against what a scope has.

        Raises:
            ValueError: the scope has no such figure, or what is asked of it makes no sense there.
        """
        has_rows = scope in LEVEL_OF
        if self.absent:
            if scope not in {Scope.CHIP, Scope.INSTANCE, Scope.ULTRASERVER}:
                raise ValueError(
                    "absent goes with the scopes chip, instance and ultraserver; a publisher has a state"
                )
            return
        figures = FIGURES[scope]
        if self.figure is None or self.figure not in figures:
            raise ValueError(
                f"the scope {scope.value} has no figure {self.figure!r}: {nearest(str(self.figure), figures)}"
            )
        figure = figures[self.figure]
        self._check_form(figure)
        if bool(self.named) != (figure.name == "events"):
            raise ValueError('named goes with figure = "events", which needs it')
        if has_rows and self.window in {"changes_over", "max_over", "mean_over"}:
            raise ValueError(
                f"{self.window} is for jobs, reservations, publishers and the pipeline, not for {scope.value}"
            )
        if has_rows and self.share_of_median_of == "past":
            raise ValueError(
                'share_of_median_of = "past" is for jobs, reservations, publishers and the pipeline'
            )
        of = self.minus_median_of or self.share_of_median_of
        if of in {"job", "instance"} and scope not in {Scope.CHIP, Scope.LINK}:
            raise ValueError(f"a median of the {of} is for chips and links, not for {scope.value}")
        if of in {"job", "instance"} and self.window:
            raise ValueError(f"{self.window} does not go with a median of the {of}")

    def _check_form(self, figure: Figure) -> None:
        form, name = figure.form, figure.name
        if form is Form.TEXT:
            if self.window not in {"", "changes_over"}:
                raise ValueError(f"{name} is a text: only equals or changes_over goes with it")
            # How often a text changed is a number.
            if bool(self.texts) == bool(self.window):
                form_of = (
                    "a number: give above, below or a number to equals"
                    if self.window
                    else "a text: only equals goes with it"
                )
                raise ValueError(f"{self.window or name} is {form_of}")
        elif self.texts:
            raise ValueError(f"{name} is no text: give equals a number")
        if form is Form.BITS:
            if not self.has:
                raise ValueError(f"{name} is a bit mask: only has goes with it")
            for bit in self.has:
                if bit not in figure.bit_names:
                    raise ValueError(f"{name} has no bit {bit!r}: {nearest(bit, figure.bit_names)}")
        elif self.has:
            raise ValueError(f"{name} is no bit mask: has does not go with it")
        if self.window in {"rate_over", "increase_over"} and form is not Form.COUNTER:
            raise ValueError(f"{name} is no counter: {self.window} does not go with it")
        if form is Form.COUNTER and self.window not in {"rate_over", "increase_over"}:
            raise ValueError(f"{name} is a counter, which only grows: give rate_over or increase_over")


class Rule(Condition):
    """One rule: its first condition stands among its own keys, `also` has those that must hold with it."""

    name: Segment
    scope: Scope = Field(strict=False)
    severity: Severity = Field(strict=False)
    also: Annotated[tuple[Condition, ...], Field(max_length=8)] = ()
    """Conditions that must hold at the same time and of the same target."""
    for_s: Annotated[Instant, Field(alias="for")] = 0.0
    """How long it must hold until the alert fires."""
    keep_firing_for_s: Annotated[Instant, Field(alias="keep_firing_for")] = 0.0
    """How long it must not hold until the alert resolves."""
    when_silent: Literal["hold", "resolve"] = "hold"
    """What becomes of a firing alert while nothing live is known of its target: it goes on as last known, or resolves."""
    group: Group | None = Field(default=None, strict=False)
    """What makes one alert of several targets; by default the instance for cores and links, else none."""
    least_members: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """Members without which there is no alert: with `group`, what concerns one or two of them is another rule's."""
    inhibits: Annotated[tuple[str, ...], Field(max_length=MOST_RULES)] = ()
    """Rules whose alerts are not told while this one fires on the same thing or above it; `*` for all others, but for those with `*` that stand before it."""
    labels: Annotated[dict[LabelName, Text], Field(max_length=16)] = Field(default_factory=dict)
    summary: Text
    """One line for people, with figures: `{worst} withholds {value}`."""
    description: Text | None = None
    runbook: Text | None = None
    """What to do, or where that is written."""

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """All that must hold, the rule's own first."""
        return (self, *self.also)

    @property
    def grouping(self) -> Group:
        """What makes one alert of several targets."""
        if self.group is not None:
            return self.group
        return Group.INSTANCE if self.scope in LANES else Group.NONE

    @property
    def group_level(self) -> Level | None:
        """Level of the alerts' targets; None where they are the rule's own targets."""
        return _GROUP_LEVEL.get(self.grouping)

    @model_validator(mode="after")
    def _fits_scope(self) -> Self:
        for condition in self.conditions:
            condition.check_scope(self.scope)
        for condition in self.also:
            if condition.window or condition.minus_median_of or condition.share_of_median_of:
                raise ValueError("a condition of also looks at the value of the moment")
            if condition.clear is not None:
                raise ValueError("clear stands beside the rule's own condition, not in also")
        if self.group not in {None, Group.NONE}:
            level = LEVEL_OF.get(self.scope)
            if level is None:
                raise ValueError(f"group goes with scopes that have addresses, not with {self.scope.value}")
            if self.group_level is not None and self.group_level > level:
                raise ValueError(f"group = {self.group!r} is below the scope {self.scope.value}")
        if self.least_members > 1 and self.group_level is None:
            raise ValueError("least_members goes with group")
        for label in self.labels:
            if label in RESERVED_LABELS:
                raise ValueError(f"labels: {label!r} is set by itself")
        for text in (self.summary, self.description or ""):
            check_template(text)
        return self


class RuleFile(Model):
    """A whole file of rules."""

    title: str = ""
    rules: Annotated[tuple[Rule, ...], Field(min_length=1, max_length=MOST_RULES)]


def check_template(text: str) -> None:
    """Hold a text's placeholders against what there is.

    Raises:
        ValueError: it names something else, or its braces do not match.
    """
    try:
        parts = list(string.Formatter().parse(text))
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from error
    for _, name, spec, conversion in parts:
        if name is None:
            continue
        if name not in PLACEHOLDERS or spec or conversion:
            raise ValueError(f"{{{name}}} is no placeholder: {nearest(name, PLACEHOLDERS)}")


def join_rules(files: Iterable[tuple[str, RuleFile]], *, elsewhere: Iterable[str] = ()) -> tuple[Rule, ...]:
    """Return the rules of several files as one pack.

    Args:
        files: Each file's name, for messages, and what it says.
        elsewhere: Names of rules that may be inhibited although they are not in this pack.

    Raises:
        ConfigError: a name is there twice, or a rule inhibits one that is not there.
    """
    where: dict[str, str] = {}
    rules: list[Rule] = []
    elsewhere = frozenset(elsewhere)
    for file, content in files:
        for number, rule in enumerate(content.rules):
            if rule.name in where:
                raise ConfigError(
                    f"{file}: rules.{number}.name = {rule.name!r} is there already, in {where[rule.name]}"
                )
            where[rule.name] = file
            rules.append(rule)
    if len(rules) > MOST_RULES:
        raise ConfigError(f"{len(rules)} rules: at most {MOST_RULES}")
    for rule in rules:
        for name in rule.inhibits:
            if name not in {"*", *where, *elsewhere}:
                raise ConfigError(
                    f"{where[rule.name]}: rule {rule.name} inhibits {name!r}: {nearest(name, where)}"
                )
    _refuse_circles(tuple(rules))
    return tuple(rules)


def _refuse_circles(rules: tuple[Rule, ...]) -> None:
    """Refuse rules of which each inhibits the next, round to the first: nobody would be told of any.

    Raises:
        ConfigError: there are such rules.
    """
    try:
        graphlib.TopologicalSorter(inhibitors(rules)).prepare()
    except graphlib.CycleError as error:
        circle = " inhibits ".join(error.args[1])
        raise ConfigError(f"{circle}: when all of them fire, nobody is told") from error


def inhibitors(rules: tuple[Rule, ...]) -> Mapping[str, tuple[str, ...]]:
    """Return for each rule the names of those that inhibit it.

    `*` inhibits every rule but those with `*` that stand before it in the pack, so that the widest one comes first;
    from a scope with addresses it is for those with addresses, else for those without.
    """
    place = {rule.name: number for number, rule in enumerate(rules)}

    def inhibits(other: Rule, rule: Rule) -> bool:
        if other.name == rule.name:
            return False
        if rule.name in other.inhibits:
            return True
        is_wider = "*" not in rule.inhibits or place[other.name] < place[rule.name]
        return "*" in other.inhibits and is_wider and (other.scope in LEVEL_OF) is (rule.scope in LEVEL_OF)

    return {rule.name: tuple(other.name for other in rules if inhibits(other, rule)) for rule in rules}
