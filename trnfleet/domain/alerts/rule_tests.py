"""Models of rule test files: series of figures, events, and expected alerts per instant.

A file is TOML with `[[tests]]`; the models are validated against the table of figures.
"""

from __future__ import annotations

import enum
import itertools
import math
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from trnfleet.domain.address import STANDALONE, Level, is_segment
from trnfleet.domain.alerts.signals import (
    FIGURES,
    PIPELINE_NAME,
    RECENT_GOODPUT,
    Figure,
    Form,
    Scope,
)
from trnfleet.domain.hardware.catalogue import TRN2_48XLARGE, TRN2U_48XLARGE, lane_names
from trnfleet.domain.metrics import BY_NAME, CHIP_METRICS, INSTANCE_METRICS, JOB_FIGURES
from trnfleet.domain.schema import Duration, Instant, Model, Paths, Segment
from trnfleet.domain.severity import Severity
from trnfleet.domain.targets import MOST_TARGETS
from trnfleet.errors import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator


MOST_SAMPLES = 20_000
"""Samples of one series, gaps counted, and evaluations of one test."""


class Mark(enum.Enum):
    """Marks in place of a sample."""

    GAP = "_"
    """No sample: the last one holds until it is too old."""
    STALE = "stale"
    """From here on nothing is known."""


Sample = float | str | Mark
"""A number, a text, or a mark in its place."""

_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_TOKEN = re.compile(
    rf"""
      (?P<gap>_)(?:x(?P<gaps>\d+))?
    | (?P<stale>stale)
    | (?P<text>"(?:[^"\\]|\\["\\])*")(?:x(?P<texts>\d+))?
    | (?P<first>[+-]?{_NUMBER})(?:(?P<step>[+-]{_NUMBER})?x(?P<times>\d+))?
    """,
    re.VERBOSE | re.ASCII,
)
_ESCAPED = re.compile(r'\\(["\\])')


def parse_series(text: str) -> tuple[Sample, ...]:
    """Read a series.

    Raises:
        ValueError: a token is invalid, a number is too large, or there are too many samples.
    """
    samples: list[Sample] = []
    for token in _tokens(text):
        match = _TOKEN.fullmatch(token)
        if match is None:
            raise ValueError(
                f"{token[:40]!r} is not a sample; write 5, 1x4, 0+10x5, 5-2x3, _, _x3, stale, or a"
                " text in quotes"
            )
        count = _count(match)
        if len(samples) + count > MOST_SAMPLES:
            raise ValueError(f"{token[:40]!r} makes it more than {MOST_SAMPLES} samples")
        samples += _samples(match, token, count)
    if not samples:
        raise ValueError("there is no sample")
    return tuple(samples)


def _tokens(text: str) -> Iterator[str]:
    """Yield the tokens between blanks; blanks within quotes are part of a text."""
    for match in re.finditer(r'(?:"(?:[^"\\]|\\.)*"|[^\s"]|")+', text):
        yield match[0]


def _count(match: re.Match[str]) -> int:
    if match["gap"]:
        return int(_short(match["gaps"] or "1"))
    # As in promtool: x is followed by the number of repeats.
    return 1 + int(_short(match["times"] or match["texts"] or "0"))


def _short(digits: str) -> str:
    """Return digits, cut if there are too many: Python refuses to parse thousands."""
    return digits if len(digits) < 18 else digits[:18]


def _samples(match: re.Match[str], token: str, count: int) -> Iterator[Sample]:
    if match["gap"]:
        yield from [Mark.GAP] * count
    elif match["stale"]:
        yield Mark.STALE
    elif match["text"]:
        yield from [_ESCAPED.sub(r"\1", match["text"][1:-1])] * count
    else:
        value = float(match["first"])
        step = float(match["step"] or 0.0)
        for _ in range(count):
            if not math.isfinite(value):
                raise ValueError(f"{token[:40]!r} is too large")
            yield value
            # promtool adds, too, so that both round alike.
            value += step


Target = Annotated[str, StringConstraints(max_length=400)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=400)]
Number = Annotated[float, Field(allow_inf_nan=False)]
State = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_-]{1,32}$")]
MOST_INSTANCES = 256
STALE_AFTER_INTERVALS = 3
_RANGE = re.compile(r"(.*?)(\d+)\.\.(.*?)(\d+)", re.ASCII)
_TYPES = {True: TRN2_48XLARGE.name, False: TRN2U_48XLARGE.name}
"""Default instance type, by whether it is standalone."""

_CHIP_FIGURES = frozenset(metric.name for metric in CHIP_METRICS)
_HOST_FIGURES = frozenset(metric.name for metric in INSTANCE_METRICS)
_ADDRESS_FIGURES = _CHIP_FIGURES | _HOST_FIGURES | {"link_up"}
_JOB_FIGURES = frozenset({"state", "kind", RECENT_GOODPUT, *JOB_FIGURES})


def _as_float(value: Any) -> Any:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _read_series(value: Any) -> Any:
    return parse_series(value) if isinstance(value, str) else value


class InstanceCase(Model):
    """An instance of the fleet of a test."""

    address: Text
    """`cluster/ultraserver/instance`; a range such as `trn2u-0001-0..trn2u-0001-3` means each of
    them."""
    type: Text | None = None
    """By default trn2u.48xlarge in an UltraServer and trn2.48xlarge if standalone."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for address in expand_address(self.address):
            if address.count("/") + 1 != Level.INSTANCE:
                raise ValueError(
                    f"{address!r} is not an instance's address, such as"
                    " cluster/ultraserver/instance"
                )
        return self


class JobCase(Model):
    """A job of a test."""

    name: Segment
    on: Paths | tuple[()] = ()
    """Addresses and ranges of the job."""
    state: State = "running"
    kind: State = "training"


class SeriesCase(Model):
    """Samples of a figure for one target, or for several equal targets."""

    figure: Text
    target: Text
    """An address or a name. A range such as `chip00..chip15` means each of them; a level above
    chips means all of its chips."""
    values: Annotated[tuple[Sample, ...], BeforeValidator(_read_series)]
    """As promtool writes them."""
    scope: Scope | None = Field(default=None, strict=False)
    """Scope of a target with a name, where the figure alone is ambiguous."""

    @property
    def has_address(self) -> bool:
        """Whether the target is an address, not a name."""
        return "/" in self.target or (self.scope is None and self.figure in _ADDRESS_FIGURES)

    @property
    def named_scope(self) -> Scope:
        """Scope of a named target."""
        if self.scope is not None:
            return self.scope
        if self.target == PIPELINE_NAME:
            return Scope.PIPELINE
        return next(scope for scope in _NAMED if self.figure in _named_figures(scope))

    @model_validator(mode="after")
    def _fits(self) -> Self:
        figure = self._address_figure() if self.has_address else self._name_figure()
        for sample in self.values:
            if isinstance(sample, Mark):
                continue
            if figure.form is Form.TEXT and not isinstance(sample, str):
                raise ValueError(f"{figure.name} is a text: put {sample:g} in quotes")
            if isinstance(sample, str):
                _check_text(figure, sample)
        return self

    def _address_figure(self) -> Figure:
        name = self.figure
        if name not in _ADDRESS_FIGURES:
            raise ValueError(
                f"a test cannot set {name!r} of an address: {nearest(name, _ADDRESS_FIGURES)} "
                "(derived figures follow from others)"
            )
        for address in expand_address(self.target):
            path, _, lane = address.partition(":")
            depth = path.count("/") + 1
            if lane or name == "link_up":
                _check_lane(name, lane, path)
            elif depth == Level.CORE:
                if name != "nc_util_pct":
                    raise ValueError(f"{name} is not a figure of a core: {path}")
            elif name in _HOST_FIGURES and depth > Level.INSTANCE:
                raise ValueError(f"{name} is a figure of an instance, not of {path}")
        scope = (
            Scope.LINK
            if name == "link_up"
            else Scope.CHIP
            if name in _CHIP_FIGURES
            else Scope.INSTANCE
        )
        return FIGURES[scope][name]

    def _name_figure(self) -> Figure:
        scopes = [scope for scope in _NAMED if self.figure in _named_figures(scope)]
        if self.scope is None and self.target != PIPELINE_NAME and len(scopes) > 1:
            raise ValueError(
                f"{self.figure!r} of {self.target!r}: choose scope = "
                + " or ".join(f'"{scope.value}"' for scope in scopes)
            )
        if self.scope is None and self.target != PIPELINE_NAME and not scopes:
            known = set().union(*(_named_figures(scope) for scope in _NAMED))
            raise ValueError(
                f"no figure of a name is called {self.figure!r}: {nearest(self.figure, known)}"
            )
        scope = self.named_scope
        if scope not in _NAMED:
            raise ValueError(f"{self.target!r} is not an address of the scope {scope.value}")
        if self.figure not in _named_figures(scope):
            raise ValueError(
                f"a test cannot set {self.figure!r} of a {scope.value}:"
                f" {nearest(self.figure, _named_figures(scope))}"
            )
        return FIGURES[scope][self.figure]


class EventCase(Model):
    """An event of a publisher."""

    at: Instant
    name: Segment
    path: Target
    """Address of its subject."""
    severity: Severity = Field(Severity.WARNING, strict=False)
    job: Segment | None = None


class AlertCase(Model):
    """An expected alert; omitted keys match anything."""

    target: Target
    """Empty for the fleet."""
    state: Literal["firing", "pending"] = "firing"
    value: Annotated[Number | Text | None, BeforeValidator(_as_float)] = None
    place: Target | None = None
    members: Annotated[int, Field(ge=1)] | None = None
    summary: Annotated[str, StringConstraints(max_length=1_000)] | None = None
    inhibited: bool | None = None


class Expectation(Model):
    """The alerts of a rule at an instant: these and no others."""

    at: Instant
    """The last evaluation at or before it counts."""
    rule: Segment
    alerts: Annotated[tuple[AlertCase, ...], Field(max_length=1_000)] = ()


class Case(Model):
    """One test."""

    name: Text
    instances: Annotated[tuple[InstanceCase, ...], Field(max_length=MOST_INSTANCES)] = ()
    """Instances of the test; by default the instances named by the series' targets."""
    jobs: Annotated[tuple[JobCase, ...], Field(max_length=64)] = ()
    series: Annotated[tuple[SeriesCase, ...], Field(max_length=1_000)] = ()
    events: Annotated[tuple[EventCase, ...], Field(max_length=1_000)] = ()
    expect: Annotated[tuple[Expectation, ...], Field(min_length=1, max_length=2_000)]

    def fleet(self) -> dict[str, str]:
        """Return the instances' addresses with their types."""
        if self.instances:
            return {
                address: instance.type or _usual_type(address)
                for instance in self.instances
                for address in expand_address(instance.address)
            }
        types: dict[str, str] = {}
        for series in self.series:
            for target in expand_address(series.target) if series.has_address else ():
                segments = target.partition(":")[0].split("/")
                if len(segments) >= Level.INSTANCE:
                    path = "/".join(segments[: Level.INSTANCE])
                    types[path] = _usual_type(path)
        return types

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if len(self.fleet()) > MOST_INSTANCES:
            raise ValueError(f"{len(self.fleet())} instances: at most {MOST_INSTANCES}")
        names = [job.name for job in self.jobs]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"there are two jobs {name!r}")
        return self


class CaseFile(Model):
    """A whole file of tests."""

    rules: Annotated[tuple[Text, ...], Field(max_length=100)] = ()
    """Rule files: paths relative to this file, or names of shipped ones. Empty for all shipped
    ones."""
    interval: Duration = 10.0
    """Seconds from sample to sample, and from evaluation to evaluation."""
    stale_after: Duration | None = None
    """Seconds until a sample is stale; three intervals by default."""
    flapping: bool = True
    """Whether flapping alerts are held, as in `watch`; false compares with Prometheus."""
    tests: Annotated[tuple[Case, ...], Field(min_length=1, max_length=1_000)]

    @property
    def stale_after_s(self) -> float:
        """Seconds until a sample is stale."""
        return (
            STALE_AFTER_INTERVALS * self.interval if self.stale_after is None else self.stale_after
        )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        names: set[str] = set()
        for case in self.tests:
            if case.name in names:
                raise ValueError(f"there are two tests {case.name!r}")
            names.add(case.name)
            last_s = max(expectation.at for expectation in case.expect)
            if last_s / self.interval > MOST_SAMPLES:
                raise ValueError(
                    f"test {case.name!r}: at = {last_s:g} s is more than {MOST_SAMPLES} intervals"
                    f" of {self.interval:g} s away"
                )
        return self


def expand_address(address: str) -> tuple[str, ...]:
    """Return the addresses of an address with ranges; a range includes both ends.

    Raises:
        ValueError: the address or a range is invalid, or it means too many.
    """
    path, colon, lane = address.partition(":")
    parts = [_expand_segment(segment, address) for segment in path.split("/")]
    total = 1
    for part in parts:
        total *= len(part)
    if len(parts) > Level.CORE or total > MOST_TARGETS:
        raise ValueError(
            f"{address!r} means {total} targets of {len(parts)} segments: at most {MOST_TARGETS}"
            " of 5"
        )
    return tuple("/".join(segments) + colon + lane for segments in itertools.product(*parts))


def _expand_segment(segment: str, address: str) -> list[str]:
    if ".." not in segment:
        if not is_segment(segment):
            raise ValueError(f"{address!r} is not an address: {segment!r}")
        return [segment]
    match = _RANGE.fullmatch(segment)
    if match is None or match[1] != match[3] or len(match[2]) > 9 or len(match[4]) > 9:
        raise ValueError(f"{address!r}: {segment!r} is not a range such as chip00..chip15")
    first = int(match[2])
    last = int(match[4])
    if last < first or last - first >= MOST_TARGETS or not is_segment(match[1] + match[4]):
        raise ValueError(f"{address!r}: {segment!r} is not a range such as chip00..chip15")
    return [f"{match[1]}{number:0{len(match[2])}d}" for number in range(first, last + 1)]


_NAMED = (Scope.JOB, Scope.RESERVATION, Scope.CAP, Scope.PUBLISHER, Scope.PIPELINE)


def _named_figures(scope: Scope) -> frozenset[str]:
    """Return the named figures of a scope that a test can set.

    For jobs, without the figures summed over chips.
    """
    return _JOB_FIGURES if scope is Scope.JOB else frozenset(FIGURES[scope])


def _check_lane(name: str, lane: str, path: str) -> None:
    if name not in FIGURES[Scope.LINK]:
        raise ValueError(f"{name} is not a figure of a link: {nearest(name, FIGURES[Scope.LINK])}")
    if lane not in lane_names():
        raise ValueError(f"{path}:{lane} is not a link: {nearest(lane, lane_names())}")
    if path.count("/") + 1 != Level.CHIP:
        raise ValueError(f"{path} is not a chip's address; a link is written chip05:east")


def _check_text(figure: Figure, sample: str) -> None:
    if figure.form is Form.BITS:
        for bit in filter(None, sample.split("+")):
            if bit not in figure.bit_names:
                raise ValueError(
                    f"{figure.name} has no bit {bit!r}: {nearest(bit, figure.bit_names)}"
                )
    elif figure.form is not Form.TEXT:
        raise ValueError(f"{figure.name} is a number, not {sample[:40]!r}")


def code_of(name: str, sample: float | str) -> int:
    """Return the wire code of a sample of a metric.

    Raises:
        ValueError: it is out of the metric's range.
    """
    metric = BY_NAME[name]
    if isinstance(sample, str):
        values = FIGURES[Scope.CHIP][name].values
        return sum(1 << values.index(bit) for bit in filter(None, sample.split("+")))
    return metric.code_of(sample)


def _usual_type(address: str) -> str:
    return _TYPES[address.split("/")[1] == STANDALONE]
