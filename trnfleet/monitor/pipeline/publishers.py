"""The publishers of a fleet at a moment: state, traffic, lag and clock of each.

Their columns are immutable. Clocks are compared by the shortest path: the least recent delay of a
publisher's source times against our wall clock. A delay common to all publishers is the path to
here, or our own clock. The rest is the publisher's own.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trnfleet.monitor.freshness import Code
from trnfleet.monitor.medians import median
from trnfleet.monitor.pipeline.traffic import Marks, Presence, PublisherNames, PublisherTraffic

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.monitor.slices import Slices

SKEW_FROM_S = 5.0
"""Smaller differences of clocks count as agreement, and are shown as lag."""
LEAST_PEERS = 3
"""Fewest publishers for a median more reliable than our own clock."""


class State(Code):
    """States of a publisher, the worst last."""

    ONLINE = enum.auto()
    SILENT = enum.auto()
    """Online, without messages for as many periods as make values stale."""
    REFUSED = enum.auto()
    """The same, but for messages that were refused."""
    OFFLINE = enum.auto()

    @property
    def word(self) -> str:
        """Its name in lower case."""
        return self.name.lower()


WORDS = tuple(state.word for state in State)


@dataclass(frozen=True, slots=True, eq=False)
class PublisherTable:
    """All publishers at a moment.

    Columns have a value for each and are read-only.
    """

    names: PublisherNames
    boots: tuple[str, ...]
    """The boot of each; empty where it has not said."""
    state: NDArray[np.int8]
    for_s: NDArray[np.float64]
    """Seconds in the present state; NaN if unknown."""
    quiet_s: NDArray[np.float64]
    """Seconds since its last telemetry; infinite without any."""
    paths: NDArray[np.int64]
    """Paths that it describes."""
    chips: NDArray[np.int64]
    """Chips that it publishes."""
    messages: NDArray[np.int64]
    """Its telemetry newer than all before it."""
    size_bytes: NDArray[np.int64]
    messages_per_s: NDArray[np.float64]
    bytes_per_s: NDArray[np.float64]
    lost: NDArray[np.int64]
    late: NDArray[np.int64]
    """Messages out of order, or of a former boot."""
    duplicates: NDArray[np.int64]
    old: NDArray[np.int64]
    """Messages more than a minute behind the wall clock."""
    refused: NDArray[np.int64]
    restarts: NDArray[np.int64]
    """Boots that it has announced since the first."""
    lag_max_s: NDArray[np.float64]
    """Largest lag of the last seconds with messages; NaN if unknown."""
    lag_sums_s: NDArray[np.float32]
    """Sum of the lags in each of these seconds: (seconds, publishers)."""
    lag_counts: NDArray[np.float32]
    """How many lags that are."""
    skew_s: NDArray[np.float64]
    """Lead of its clock over ours in seconds (negative: behind) beyond the usual path. NaN if it
    does not follow the wall clock."""
    skew_to_median_s: NDArray[np.float64]
    """By how much it is ahead of the median of all publishers."""
    own_skew_s: float
    """Lead of our own clock over the publishers' median in seconds. 0 if they agree or are too few.
    """
    messages_of_none: int
    """Messages of forgotten publishers. With them the columns add up."""
    lost_of_none: int
    refused_of_none: int
    """Refused messages of any class without a publisher."""

    def __len__(self) -> int:
        return len(self.names)

    def lag_median_s(self, rows: NDArray[np.int64] | slice = slice(None)) -> NDArray[np.float64]:
        """Return the median of the mean lags of the last seconds.

        NaN if unknown.

        It covers some publishers, or all.
        """
        counts = self.lag_counts[:, rows]
        means_s = np.where(
            counts > 0, self.lag_sums_s[:, rows] / np.maximum(counts, 1), np.float32(np.nan)
        )
        means = np.sort(means_s, axis=0)
        known = (~np.isnan(means)).sum(axis=0)
        middle = np.maximum(known - 1, 0)
        places = np.arange(means.shape[1])
        low = means[middle // 2, places]
        high = means[-(-middle // 2), places]
        return np.where(known > 0, (low + high) / 2.0, np.nan).astype(np.float64)

    def count(self, state: State) -> int:
        """Return how many publishers are in a state."""
        return int(np.count_nonzero(self.state == state.value))


class TrafficMoment(NamedTuple):
    """The data of the publisher table at a moment.

    Later messages do not change it.
    """

    now_s: float
    """Monotonic seconds."""
    names: PublisherNames
    boots: tuple[str, ...]
    marks: Marks
    columns: dict[str, NDArray[Any]]
    """The columns of `_READ`."""
    lag_max_s: NDArray[np.float64]
    """The largest lag and the least delay of each row; infinite if unknown."""
    least_s: NDArray[np.float64]

    @classmethod
    def of(cls, traffic: PublisherTraffic, now_s: float) -> TrafficMoment:
        """Return it for the present."""
        return cls(
            now_s,
            traffic.client_names(),
            traffic.last_boots(),
            traffic.marks(now_s),
            {name: traffic.column(name) for name in _READ},
            traffic.extreme("lag_max_s", np.maximum),
            traffic.extreme("behind_least_s", np.minimum),
        )


def publisher_table(
    moment: TrafficMoment,
    chips: NDArray[np.int64],
    *,
    is_unheard: NDArray[np.bool_],
    is_will_doubted: NDArray[np.bool_],
    silent_after_periods: float,
) -> Slices[PublisherTable]:
    """Return the publishers at a moment, in slices.

    Args:
        moment: Their traffic.
        chips: Number of chips published by each row.
        is_unheard: Flags of rows that we cannot hear, or not for long enough. Such a publisher is
            not silent.
        is_will_doubted: Flags of rows whose last will does not count.
        silent_after_periods: Periods without telemetry after which one is silent; more in a past
            with
            parts left out.
    """
    now_s, names, boots, marks, get, lag_max_s, least_s = moment
    rates, byte_rates = marks.rates(now_s)
    changed_s = get["changed_s"]
    is_offline = (get["presence"] == Presence.OFFLINE) & ~is_will_doubted
    quiet_s = now_s - marks.heard_s
    # Of one that has no chips any more, such as after a lease, nothing is expected.
    is_expected = (marks.messages > 0) & (chips > 0)
    is_silent = is_expected & ~is_unheard & (quiet_s > silent_after_periods * marks.period_s)
    state = np.zeros(len(is_silent), np.int8)
    state[is_silent] = State.SILENT
    # A publisher without any accepted message may still send refused ones.
    is_refused = (now_s - get["refused_s"] <= silent_after_periods * marks.period_s) & (chips > 0)
    is_refused &= is_silent | (marks.messages == 0)
    state[is_refused] = State.REFUSED
    state[is_offline] = State.OFFLINE
    for_s = now_s - changed_s
    np.copyto(for_s, quiet_s, where=is_silent & ~is_offline)
    yield
    # While messages wait for long on their way, they say nothing of clocks.
    least_s = np.where(np.isfinite(least_s) & ~is_unheard, least_s, np.nan)
    lag_max_s = np.where(np.isfinite(lag_max_s), lag_max_s, np.nan)
    skew_s, to_median_s, own_s = _skews(least_s[1:], ~is_offline[1:])
    yield
    made = PublisherTable(
        names=names,
        boots=boots,
        state=state[1:],
        for_s=for_s[1:],
        quiet_s=quiet_s[1:],
        paths=get["paths"][1:],
        chips=chips[1:],
        messages=marks.messages[1:],
        size_bytes=marks.size_bytes[1:],
        messages_per_s=rates[1:],
        bytes_per_s=byte_rates[1:],
        lost=get["lost"][1:],
        late=get["late"][1:],
        duplicates=get["duplicates"][1:],
        old=get["old"][1:],
        refused=get["refused"][1:],
        restarts=get["restarts"][1:],
        lag_max_s=lag_max_s[1:],
        lag_sums_s=get["lag_sum_s"][:, 1:],
        lag_counts=get["lag_count"][:, 1:],
        skew_s=skew_s,
        skew_to_median_s=to_median_s,
        own_skew_s=own_s,
        messages_of_none=int(marks.messages[0]),
        lost_of_none=int(get["lost"][0]),
        refused_of_none=int(get["refused"][0]),
    )
    for name in PublisherTable.__dataclass_fields__:
        column = getattr(made, name)
        if isinstance(column, np.ndarray):
            column.setflags(write=False)
    return made


_READ = (
    "changed_s",
    "presence",
    "lost",
    "late",
    "duplicates",
    "old",
    "refused",
    "refused_s",
    "restarts",
    "paths",
    "lag_sum_s",
    "lag_count",
)


def _skews(
    least_s: NDArray[np.float64], present: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Return each publisher's skew to our clock and to the median, and our clock's skew.

    Our clock's skew is against the median.

    Args:
        least_s: Delay of each behind our wall clock by the shortest path; NaN if unknown.
        present: Flags of the present publishers.
    """
    known = least_s[~np.isnan(least_s) & present]
    if not len(known):
        unknown = np.full(len(least_s), np.nan)
        return unknown, unknown, 0.0
    median_s = median(known)
    is_ours = len(known) >= LEAST_PEERS and abs(median_s) > SKEW_FROM_S
    # Where our clock is right, the median publisher's shortest way is the way itself.
    way_s = median_s if 0.0 < median_s <= SKEW_FROM_S else 0.0
    return way_s - least_s, median_s - least_s, median_s if is_ours else 0.0
