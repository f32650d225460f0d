"""Rows, heads and sums of the Power view as styled texts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.filters.columns import Column, Columns, Kind
from trnfleet.domain.quantities import (
    NOT_AVAILABLE,
    DurationStyle,
    bare,
    count,
    counted,
    duration,
    in_digits,
    with_unit,
)
from trnfleet.domain.severity import Severity
from trnfleet.monitor.goodput_report import ESTIMATED, JobTime
from trnfleet.monitor.power import NEAR_CAP, PEAK_PCT
from trnfleet.monitor.power_groups import JOBS
from trnfleet.tui import theme
from trnfleet.tui.widgets.cells import Parts, fit, right, width_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.style import Style

    from trnfleet.monitor.power import Energy, KwhPrice, PowerTable
    from trnfleet.monitor.summary import Summary

SHARE = "closest to cap"
POWER = "power"
TEMPERATURE = "hottest"
EFFICIENCY = "TFLOPS/W"
NAME = "name"
SORTS = (SHARE, POWER, TEMPERATURE, EFFICIENCY, NAME)
POWER_COLUMNS = Columns(
    (
        Column("power", Kind.NUMBER, "W"),
        Column("headroom", Kind.NUMBER, "W"),
        Column("used", Kind.NUMBER, "%", ("share",)),
        Column("temp", Kind.NUMBER, "degC", ("temperature", "hottest")),
        Column("job"),
        Column("p95", Kind.NUMBER, "W", ("peak",)),
        Column("cap", Kind.NUMBER, "W"),
        Column("chips", Kind.NUMBER),
        Column("tflops_per_w", Kind.NUMBER, "TFLOP/s/W"),
        Column("at", Kind.PLACE),
    )
)
NOW = "■"
PEAK = "□"
LEFT = "·"
"""Parts of a bar to the cap: the present mean, then up to the peak, then up to the cap."""
_NAME_LEAST = 17
_NAME_MOST = 30
_JOB_LEAST = 12
_JOB_MOST = 20
_BAR_LEAST = 12


def kw(watts: float) -> str:
    """Return watts as kilowatts: `12.34` below a megawatt, then `1,234`."""
    if math.isnan(watts):
        return NOT_AVAILABLE
    digits = 2 if abs(watts) < 999_995 else 0
    return f"{watts / 1_000:,.{digits}f}"


class PowerColumn(NamedTuple):
    """A column of the table."""

    title: str
    cells: int
    """With a gap before it."""
    text: Callable[[PowerTable, int], str]


def _number(name: str, unit: str) -> Callable[[PowerTable, int], str]:
    def text(table: PowerTable, row: int) -> str:
        return bare(float(getattr(table, name)[row]), unit)

    return text


def _kw(name: str) -> Callable[[PowerTable, int], str]:
    return lambda table, row: kw(float(getattr(table, name)[row]))


def _temperature(table: PowerTable, row: int) -> str:
    return with_unit(float(table.hottest_c[row]), "degC")


def _left(table: PowerTable, row: int) -> str:
    share = float(table.headroom[row] / table.cap[row]) if table.cap[row] > 0 else math.nan
    return NOT_AVAILABLE if math.isnan(share) else f"{100 * share:.0f} %"


def _cap(table: PowerTable, row: int) -> str:
    return kw(float(table.cap[row])) + ("*" if table.is_own_cap[row] else " ")


def _above(table: PowerTable, row: int) -> str:
    seconds = float(table.above_s[row])
    return duration(seconds, DurationStyle.SHORT) if seconds else "-"


def _energy(read: Callable[[JobTime], float | None]) -> Callable[[PowerTable, int], str]:
    def text(table: PowerTable, row: int) -> str:
        job = table.energy[row]
        value = None if job is None else read(job)
        return (
            "-" if job is None or value is None else f"{job.paid.energy.at_least}{in_digits(value)}"
        )

    return text


class PowerPlan(NamedTuple):
    """The columns at a width."""

    name: int
    bar: int
    """Cells; 0 without room."""
    columns: tuple[PowerColumn, ...]
    """Right of the bar, after kW."""
    job: int
    mark: str
    """Behind the head of watts."""

    @staticmethod
    def arrange(width: int, table: PowerTable) -> PowerPlan:
        """Return the columns with room, for a table."""
        mark = ESTIMATED if table.is_modelled else ""
        known = PowerColumn(f"p{PEAK_PCT}", 9, _kw("peak"))
        is_of_jobs = table.groups.kind == JOBS
        headroom = PowerColumn("headroom", 10, _kw("headroom"))
        hottest = PowerColumn("hottest", 9, _temperature)
        share = PowerColumn("left", 6, _left)
        cap = PowerColumn("cap", 10, _cap)
        chips = PowerColumn("chips", 10, lambda table, row: count(int(table.chips[row])))
        work = PowerColumn("TFLOPS/W", 9, _number("tflops_per_w", "TFLOP/s/W"))
        tokens = PowerColumn("tok/J", 7, lambda table, row: _digits(table.tokens_per_j[row]))
        above = PowerColumn("above cap", 10, _above)
        energy = PowerColumn("kWh" + mark, 8 + len(mark), _energy(lambda job: job.paid.energy.kwh))
        token_j = PowerColumn("J/tok", 8, _energy(lambda job: job.paid.energy.per_token_j))
        lasting_j = PowerColumn("J/kept", 8, _energy(lambda job: job.per_kept_token_j))
        ranks = [
            (headroom, True),
            (hottest, not np.isnan(table.hottest_c).all()),
            (tokens, is_of_jobs and not np.isnan(table.tokens_per_j).all()),
            (known, not np.isnan(table.peak).all()),
            (share, True),
            (above, bool(table.above_s.any() or table.is_own_cap.any())),
            (energy, is_of_jobs),
            (token_j, is_of_jobs),
            (cap, True),
            (chips, True),
            (lasting_j, is_of_jobs),
            (work, not np.isnan(table.tflops_per_w).all()),
        ]
        left = width - 2 - _NAME_LEAST - 9 - len(mark)
        left -= _BAR_LEAST + 1 if left >= 32 else 0
        bar = _BAR_LEAST if left >= 19 else 0
        job = 0 if is_of_jobs else _JOB_LEAST + 2
        job = job if left - job >= 19 else 0
        job += _JOB_MOST - _JOB_LEAST if job and left - job >= 54 else 0
        left -= job
        chosen = []
        for column, is_known in ranks:
            if is_known and column.cells <= left:
                chosen.append(column)
                left -= column.cells
        name = max(1, _NAME_LEAST + min(left, _NAME_MOST - _NAME_LEAST))
        left -= name - _NAME_LEAST
        more = (left // 2 if job else left) if bar else 0
        per_energy = (tokens, energy, token_j, lasting_j)
        order = (known, headroom, share, cap, above, work, *per_energy, hottest, chips)
        columns = tuple(column for column in order if column in chosen)
        return PowerPlan(name, bar + more, columns, job and job + left - more, mark)

    def head(self, kind: str) -> str:
        """Return the names of the columns."""
        bar = f" 0 {'─' * (self.bar - 6)} cap" if self.bar else ""
        return (
            f"  {kind:{self.name}}{'kW now' + self.mark:>{9 + len(self.mark)}}{bar}"
            + "".join(f"{column.title:>{column.cells}}" for column in self.columns)
            + ("  job" if self.job else "")
        )


def _digits(value: float) -> str:
    return "-" if math.isnan(value) else bare(float(value), "tok/J")


def row_parts(
    table: PowerTable, row: int, name: str, job: str, plan: PowerPlan, *, is_strong: bool = False
) -> Parts:
    """Return a row's line.

    Args:
        table: The figures.
        row: Its number.
        name: Text of its place.
        job: Text of its jobs.
        plan: The columns.
        is_strong: Whether its name stands out, as that of the fleet.
    """
    sign, style = _sign(table, row)
    texts = "".join(right(column.text(table, row), column.cells) for column in plan.columns)
    parts: Parts = [
        (f"{sign} ", style),
        (fit(name, plan.name), theme.STRONG if is_strong else theme.BASE),
        (right(kw(float(table.watts[row])), 9) + " " * len(plan.mark), theme.STRONG),
    ]
    if plan.bar:
        parts += [(" ", theme.BASE), *bar_parts(table, row, plan.bar)]
    parts.append((texts, theme.BASE))
    if plan.job:
        parts.append((f"  {fit(job, plan.job - 2)}", theme.QUIET))
    return parts


def _sign(table: PowerTable, row: int) -> tuple[str, Style]:
    """Return the sign of a place near or above a cap that a person has set."""
    if not table.is_own_cap[row] or not table.used[row] >= NEAR_CAP:
        return " ", theme.BASE
    is_above = table.watts[row] > table.cap[row]
    severity = Severity.CRITICAL if is_above else Severity.WARNING
    return theme.SEVERITY_GLYPH[severity], theme.SEVERITY_STYLE[severity]


def bar_parts(table: PowerTable, row: int, width: int) -> Parts:
    """Return a bar from 0 to the cap: the present mean, the peak beyond it, and the rest."""
    cap = float(table.cap[row])
    if math.isnan(cap) or cap <= 0 or math.isnan(table.watts[row]):
        return [(" " * width, theme.BASE)]
    now = min(width, round(width * float(table.watts[row]) / cap))
    used = max(now, min(width, round(width * float(table.used[row]))))
    return [
        (NOW * now, theme.FILL if table.watts[row] <= cap else theme.FILL_WARNING),
        (PEAK * (used - now), theme.CHART),
        (LEFT * (width - used), theme.RULE),
    ]


def hourly(facility_w: float | None, price: KwhPrice | None) -> float | None:
    """Return the cost of an hour; None where power or price is unknown."""
    return None if facility_w is None or price is None else facility_w / 1_000 * price.amount


def sums(
    summary: Summary,
    table: PowerTable,
    price: KwhPrice | None,
    width: int,
    *,
    is_loading: bool = False,
) -> Parts:
    """Return the sum from chips to facility, as long as fits; marked while more is to come."""
    mean = summary.mean
    mark = ESTIMATED if table.is_modelled else ""
    chips_w = float(table.watts[-1]) if table.is_modelled else mean.power_w
    # No source with modelled watts knows those of its hosts.
    facility_w = None if table.is_modelled else mean.facility_power_w
    known = round(float(table.covered[-1]))
    part = f" ({known:,} of {counted(summary.chips, 'chip')})" if known < summary.chips else ""
    first: Parts = [(" chips ", theme.QUIET), (with_unit(chips_w, "W") + mark, theme.STRONG)]
    first.append((f"{part}{' (loading)' if is_loading else ''}", theme.QUIET))
    tails: list[Parts] = []
    if facility_w is None:
        tails.append([("  hosts and facility not known", theme.QUIET)])
    else:
        it = with_unit(mean.it_power_w, "W")
        facility = with_unit(facility_w, "W") + ESTIMATED
        cost = hourly(facility_w, price)
        money: Parts = []
        if cost is not None and price is not None:
            per = f" at {price.amount:g} {price.currency}/kWh"
            money = [(f"   {cost:,.2f} {price.currency}/h", theme.STRONG), (per, theme.QUIET)]
        joined: Parts = [(", hosts not known = IT ", theme.QUIET), (it, theme.STRONG)]
        if mean.host_power_w is not None:
            hosts: Parts = [
                (" + hosts ", theme.QUIET),
                (with_unit(mean.host_power_w, "W"), theme.STRONG),
            ]
            joined = [*hosts, (" = IT ", theme.QUIET), (it, theme.STRONG)]
        whole: Parts = [(f" x PUE {summary.pue:.2f} = facility ", theme.QUIET)]
        brief: Parts = [("  facility ", theme.QUIET)]
        value: Parts = [(facility, theme.STRONG)]
        tails += [
            [*joined, *whole, *value, *money],
            [*joined, *whole, *value, *money[:1]],
            [*joined, *brief, *value, *money[:1]],
            [*joined, *brief, *value],
            [*brief, *value],
        ]
    return next((parts for tail in tails if width_of(parts := [*first, *tail]) <= width), first)


def energy_parts(energy: Energy | None, table: PowerTable, width: int) -> Parts:
    """Return the chips' energy of the charts' span, and the largest swing."""
    if energy is None:
        return []
    window = duration(energy.window_s)
    parts: Parts = [
        (" chips' energy ", theme.QUIET),
        (f"{in_digits(energy.kwh)} kWh", theme.STRONG),
        (f" in {window}, {energy.coverage_pct:.0f} % of it known", theme.QUIET),
    ]
    if not math.isnan(energy.swing_w):
        share = 100.0 * energy.swing_w / float(table.cap[-1])
        swing: Parts = [
            ("   largest swing within 2 s ", theme.QUIET),
            (with_unit(energy.swing_w, "W"), theme.STRONG),
            (f", {share:.0f} % of the cap", theme.QUIET),
        ]
        if width_of([*parts, *swing]) <= width:
            parts += swing
    return parts
