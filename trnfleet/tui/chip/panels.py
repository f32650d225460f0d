"""The panels of the chip view: pure functions from facts to lines of styled texts, each of a given width.

They read nothing and do not know each other; `view` arranges them. Their metrics come from `metric_display`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.metrics import ENGINES, Kind, chip_peak
from trnfleet.domain.quantities import NOT_AVAILABLE, DurationStyle, count, duration, with_unit
from trnfleet.domain.severity import Severity
from trnfleet.monitor.store import findings
from trnfleet.monitor.store.fields import BY_KEY
from trnfleet.monitor.store.store import Freshness
from trnfleet.tui import theme
from trnfleet.tui.metric_display import PANELS, ChipPanel
from trnfleet.tui.widgets import charts
from trnfleet.tui.widgets.cells import CHART, FILL, FILL_DIM, FILL_WARNING, bar, fit, right, width_of

if TYPE_CHECKING:
    from rich.style import Style

    from trnfleet.domain.metrics import Metric
    from trnfleet.monitor.store.fields import Field
    from trnfleet.tui.chip.reading import ChipFacts, LinkFacts
    from trnfleet.tui.metric_display import ShownMetric
    from trnfleet.tui.widgets.cells import FixedParts

    Panel = list[FixedParts]

_LINK_BARS_FROM = 60
"""Cells from which a link's line has bars and the other end's chip in full."""

CELL_S = 5
"""Seconds that a cell of a chart is the mean of."""

_CRITICAL, _WARNING = (theme.SEVERITY_STYLE[each] for each in (Severity.CRITICAL, Severity.WARNING))


class Ink(NamedTuple):
    """Styles of a panel: those of live values, or dim ones throughout."""

    base: Style
    strong: Style
    quiet: Style
    fill: Style
    chart: Style
    is_live: bool

    @staticmethod
    def of(freshness: Freshness) -> Ink:
        if freshness is Freshness.LIVE:
            return Ink(theme.BASE, theme.STRONG, theme.QUIET, FILL, CHART, is_live=True)
        dim = theme.STATE_STYLE[Freshness.STALE]
        return Ink(dim, dim, theme.GHOST, FILL_DIM, theme.GHOST, is_live=False)

    def value(self, value: float, style: Style | None = None) -> Style:
        """Return the style of a value: as given where it is live, faint where it is not available."""
        if math.isnan(value):
            return theme.GHOST
        return style if style is not None and self.is_live else self.base


def cores(facts: ChipFacts, width: int, *, in_pairs: bool, with_spark: bool) -> Panel:
    """Return the NeuronCores, a logical one a line (`in_pairs`) or a physical one a line with brackets."""
    ink, lnc = Ink.of(facts.freshness), facts.lnc or 1
    number = facts.chip.neuroncores
    values = facts.values["nc_util_pct"][:number].tolist()
    known = [value for value in values if not math.isnan(value)]
    mean = sum(known) / len(known) if known else math.nan
    name = f"NeuronCores  LNC={facts.lnc or NOT_AVAILABLE}"
    lines = [_title(facts, name, with_unit(mean, "%"), width, "nc_util_pct" if with_spark else None)]
    if not in_pairs:
        for core, value in enumerate(values):
            label = f"{_bracket(core, lnc)} nc{core}"
            note = f"  logical {core // lnc}" if lnc > 1 and core % lnc == 0 else " " * 11
            lines.append(_gauge(ink, label, value, value / 100, with_unit(value, "%"), width, 7, note, 9))
        return lines
    a_line = lnc if lnc > 1 else 2
    for first in range(0, number, a_line):
        parts: list[tuple[str, Style]] = []
        label = f"L{first // lnc}" if lnc > 1 else ""
        left = 3 if lnc > 1 else 0
        parts.append((label.ljust(left), ink.quiet))
        each = (width - left) // a_line
        for core in range(first, min(number, first + a_line)):
            value = values[core]
            parts.append((f"nc{core} ", ink.quiet))
            parts.extend(bar(value / 100, max(1, each - 11), ink.fill))
            parts.append((right(_short_percent(value), 6) + " ", ink.value(value)))
        lines.append(tuple(parts))
    return lines


def engines(facts: ChipFacts, width: int) -> Panel:
    """Return the four engines and what they achieve."""
    ink = Ink.of(facts.freshness)
    tflops = facts.value("tflops")
    mfu = 100 * tflops * 1e12 / facts.chip.bf16_dense_flops.value
    figure = (
        NOT_AVAILABLE if math.isnan(tflops) else f"{with_unit(tflops, 'TFLOP/s')}  MFU {with_unit(mfu, '%')}"
    )
    lines = [_title(facts, "Engines", figure, width)]
    for name, value in zip(ENGINES, facts.values["engine_util_pct"].tolist(), strict=True):
        lines.append(_gauge(ink, name, value, value / 100, with_unit(value, "%"), width, 8))
    return lines


def hbm(facts: ChipFacts, width: int, *, with_spark: bool) -> Panel:
    """Return high-bandwidth memory: how full, how busy."""
    ink, chip = Ink.of(facts.freshness), facts.chip
    traffic = facts.value("hbm_read_bytes_per_s") + facts.value("hbm_write_bytes_per_s")
    size, peak = chip.hbm_bytes.value, chip.hbm_bytes_per_s.value
    name = f"HBM  {size / 2**30:.0f} GiB"
    if not with_spark:
        name += f", {with_unit(peak, 'bytes/s')}"
    lines = [
        _title(
            facts,
            name,
            with_unit(100 * traffic / peak, "%"),
            width,
            "hbm_traffic_bytes_per_s" if with_spark else None,
        )
    ]
    entries = [
        (shown.label, facts.value(shown.metric.name), chip_peak(shown.metric, chip), shown.metric.unit)
        for shown in PANELS[ChipPanel.HBM]
    ]
    for label, value, most, unit in (*entries, ("traffic", traffic, peak, "bytes/s")):
        share = value / most
        is_full = unit == "bytes" and share >= findings.HBM_FULL
        text = right(with_unit(value, unit), 10) + right(with_unit(100 * share, "%"), 9)
        lines.append(_gauge(ink, label, value, share, text, width, 8, text_width=19, warns=is_full))
    return lines


def power(facts: ChipFacts, width: int, *, with_spark: bool) -> Panel:
    """Return power between background and maximum, temperature, throttling and efficiency."""
    ink, chip = Ink.of(facts.freshness), facts.chip
    watts = facts.value("power_w")
    low, high = chip.power_background_w.value, chip.power_max_w.value
    name = f"Power  {low:.0f} to {high:.0f} W"
    lines = [_title(facts, name, with_unit(watts, "W"), width, "power_w" if with_spark else None)]
    for metric, display, label in PANELS[ChipPanel.POWER]:
        value = facts.value(metric.name)
        # Watts begin at the background, which the chip never goes below.
        start = low if metric.name == "power_w" else 0.0
        filled = (value - start) / (chip_peak(metric, chip) - start)
        warns = display.severity(value) is not None
        lines.append(_gauge(ink, label, value, filled, with_unit(value, metric.unit), width, 9, warns=warns))
    return lines


def links(facts: ChipFacts, width: int, *, columns: int, with_spark: bool) -> Panel:
    """Return the NeuronLinks in one column or two: rates, shares of their peaks, and the other ends."""
    ink = Ink.of(facts.freshness)
    there = [link for link in facts.links if link.exists]
    up = [link for link in there if link.up]
    known = [link for link in there if link.up is not None]
    figure = f"{len(up)}/{len(there)} up" if known else NOT_AVAILABLE if there else "none"
    lines = [_title(facts, "NeuronLink  GB/s", figure, width, "link_tx_bytes_per_s" if with_spark else None)]
    gap = 2
    each = (width - gap * (columns - 1)) // columns
    rows = -(-len(facts.links) // columns)
    for row in range(rows):
        parts: list[tuple[str, Style]] = []
        for column in range(columns):
            number = row * columns + column
            if column:
                parts.append((" " * gap, ink.base))
            if number < len(facts.links):
                parts.extend(_link(ink, facts.links[number], each, facts))
        lines.append(tuple(parts))
    return lines


def counters(facts: ChipFacts, width: int, *, columns: int) -> Panel:
    """Return ECC and execution counters with their rates, and which components are unhealthy."""
    ink = Ink.of(facts.freshness)
    if facts.unhealthy is None:
        health, style = f"health {NOT_AVAILABLE}", theme.GHOST
    elif facts.unhealthy:
        health, style = "✖ unhealthy: " + ", ".join(facts.unhealthy), _CRITICAL
    else:
        health, style = "healthy", ink.quiet
    name = "Counters"
    rule = "─" * max(0, width - len(name) - 2 - len(health))
    lines: Panel = [((name + " ", ink.strong), (rule + " ", theme.GHOST), (health, style))]
    gap = 2
    each = (width - gap * (columns - 1)) // columns
    entries = [shown for shown in PANELS[ChipPanel.COUNTERS] if shown.metric.kind is Kind.COUNTER]
    for row in range(-(-len(entries) // columns)):
        parts: list[tuple[str, Style]] = []
        for column in range(columns):
            # Down the columns, so that what belongs together stands together.
            number = row + column * -(-len(entries) // columns)
            if column:
                parts.append((" " * gap, ink.base))
            if number < len(entries):
                parts.extend(_counter(ink, facts, entries[number], each))
        lines.append(tuple(parts))
    return lines


def host(facts: ChipFacts, width: int) -> Panel:
    """Return the instance's own figures."""
    ink = Ink.of(facts.freshness)
    lines = [_title(facts, "Instance", facts.kind.name, width)]
    for metric, _, label in PANELS[ChipPanel.INSTANCE]:
        value = facts.host[metric.name]
        text = right(_value_text(metric, value), max(1, width - 13))
        lines.append(((fit(label, 13), ink.quiet), (text, ink.value(value))))
    return lines


def other(facts: ChipFacts, width: int) -> Panel:
    """Return the chip metrics that no other panel has; no line at all where there are none."""
    if not PANELS[ChipPanel.OTHER]:
        return []
    ink = Ink.of(facts.freshness)
    lines = [_title(facts, "Other", "", width)]
    for metric, display, label in PANELS[ChipPanel.OTHER]:
        value = facts.value(metric.name)
        found = display.severity(value)
        style = None if found is None else theme.SEVERITY_STYLE[found]
        text = right(_value_text(metric, value), max(1, width - 13))
        lines.append(((fit(label, 13), ink.quiet), (text, ink.value(value, style))))
    return lines


def _value_text(metric: Metric, value: float) -> str:
    if metric.kind is Kind.BITMASK:
        return NOT_AVAILABLE if math.isnan(value) else f"{int(value):#x}"
    is_short = metric.unit == "s" and value < 1
    return with_unit(1e3 * value, "ms") if is_short else with_unit(value, metric.unit)


def chart(facts: ChipFacts, field: Field, width: int, height: int) -> Panel:
    """Return the history of a field as an area chart of `height` lines under its title."""
    ink, series = Ink.of(facts.freshness), facts.series[field.key]
    low, high = field.low, field.peak(facts.chip) if field.peak else 1.0
    values = charts.bucket(series, width, CELL_S, facts.samples)
    known = values[~np.isnan(values)]
    now = float(series[-1]) if len(series) else math.nan
    span = duration(width * CELL_S, DurationStyle.COARSE) + ("" if facts.speed == 1.0 else " wall")
    # On a narrow panel the lower end, then the scale as a whole, has to go.
    top = with_unit(high, field.unit)
    used = len(f"{field.title}  {with_unit(now, field.unit)}  ")
    scales = (f"{with_unit(low, field.unit)} to {top}, {span}", f"up to {top}, {span}", f"up to {top}", span)
    scale = next((text for text in scales if len(text) + 2 <= width - used), "")
    room = max(0, width - used - len(scale))
    lines: Panel = [
        (
            (field.title + "  ", ink.strong),
            (with_unit(now, field.unit) + " ", ink.value(now)),
            ("─" * room + " ", theme.GHOST),
            (scale, ink.quiet),
        )
    ]
    if not len(known):
        blank = ("no history yet".center(width), theme.GHOST)
        return [*lines, *(((blank,) if row == height // 2 else ()) for row in range(height))]
    return [*lines, *(((text, ink.chart),) for text in charts.area(values, low, high, height))]


def provenance(facts: ChipFacts, width: int) -> Panel:
    """Return for every metric where its values come from."""
    ink = Ink.of(facts.freshness)
    origin = {"simulated": "a simulator", "neuron": "a real host"}.get(facts.origin, "unknown")
    lines = [_title(facts, "Provenance", origin, width)]
    for metric, where, source in facts.provenance:
        name, kind = fit(metric.name, 24), fit(where, 12)
        style = theme.GHOST if where in {"unavailable", "not sent"} else ink.base
        lines.append(((name, ink.quiet), (kind, style), (fit(source, max(0, width - 36)), ink.quiet)))
    return lines


def _title(facts: ChipFacts, name: str, figure: str, width: int, spark: str | None = None) -> FixedParts:
    """Return a panel's first line: its name, a rule or the history of one field, and its main figure."""
    ink = Ink.of(facts.freshness)
    room = width - len(name) - len(figure) - 2
    style = ink.value(math.nan) if figure == NOT_AVAILABLE else ink.strong
    if spark is None or room < 6 or not len(facts.series[spark]):
        return (name + " ", ink.strong), ("─" * max(0, room) + " ", theme.GHOST), (figure, style)
    field = BY_KEY[spark]
    high = field.peak(facts.chip) if field.peak else 1.0
    series = facts.series[spark]
    # The figure beside it says how much; the line says which way it goes.
    text = charts.spark(charts.bucket(series, room - 2, CELL_S, facts.samples), field.low, high)
    return (name + "  ", ink.strong), (text + "  ", ink.chart), (figure, style)


def _gauge(
    ink: Ink,
    label: str,
    value: float,
    share: float,
    text: str,
    width: int,
    label_width: int,
    note: str = "",
    text_width: int = 10,
    *,
    warns: bool = False,
) -> FixedParts:
    """Return a line of label, bar and value; a value that warns has a glyph and a colour."""
    warns = warns and ink.is_live
    if warns:
        text = theme.SEVERITY_GLYPH[Severity.WARNING] + text.strip()
    room = max(1, width - label_width - text_width - len(note))
    return (
        (fit(label, label_width), ink.quiet),
        *bar(share, room, FILL_WARNING if warns else ink.fill),
        (right(text, text_width), ink.value(value, _WARNING if warns else None)),
        (note, ink.quiet),
    )


def _link(ink: Ink, link: LinkFacts, width: int, facts: ChipFacts) -> FixedParts:
    """Return one link in `width` cells."""
    label = (fit(link.direction, 7), ink.quiet)
    if not link.exists:
        return label, (fit("no link", width - 7), theme.GHOST)
    whereto = _whereto(link, facts, width)
    if link.up is False:
        style = _CRITICAL if ink.is_live else ink.base
        return label, (fit("✖ down", 20), style), (" " + fit(whereto, width - 28), ink.quiet)
    share = max(link.tx_bytes_per_s, link.rx_bytes_per_s) / link.peak_bytes_per_s
    percent = NOT_AVAILABLE if math.isnan(share) else f"{100 * share:.0f}%"
    rates = [
        (
            glyph,
            value,
            "" if math.isnan(value) else f"{value / 1e9:.1f}" if value < 99.95e9 else f"{value / 1e9:.0f}",
        )
        for glyph, value in (("↑", link.tx_bytes_per_s), ("↓", link.rx_bytes_per_s))
    ]
    parts: list[tuple[str, Style]] = [label]
    bars = (width - 50) // 2 if width >= _LINK_BARS_FROM else 0
    for glyph, value, text in rates:
        if bars:
            parts.extend(bar(value / link.peak_bytes_per_s, bars, ink.fill))
            parts.append((f" {glyph}" + right(text or NOT_AVAILABLE, 4) + "  ", ink.value(value)))
        else:
            parts.append((glyph + right(text or NOT_AVAILABLE, 4) + " ", ink.value(value)))
    parts.append((right(percent, 4) + " ", ink.value(share)))
    parts.append((fit(whereto, width - width_of(tuple(parts))), ink.quiet))
    return tuple(parts)


def _whereto(link: LinkFacts, facts: ChipFacts, width: int) -> str:
    """Return the other end in as few words as say it: a chip of the same instance, or the same chip of another."""
    if link.is_port:
        return "switch"
    if not link.neighbour:
        return "unknown"
    instance, _, chip = link.neighbour.rpartition("/")
    own = facts.address.rpartition("/")[0]
    if instance == own:
        return chip
    return instance.rpartition("/")[2] if width < _LINK_BARS_FROM else f"{instance.rpartition('/')[2]}/{chip}"


def _counter(ink: Ink, facts: ChipFacts, shown: ShownMetric, width: int) -> FixedParts:
    value, rate = facts.value(shown.metric.name), facts.rates[shown.metric.name]
    total = NOT_AVAILABLE if math.isnan(value) else count(int(value))
    style, found = None, shown.display.severity(value)
    if found is not None and ink.is_live:
        style = theme.SEVERITY_STYLE[found]
        total = theme.SEVERITY_GLYPH[found] + total
    a_second = "" if math.isnan(rate) else f"{rate:.1f}/s" if rate < 1_000 else f"{rate:,.0f}/s"
    return (
        (fit(shown.label, 17), ink.quiet),
        (right(total, max(1, width - 17 - 9)), ink.value(value, style)),
        (right(a_second, 9), ink.quiet),
    )


def _bracket(core: int, lnc: int) -> str:
    if lnc == 1:
        return " "
    return "╭" if core % lnc == 0 else "╰" if core % lnc == lnc - 1 else "│"


def _short_percent(value: float) -> str:
    return NOT_AVAILABLE if math.isnan(value) else f"{value:.1f}"
