"""Models of rule files: scope, conditions, duration, severity, grouping, inhibition and texts.

A file is TOML with `[[rules]]`; the models are validated against the table of figures. Names follow
Prometheus where it has the notion: `for`, `keep_firing_for`, labels, annotations, runbook.
"""

from __future__ import annotations

import enum
import graphlib
import re
import string
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from trnfleet.domain.address import Level
from trnfleet.domain.alerts.conditions import Condition, Text
from trnfleet.domain.alerts.links import check_web_url
from trnfleet.domain.alerts.signals import FIGURES, JOB_SLOWDOWN, LANES, LEVEL_OF, Scope
from trnfleet.domain.metrics import JOB_FIGURES, Provider
from trnfleet.domain.schema import Instant, Model, Segment
from trnfleet.domain.severity import Severity  # noqa: TC001  pydantic reads the types
from trnfleet.errors import ConfigError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LabelName = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]{0,63}$")]
MOST_RULES = 500

RESERVED_LABELS = frozenset(
    {
        "alertname",
        "severity",
        "fleet",
        "scope",
        "target",
        "cluster",
        "ultraserver",
        "rack",
        "instance",
        "chip",
        "job",
        "cap",
        "reservation",
        "publisher",
    }
)
"""Labels set on every alert; a rule cannot set them."""
PLACEHOLDERS = frozenset(
    {
        "alertname",
        "target",
        "place",
        "worst",
        "value",
        "change",
        "limit",
        "count",
        "chips",
        "silence",
        "links",
        "job",
        "cause",
        "severity",
    }
)
"""Placeholders of `summary`, `title` and `description`."""
NOUN = re.compile(r"[A-Za-z][A-Za-z ]{0,39}")
COUNTED = frozenset({"value", "count", "links"})
"""Placeholders that accept a noun: `{value:error}` is `1 error` or `2 errors`."""


class Group(enum.StrEnum):
    """Common property of an alert's members; it is the alert's target."""

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


class Rule(Condition):
    """A rule: its first condition is among its own keys, further ones are in `also`."""

    name: Segment
    scope: Scope = Field(strict=False)
    severity: Severity = Field(strict=False)
    also: Annotated[tuple[Condition, ...], Field(max_length=8)] = ()
    """Conditions that must be true at the same time for the same target."""
    for_s: Annotated[Instant, Field(alias="for")] = 0.0
    """Seconds of a true condition until the alert fires."""
    keep_firing_for_s: Annotated[Instant, Field(alias="keep_firing_for")] = 0.0
    """Seconds of a false condition until the alert resolves."""
    when_silent: Literal["hold", "resolve"] = "hold"
    """Whether a firing alert without live values holds its last state or resolves."""
    group: Group | None = Field(default=None, strict=False)
    """Grouping of several targets into one alert. By default the instance for cores and links, else
    none."""
    least_members: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """Fewest members of an alert. With `group`, one or two members are another rule's."""
    inhibits: Annotated[tuple[str, ...], Field(max_length=MOST_RULES)] = ()
    """Rules inhibited while this one fires on the same target, above it, or on the job there. They
    do not notify. `*` for all others, except earlier rules with `*`."""
    labels: Annotated[dict[LabelName, Text], Field(max_length=16)] = Field(default_factory=dict)
    summary: Text | None = None
    """One line for receivers, by default the title. It gets the place, worst member and cause that
    it lacks."""
    title: Text | None = None
    """A few words for lists of problems, without a place. By default the rule's name and the value.
    """
    description: Text | None = None
    runbook: Text | None = None
    """Instructions in a sentence or two."""
    runbook_url: Text | None = None
    """The page of a runbook, `http://` or `https://`."""

    @field_validator("runbook_url")
    @classmethod
    def _is_url(cls, text: str | None) -> str | None:
        if text is not None:
            check_web_url(text)
        return text

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """All conditions, the rule's own first."""
        return (self, *self.also)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that all of its conditions need."""
        figures = FIGURES[self.scope]
        parts = [part.figure for part in self.conditions if part.figure]
        return tuple(dict.fromkeys(name for part in parts for name in figures[part].metrics))

    @property
    def needs_jobs(self) -> bool:
        """Whether it sees only instances of jobs, placed by messages or claims."""
        figures = FIGURES[self.scope]
        return any(
            (part.figure and figures[part.figure].is_of_job)
            or (part.reference and part.reference.of == "job")
            for part in self.conditions
        )

    @property
    def needs_job_messages(self) -> bool:
        """Whether it needs more of a job than its claims: its chips, and whether they run."""
        return any(
            part.figure in {*JOB_FIGURES, JOB_SLOWDOWN}
            or (self.scope is Scope.JOB and part.figure == "state" and not part.allows_claimed)
            for part in self.conditions
        )

    @property
    def sources(self) -> tuple[Provider, ...]:
        """Sources other than a Neuron host that its conditions need."""
        figures = FIGURES[self.scope]
        needed = {figures[part.figure].source for part in self.conditions if part.figure}
        return tuple(source for source in Provider if source in needed - {Provider.HOST})

    @property
    def grouping(self) -> Group:
        """Grouping of several targets into one alert, the scope's default included."""
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
            if condition.window or condition.past:
                raise ValueError("a condition of also looks at the value of the moment")
            if condition.clear is not None:
                raise ValueError("clear stands beside the rule's own condition, not in also")
        if self.group not in {None, Group.NONE}:
            level = LEVEL_OF.get(self.scope)
            if level is None:
                raise ValueError(
                    f"group goes with scopes that have addresses, not with {self.scope.value}"
                )
            if self.group_level is not None and self.group_level > level:
                raise ValueError(f"group = {self.group!r} is below the scope {self.scope.value}")
        if self.least_members > 1 and self.group_level is None:
            raise ValueError("least_members goes with group")
        for label in self.labels:
            if label in RESERVED_LABELS:
                raise ValueError(f"labels: {label!r} is set by itself")
        for text in (self.summary, self.title, self.description):
            check_template(text or "")
        return self


class RuleFile(Model):
    """A whole file of rules."""

    title: str = ""
    rules: Annotated[tuple[Rule, ...], Field(min_length=1, max_length=MOST_RULES)]


def check_template(text: str) -> None:
    """Check the placeholders of a text.

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
        if name not in PLACEHOLDERS or conversion:
            raise ValueError(f"{{{name}}} is not a placeholder: {nearest(name, PLACEHOLDERS)}")
        if spec and (name not in COUNTED or not NOUN.fullmatch(spec)):
            raise ValueError(
                f"{{{name}:{spec}}}: a noun goes with {', '.join(sorted(COUNTED))} alone, as in"
                " {value:error}"
            )


def join_rules(
    files: Iterable[tuple[str, RuleFile]], *, elsewhere: Iterable[str] = ()
) -> tuple[Rule, ...]:
    """Return the rules of several files as one pack.

    Args:
        files: Each file's name, for messages, and its content.
        elsewhere: Names of rules outside this pack that may be inhibited.

    Raises:
        ConfigError: a name is duplicate, or a rule inhibits an unknown one.
    """
    where: dict[str, str] = {}
    rules: list[Rule] = []
    elsewhere = frozenset(elsewhere)
    for file, content in files:
        for number, rule in enumerate(content.rules):
            if rule.name in where:
                raise ConfigError(
                    f"{file}: rules.{number}.name = {rule.name!r} is there already, in"
                    f" {where[rule.name]}"
                )
            where[rule.name] = file
            rules.append(rule)
    if len(rules) > MOST_RULES:
        raise ConfigError(f"{len(rules)} rules: at most {MOST_RULES}")
    for rule in rules:
        for name in rule.inhibits:
            if name not in {"*", *where, *elsewhere}:
                raise ConfigError(
                    f"{where[rule.name]}: rule {rule.name} inhibits {name!r}:"
                    f" {nearest(name, where)}"
                )
    _reject_circles(tuple(rules))
    return tuple(rules)


def _reject_circles(rules: tuple[Rule, ...]) -> None:
    """Reject rules that inhibit each other in a circle: none would ever notify.

    Raises:
        ConfigError: there are such rules.
    """
    try:
        graphlib.TopologicalSorter(inhibitors(rules)).prepare()
    except graphlib.CycleError as error:
        circle = " inhibits ".join(error.args[1])
        raise ConfigError(f"{circle}: when all of them fire, none notifies") from error


def inhibitors(rules: tuple[Rule, ...]) -> Mapping[str, tuple[str, ...]]:
    """Return the names of the inhibiting rules for each rule.

    `*` inhibits every rule except earlier ones with `*` in the pack, so that the widest one comes
    first. A rule with `*` in a scope with addresses inhibits rules with addresses, any other rules
    without.
    """
    place = {rule.name: number for number, rule in enumerate(rules)}

    def inhibits(other: Rule, rule: Rule) -> bool:
        if other.name == rule.name:
            return False
        if rule.name in other.inhibits:
            return True
        is_wider = "*" not in rule.inhibits or place[other.name] < place[rule.name]
        return (
            "*" in other.inhibits
            and is_wider
            and (other.scope in LEVEL_OF) is (rule.scope in LEVEL_OF)
        )

    return {
        rule.name: tuple(other.name for other in rules if inhibits(other, rule)) for rule in rules
    }
