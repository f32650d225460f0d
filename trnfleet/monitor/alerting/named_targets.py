"""Figures of targets with names: jobs, reservations, publishers, the pipeline."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar, overload

import numpy as np

from trnfleet.clock import NS_PER_S
from trnfleet.domain.address import Level
from trnfleet.domain.alerts.signals import PIPELINE_NAME, RECENT_GOODPUT, Scope
from trnfleet.domain.metrics import BY_NAME, JOB_FIGURES, Aggregate
from trnfleet.domain.reservations.states import BlockState
from trnfleet.monitor.pipeline.publishers import State
from trnfleet.monitor.pipeline.traffic import PublisherNames
from trnfleet.monitor.store.findings import JOBS_DOWN
from trnfleet.monitor.store.job_history import reporting

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.monitor.pipeline.health import PipelineHealth
    from trnfleet.monitor.reservations.table import Reservation
    from trnfleet.monitor.store.jobs import Jobs
    from trnfleet.monitor.store.rollup import Rollups
    from trnfleet.monitor.store.store import Store
    from trnfleet.wire.messages import JobMessage

_Item = TypeVar("_Item", np.float64, np.int8)

Value = float | str | None
"""A figure's value: a number, a text, or None if unknown."""


class Texts(NamedTuple):
    """A column with few distinct texts."""

    texts: tuple[str, ...]
    codes: NDArray[np.int8]
    """The number of each target's text among them; -1 for unknown."""


class NamedTable(Protocol):
    """The targets of a scope at an instant."""

    @property
    def names(self) -> Sequence[str]:
        """Names of the targets."""

    @property
    def places(self) -> Mapping[str, int]:
        """The place of each name among them."""

    def column(self, figure: str) -> Sequence[Value]:
        """Return a figure's value for each target, in order."""

    def array(self, figure: str) -> NDArray[np.float64] | Texts | None:
        """Return a column as an array of numbers (NaN if unknown) or as texts.

        None if values are computed one by one.
        """


@dataclass(slots=True)
class NamedColumns:
    """A table that makes its columns on demand."""

    names: Sequence[str]
    make: Callable[[str], Sequence[Value]] | None = None
    make_array: Callable[[str], NDArray[np.float64] | Texts] | None = None
    """Makes a column as an array, instead of `make`. For targets that may number tens of thousands.
    """
    _made: dict[str, Sequence[Value]] = field(default_factory=dict)
    _arrays: dict[str, NDArray[np.float64] | Texts] = field(default_factory=dict)
    _places: dict[str, int] = field(default_factory=dict)

    @property
    def places(self) -> Mapping[str, int]:
        if isinstance(self.names, PublisherNames):
            # They stay the same from second to second.
            return self.names.places
        if len(self._places) != len(self.names):
            self._places = {name: place for place, name in enumerate(self.names)}
        return self._places

    def column(self, figure: str) -> Sequence[Value]:
        column = self._made.get(figure)
        if column is None:
            values = self.array(figure)
            made = self.make(figure) if self.make is not None and values is None else ()
            column = self._made[figure] = made if values is None else _Known(values)
        return column

    def array(self, figure: str) -> NDArray[np.float64] | Texts | None:
        if self.make_array is None:
            return None
        values = self._arrays.get(figure)
        if values is None:
            values = self._arrays[figure] = self.make_array(figure)
        return values


class _Known(Sequence[Value]):
    """The values of an array one by one, None if unknown.

    Few of tens of thousands are read.
    """

    def __init__(self, values: NDArray[np.float64] | Texts) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values.codes if isinstance(self._values, Texts) else self._values)

    @overload
    def __getitem__(self, place: int) -> Value: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Value]: ...
    def __getitem__(self, place: int | slice) -> Value | Sequence[Value]:
        if isinstance(place, slice):
            return [self[index] for index in range(*place.indices(len(self)))]
        if isinstance(self._values, Texts):
            code = int(self._values.codes[place])
            return None if code < 0 else self._values.texts[code]
        value = float(self._values[place])
        return None if math.isnan(value) else value


EMPTY = NamedColumns((), lambda _figure: ())


NO_GOODPUT: Mapping[str, float] = MappingProxyType({})


def jobs_table(
    jobs: Mapping[str, JobMessage],
    store: Store,
    rollups: Rollups,
    last_known: Collection[str] = frozenset(),
    goodput: Mapping[str, float] = NO_GOODPUT,
) -> NamedColumns:
    """Return the jobs.

    Chip and host figures are roll-ups of their instances.

    Args:
        jobs: The jobs by name.
        store: Which job has each instance.
        rollups: The figures of instances.
        last_known: Jobs without a live chip. Their figures are unknown, and so is their state,
            unless it says that they are down: silent chips do not bring a job up again.
        goodput: Recent goodput by job, 0 to 1.
    """
    messages = list(jobs.values())

    def value_of(job: JobMessage, figure: str) -> Value:
        is_known = job.job not in last_known or (figure == "state" and job.state in JOBS_DOWN)
        known: Value = getattr(job, figure) if is_known else None
        return known

    def make(figure: str) -> Sequence[Value]:
        if figure == "kind":
            return [job.kind for job in messages]
        if figure == RECENT_GOODPUT:
            return [100.0 * goodput[job.job] if job.job in goodput else None for job in messages]
        if figure == "state" or figure in JOB_FIGURES:
            return [value_of(job, figure) for job in messages]
        values = _rolled(figure, store, rollups, len(messages))
        if figure in _BETWEEN_DOMAINS:
            spans = store.placement.spans(len(messages))
            values = [value if spans[number] else None for number, value in enumerate(values)]
        return values

    return NamedColumns([job.job for job in messages], make)


_BETWEEN_DOMAINS = frozenset({"efa_tx_bytes_per_s", "efa_rx_bytes_per_s"})
"""Figures of the network between NeuronLink domains. A job inside one domain uses it for
checkpoints only, so they do not show its pace."""


def _rolled(name: str, store: Store, rollups: Rollups, jobs: int) -> Sequence[Value]:
    """Return a metric over the live instances of each job, by its aggregate.

    None if unknown.
    """
    metric = BY_NAME[name]
    members = reporting(store, rollups, name, jobs)
    total_of, count_of = (column[members.rows] for column in rollups.parts(name, Level.INSTANCE))
    if metric.aggregate is Aggregate.MAX:
        highest: NDArray[np.float64] = np.full(jobs, -np.inf)
        np.maximum.at(highest, members.jobs, total_of)
        return [None if value == -np.inf else float(value) for value in highest]
    chips = members.sums(count_of, jobs)
    total = members.sums(total_of, jobs)
    if metric.aggregate is Aggregate.MEAN:
        total = total / np.maximum(chips, 1)
    return [float(value) if known else None for value, known in zip(total, chips > 0, strict=True)]


_MADE_OF = {"terminates_in_s": "to_termination_s", "ends_in_s": "to_end_s", "util_pct": "util_pct"}


def reservations_table(table: Sequence[Reservation], now_ns: int) -> NamedColumns:
    """Return the reservations."""

    def value(reservation: Reservation, figure: str) -> Value:
        message = reservation.message
        if figure == "state":
            return message.state.value
        if figure == "idle_usd_per_h":
            is_known = reservation.idle_per_h is not None and message.currency == "USD"
            return float(reservation.idle_per_h or 0) if is_known else None
        if figure == "interconnect":
            return None if message.interconnect is None else message.interconnect.value
        if figure == "unavailable":
            return None if message.unavailable is None else float(message.unavailable)
        if figure == "pays_in_s":
            return (
                None if reservation.pays_ns is None else (reservation.pays_ns - now_ns) / NS_PER_S
            )
        if figure == "used_pct":
            known = message.instances - reservation.unknown
            return (
                None
                if reservation.used is None or known <= 0
                else min(100.0, 100.0 * reservation.used / known)
            )
        amount: float | None = getattr(reservation, _MADE_OF[figure])
        if figure != "util_pct" and message.state.value != BlockState.ACTIVE.value:
            return None
        return amount

    return NamedColumns(
        [reservation.message.id for reservation in table],
        lambda figure: [value(reservation, figure) for reservation in table],
    )


def publishers_table(pipeline: PipelineHealth) -> NamedColumns:
    """Return the publishers, and pairs of publishers with the same paths."""
    publishers = pipeline.publishers
    contested = pipeline.contested

    def make(figure: str) -> NDArray[np.float64] | Texts:
        if figure == "state":
            # Silence is a figure of its own.
            return Texts(_STATES, _joined(publishers.state, np.full(len(contested), -1, np.int8)))
        of_pairs: NDArray[np.float64] = np.full(len(contested), np.nan)
        values: NDArray[np.float64]
        if figure == "contested":
            values = np.zeros(len(publishers))
            of_pairs = np.array([*contested.values()], np.float64)
        elif figure == "silent_s":
            values = np.where(publishers.state == State.SILENT.value, publishers.quiet_s, 0.0)
        else:
            values = np.abs(getattr(publishers, _PUBLISHER_FIGURES[figure]))
        return _joined(values, of_pairs)

    return NamedColumns(
        [*publishers.names, *contested] if contested else publishers.names, make_array=make
    )


def _joined(values: NDArray[_Item], more: NDArray[_Item]) -> NDArray[_Item]:
    return np.concatenate([values, more]) if len(more) else values


_STATES = tuple("offline" if state is State.OFFLINE else "online" for state in State)
_PUBLISHER_FIGURES = {
    "lag_s": "lag_max_s",
    "clock_skew_s": "skew_s",
    "messages_per_s": "messages_per_s",
}


def pipeline_table(pipeline: PipelineHealth) -> NamedColumns:
    """Return the pipeline's one row."""
    return NamedColumns([PIPELINE_NAME], lambda figure: [pipeline.figure(figure)])


def all_tables(
    jobs: Jobs,
    store: Store,
    rollups: Rollups,
    reservations: Sequence[Reservation],
    pipeline: PipelineHealth,
    now_ns: int,
    goodput: Mapping[str, float],
    cap_used_pct: Mapping[str, float | None],
) -> dict[Scope, NamedTable]:
    """Return the targets of all scopes without addresses."""
    return {
        Scope.JOB: jobs_table(jobs.by_key, store, rollups, jobs.last_known, goodput),
        Scope.RESERVATION: reservations_table(reservations, now_ns),
        Scope.CAP: NamedColumns([*cap_used_pct], lambda _figure: [*cap_used_pct.values()]),
        Scope.PUBLISHER: publishers_table(pipeline),
        Scope.PIPELINE: pipeline_table(pipeline),
    }
