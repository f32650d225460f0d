"""Paid time of a window by cause and job, and what to fix first.

Stepping time is split here into progress and loss (`domain/goodput.py`).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trnfleet.domain.goodput import (
    COLUMNS,
    ENERGY,
    LEAST_CHECKPOINTS,
    LEAST_WINDOW_STEPS,
    Expected,
    PaidRow,
    Sum,
    TimeCause,
    goodput_of,
    merge_rows,
    split_steps,
)
from trnfleet.domain.power import J_PER_KWH
from trnfleet.domain.quantities import NOT_AVAILABLE, duration, in_digits
from trnfleet.wire.rollups import CellPaidTime

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from trnfleet.domain.site import Site

LEAST_PCT = 0.05
"""Smallest share of a cause in text: less would be shown as 0.0 %."""
NO_JOB = ""
"""Name of the instances without a job."""
LOST = [
    cause
    for cause in TimeCause
    if cause not in {TimeCause.PRODUCTIVE, TimeCause.HEADROOM, TimeCause.UNSPLIT}
]
"""Causes whose time is lost."""
UNEXPLAINED = "unexplained slow time"
ESTIMATED = " (e)"
"""Mark of an estimate: modelled watts, and everything that is made of PUE or a price."""
NOT_PUBLISHED = f"{NOT_AVAILABLE}: not observed, or by an older relay"
_SECONDS = 0
"""Unit of sums; the other one is USD."""


class JobEnergy(NamedTuple):
    """Energy of the chips of a job, of the instances without one, or of a fleet."""

    joules: float = 0.0
    """Of the chips with known power."""
    modelled_j: float = 0.0
    """The part of it from modelled watts."""
    coverage: float = 0.0
    """Share of the chips' time with known power."""
    tokens: float = 0.0
    """Tokens made, as published."""

    @property
    def kwh(self) -> float | None:
        """Its kilowatt-hours; None if no power was known."""
        return self.joules / J_PER_KWH if self.coverage else None

    @property
    def at_least(self) -> str:
        """Mark where the power of some chips is unknown."""
        return "" if round(self.coverage, 3) >= 1 else "≥"

    @property
    def per_token_j(self) -> float | None:
        """Joules a token made; None without power or tokens."""
        return self.joules / self.tokens if self.coverage and self.tokens else None


class PaidTime(NamedTuple):
    """Paid time of a job, of the instances without one, or of a fleet."""

    seconds: NDArray[np.float64]
    """Instance-seconds by `TimeCause`."""
    usd: NDArray[np.float64]
    """Its price, as far as known."""
    unpriced_s: float
    """Instance-seconds without a known price."""
    energy: JobEnergy = JobEnergy()

    @property
    def is_priced(self) -> bool:
        """Whether any part has a known price."""
        # Both are sums of the same seconds, in another order.
        return self.unpriced_s < (1 - 1e-9) * float(self.seconds.sum())


class Part(NamedTuple):
    """Part of the paid time of one cause."""

    seconds: float
    """Instance-seconds."""
    usd: float


class JobTime(NamedTuple):
    """Paid time of a job, or of jobs without sums of their own."""

    job: str | None
    """None for the latter, `NO_JOB` for instances without a job."""
    paid: PaidTime
    ideal_s: float
    """Ideal step time; NaN if unknown."""
    is_planned: bool
    """Whether the publisher gives it; else it is measured."""
    is_provisional: bool
    """Whether steps of the window may still be lost."""
    written_off_s: float
    """Instance-seconds of steps made before the window and lost in it; not part of it."""
    expected: Expected | None = None
    """Expected goodput; None while its checkpoints are unknown."""
    parts: Mapping[TimeCause, Mapping[str, Part]] = MappingProxyType({})
    """Parts by cause, for `by`."""

    @property
    def kept_tokens(self) -> float | None:
        """Tokens made less those of lost work; None until checkpoints tell."""
        made_s = self.paid.seconds[[TimeCause.PRODUCTIVE, TimeCause.LOST_WORK]]
        if not self.ideal_s > 0 or self.is_provisional or not made_s.any():
            return None
        return self.paid.energy.tokens * float(made_s[0] / made_s.sum())

    @property
    def per_kept_token_j(self) -> float | None:
        """Joules a token kept; None if either is unknown."""
        tokens = self.kept_tokens
        return self.paid.energy.joules / tokens if tokens and self.paid.energy.coverage else None

    def by(self, cause: TimeCause) -> Mapping[str, Part]:
        """Return the time of a cause in parts that add up, the rest under an empty name.

        Slow time, recovery and lost work are by the cause in the job's alert, such as
        `uc1/us-0001/trn2u-0001-2/chip06 (straggler)`; idle time without a job is by reservation.
        """
        if cause in self.parts:
            return self.parts[cause]
        part = Part(float(self.paid.seconds[cause]), float(self.paid.usd[cause]))
        return {"": part} if part.seconds else {}


class Loss(NamedTuple):
    """Lost time with one cause, for a list of what to fix first."""

    what: str
    """Name of an alert or event, else a cause of time."""
    place: str
    """Its address or reservation; empty without one."""
    jobs: tuple[str | None, ...]
    """Jobs that lost the time; None for jobs without sums of their own."""
    part: Part


class GoodputReport(NamedTuple):
    """Paid time over a window."""

    lasts_s: float
    """Length of the window, in the fleet's time."""
    fleet: PaidTime
    jobs: list[JobTime]
    """Jobs with any paid time or energy, the one with the most loss first."""
    site: Site | None = None
    """Limits and prices that it uses; None if they are not known."""

    @property
    def whole(self) -> JobTime:
        """All of it as one: tokens of several models are not comparable."""
        energy = self.fleet.energy._replace(tokens=0.0)
        return JobTime(None, self.fleet._replace(energy=energy), np.nan, False, False, 0.0)


def paid_report(rows: Iterable[PaidRow], lasts_s: float) -> GoodputReport:
    """Return the paid time of rows over a window, with stepping time split.

    Args:
        rows: The rows, those of each job by time.
        lasts_s: Length of the window, as far as it was observed.
    """
    merged = merge_rows(rows)
    sums = np.zeros((len(merged), 2, COLUMNS))
    for number, row in enumerate(merged):
        sums[number] = row.sums
    ideal_s = np.array([row.ideal_s for row in merged])
    is_long = ideal_s * LEAST_WINDOW_STEPS <= lasts_s
    time = split_steps(sums, np.where(is_long, ideal_s, np.nan)[:, None])
    written_off_s = np.nan_to_num(sums[:, _SECONDS, Sum.WRITTEN_OFF] * ideal_s)
    by_job: dict[str | None, list[int]] = {}
    for number, row in enumerate(merged):
        by_job.setdefault(row.job, []).append(number)
    jobs = []
    for name, numbers in by_job.items():
        newest = merged[numbers[-1]]
        total = sums[numbers].sum(axis=0)
        jobs.append(
            JobTime(
                name,
                _paid_time(time[numbers].sum(axis=0), total),
                newest.ideal_s,
                newest.measured_on is None and newest.ideal_s > 0,
                newest.has_steps and bool(total[_SECONDS, Sum.CHECKPOINTS] < LEAST_CHECKPOINTS),
                float(written_off_s[numbers].sum()),
            )
        )
    jobs = [job for job in jobs if job.paid.seconds.any() or job.paid.energy.joules]
    jobs.sort(key=lambda job: (-lost_of(job.paid.seconds), job.job or ""))
    return GoodputReport(lasts_s, _paid_time(time.sum(axis=0), sums.sum(axis=0)), jobs)


def published_time(report: GoodputReport) -> CellPaidTime:
    """Return a report's paid time as a relay publishes it."""
    paid = report.fleet
    # What is moved between causes may leave less than nothing, by rounding.
    seconds, usd = (
        {cause.key: float(time[cause]) for cause in TimeCause if time[cause] > 0}
        for time in (paid.seconds, paid.usd)
    )
    return CellPaidTime(
        lasts_s=report.lasts_s, seconds=seconds, usd=usd, unpriced_s=max(0.0, paid.unpriced_s)
    )


class CellReport(NamedTuple):
    """Paid time of a cell on a top broker, as its relay publishes it."""

    cell: str | None
    """None for all known cells together."""
    title: str
    report: GoodputReport | None
    """None if it is not known."""


def cell_reports(cells: Mapping[str, CellPaidTime | None]) -> list[CellReport]:
    """Return the paid time of the known cells together, then of each by name.

    A cause of a newer relay that is not known here is not split.
    """
    made = []
    known = []
    for cell, published in sorted(cells.items()):
        report = None
        if published is not None:
            times = np.zeros((2, len(TimeCause)))
            for time, parts in zip(times, (published.seconds, published.usd), strict=True):
                for name, part in parts.items():
                    time[TimeCause.__members__.get(name.upper(), TimeCause.UNSPLIT)] += part
            paid = PaidTime(times[0], times[1], published.unpriced_s)
            report = GoodputReport(published.lasts_s, paid, [])
            known.append(report)
        made.append(CellReport(cell, cell, report))
    if known:
        total = PaidTime(
            np.sum([one.fleet.seconds for one in known], axis=0),
            np.sum([one.fleet.usd for one in known], axis=0),
            sum(one.fleet.unpriced_s for one in known),
        )
        title = f"{len(known):,} of {len(made):,}"
        whole = GoodputReport(max(one.lasts_s for one in known), total, [])
        made.insert(0, CellReport(None, title, whole))
    return made


def lost_of(time: NDArray[np.float64]) -> float:
    """Return the part of paid time or money that is neither progress nor headroom."""
    return float(time[LOST].sum())


def fix_first(report: GoodputReport) -> list[Loss]:
    """Return the lost time by what would have to be fixed, the most expensive first.

    A cause that alerts name has one entry for all jobs. The entries add up to the lost time.
    """
    losses: dict[tuple[str, str, str | None], Loss] = {}
    for job in report.jobs:
        own = [] if job.job == NO_JOB else [job.job]
        for cause in LOST:
            for name, part in job.by(cause).items():
                what = cause.label
                place = name
                if name and cause is not TimeCause.IDLE_RESERVED:
                    place, _, what = name.removesuffix(")").partition(" (")
                elif cause is TimeCause.SLOW:
                    what = UNEXPLAINED
                key = what, place, job.job if not name else NO_JOB
                known = losses.get(key, Loss(what, place, (), Part(0.0, 0.0)))
                losses[key] = known._replace(
                    jobs=tuple(dict.fromkeys([*known.jobs, *own])),
                    part=Part(known.part.seconds + part.seconds, known.part.usd + part.usd),
                )
    return sorted(
        losses.values(),
        key=lambda loss: (-loss.part.usd, -loss.part.seconds, loss.what, loss.place),
    )


def goodput_facts(report: GoodputReport) -> dict[str, Any]:
    """Return goodput as JSON values; what is not known is null."""
    return {
        **paid_facts(report),
        **_energy_facts(report.fleet),
        "fix_first": [
            {
                "what": loss.what,
                "place": loss.place,
                "jobs": [job for job in loss.jobs if job is not None],
                "lost_s": loss.part.seconds,
                "lost_usd": _known_usd(report.fleet, loss.part.usd),
            }
            for loss in fix_first(report)
        ],
        "limits": None
        if report.site is None
        else {"ttft_s": report.site.ttft_limit, "tpot_s": report.site.tpot_limit},
        "jobs": [
            {
                "job": job.job or None,
                "is_other_jobs": job.job is None,
                **_time_facts(job.paid),
                **_energy_facts(job.paid),
                "tokens_made": job.paid.energy.tokens or None,
                "tokens_kept": job.kept_tokens,
                "j_per_token_made": job.paid.energy.per_token_j,
                "j_per_token_kept": job.per_kept_token_j,
                "ideal_step_s": None if np.isnan(job.ideal_s) else job.ideal_s,
                "ideal_step_from": None
                if np.isnan(job.ideal_s)
                else ("plan" if job.is_planned else "steps"),
                "provisional": job.is_provisional,
                "written_off_s": job.written_off_s,
                "expected": None
                if job.expected is None
                else {
                    **job.expected._asdict(),
                    "goodput": job.expected.goodput,
                    "best_interval_s": job.expected.best_interval_s,
                },
                "slow_by": [
                    {
                        "cause": name or None,
                        "lost_s": part.seconds,
                        "lost_usd": _known_usd(job.paid, part.usd),
                    }
                    for name, part in job.by(TimeCause.SLOW).items()
                ],
            }
            for job in report.jobs
        ],
    }


def goodput_text(report: GoodputReport) -> str:
    """Return the fleet's goodput, its causes and its money in a line."""
    paid = report.fleet
    total_s = float(paid.seconds.sum())
    if not total_s:
        return f"{NOT_AVAILABLE}: it needs time to watch, or a recording"
    share = goodput_of(paid.seconds)
    text = NOT_AVAILABLE if share is None else f"{share:.1%}".replace("%", " %")
    text += f" over {duration(report.lasts_s)}"
    if any(job.is_provisional for job in report.jobs):
        text += ", provisional"
    shares = {cause: 100 * float(paid.seconds[cause]) / total_s for cause in TimeCause}
    causes = [f"{cause.label} {pct:.1f} %" for cause, pct in shares.items() if pct >= LEAST_PCT]
    text += f": {', '.join(causes)}"
    if usd := float(paid.usd.sum()):
        rest = " for the part with a price" if paid.unpriced_s else ""
        text += f"; paid {usd:,.2f} USD{rest}, lost {lost_of(paid.usd):,.2f}"
    return text


def expected_text(expected: Expected) -> str:
    """Return a job's expected goodput, and its checkpoints beside the best interval."""
    share = expected.goodput
    text = f"{NOT_AVAILABLE} before a recovery" if share is None else f"{100 * share:.1f} %"
    text += f"; a checkpoint every {duration(expected.interval_s)}"
    return f"{text}, best every {duration(expected.best_interval_s)}"


def energy_text(job: JobTime) -> str:
    """Return a job's energy and joules a token in a line; empty while no power is known."""
    energy = job.paid.energy
    if energy.kwh is None:
        return ""
    text = f"{energy.at_least}{in_digits(energy.kwh)} kWh{ESTIMATED if energy.modelled_j else ''}"
    for value, words in ((energy.per_token_j, "J a token"), (job.per_kept_token_j, "kept")):
        text += "" if value is None else f", {in_digits(value)} {words}"
    return text


def _known_usd(paid: PaidTime, usd: float) -> float | None:
    """Return an amount, unless no time that it may be of has a price."""
    return usd if paid.is_priced else None


def paid_facts(report: GoodputReport) -> dict[str, Any]:
    """Return a report's length and its sums as JSON values."""
    return {"lasts_s": report.lasts_s, **_time_facts(report.fleet)}


def _time_facts(paid: PaidTime) -> dict[str, Any]:
    seconds = paid.seconds
    is_priced = paid.is_priced
    return {
        "goodput": goodput_of(seconds),
        "paid_s": float(seconds.sum()),
        "lost_s": lost_of(seconds),
        "seconds": {cause.key: float(seconds[cause]) for cause in TimeCause},
        "paid_usd": float(paid.usd.sum()) if is_priced else None,
        "lost_usd": lost_of(paid.usd) if is_priced else None,
        "usd": {cause.key: float(paid.usd[cause]) for cause in TimeCause} if is_priced else None,
        "unpriced_s": paid.unpriced_s,
    }


def _energy_facts(paid: PaidTime) -> dict[str, Any]:
    return {
        "energy_kwh": paid.energy.kwh,
        "energy_modelled_kwh": None
        if paid.energy.kwh is None
        else paid.energy.modelled_j / J_PER_KWH,
        "energy_coverage_pct": 100.0 * paid.energy.coverage,
    }


def _paid_time(time: NDArray[np.float64], sums: NDArray[np.float64]) -> PaidTime:
    joules, modelled_j, chip_s, metered_s, tokens = sums[_SECONDS, ENERGY].tolist()
    energy = JobEnergy(joules, modelled_j, min(1.0, metered_s / chip_s) if chip_s else 0.0, tokens)
    return PaidTime(time[_SECONDS], time[1], float(sums[_SECONDS, Sum.UNPRICED]), energy)
