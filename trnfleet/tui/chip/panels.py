"""The panels of the chip view: pure functions from facts to styled lines.

The width is fixed by the caller. Panels read nothing and do not know each other; `view` arranges
them. Their metrics come from `metric_display`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.address import Level
from trnfleet.domain.alerts.signals import Scope
from trnfleet.domain.metrics import ENGINES, Kind, chip_peak
from trnfleet.domain.quantities import NOT_AVAILABLE, count, with_unit
from trnfleet.domain.severity import Severity
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.store import findings
from trnfleet.monitor.store.announced import unknown_text
from trnfleet.monitor.store.fields import BY_KEY, Field
from trnfleet.tui import theme
from trnfleet.tui.charts import plot
from trnfleet.tui.charts.chart import draw, head
from trnfleet.tui.chip.marks import Z_DOWN, ChipPart, PartMark
from trnfleet.tui.metric_display import (
    PANELS,
    ChipPanel,
    ShownMetric,
    value_text,
)
from trnfleet.tui.widgets.cells import FixedParts, Parts, bar, fit, right, width_of, wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.style import Style

    from trnfleet.tui.chip.reading import ChipFacts, LinkFacts

    Panel = list[FixedParts]


class PanelInk(NamedTuple):
    """Styles of a panel: for live values, or all dim."""

    base: Style
    strong: Style
    quiet: Style
    fill: Style
    chart: Style
    spark: Style
    is_live: bool

    @staticmethod
    def choose(freshness: Freshness) -> PanelInk:
        if freshness is Freshness.LIVE:
            return PanelInk(
                theme.BASE,
                theme.STRONG,
                theme.QUIET,
                theme.FILL,
                theme.CHART,
                theme.SPARK,
                is_live=True,
            )
        dim = theme.STATE_STYLE[Freshness.STALE]
        return PanelInk(
            dim, dim, theme.GHOST, theme.FILL_DIM, theme.GHOST, theme.GHOST, is_live=False
        )

    def value(self, value: float, style: Style | None = None) -> Style:
        """Return the style of a value: as passed if available, else faint."""
        if math.isnan(value):
            return theme.GHOST
        return style if style is not None and self.is_live else self.base


def title_line(
    facts: ChipFacts,
    name: str,
    figure: str,
    width: int,
    spark: str | None = None,
    metrics: tuple[str, ...] = (),
) -> FixedParts:
    """Return a panel's first line: name, a rule or a field's history, and main figure.

    An alert about one of the `metrics` marks the figure.
    """
    ink = PanelInk.choose(facts.freshness)
    style = ink.value(math.nan) if figure == NOT_AVAILABLE else ink.strong
    mark = next(
        (
            facts.marks[part]
            for metric in metrics
            if (part := ChipPart(Scope.CHIP, metric)) in facts.marks
        ),
        None,
    )
    if mark is not None:
        figure = noted(f"{mark.glyph}{figure}", mark, width - len(name) - 3)
        style = mark.style
    room = width - len(name) - len(figure) - 2
    if spark is None or room < 6 or not len(facts.series[spark]):
        return (name + " ", ink.strong), ("─" * max(0, room) + " ", theme.RULE), (figure, style)
    field = BY_KEY[spark]
    high = field.peak(facts.chip) if field.peak else 1.0
    series = facts.series[spark]
    # The figure beside it says how much; the line says which way it goes.
    text = plot.spark(
        plot.bucket(series, room - 2, plot.SPARK_CELL_S, facts.samples), field.low, high
    )
    return (name + "  ", ink.strong), (text + "  ", ink.spark), (figure, style)


def gauge_line(
    ink: PanelInk,
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
    mark: PartMark | None = None,
) -> FixedParts:
    """Return a line of label, bar and value.

    A value that warns has a glyph and a colour, unless an alert marks the line.
    """
    warns = warns and ink.is_live
    if warns and mark is None:
        text = theme.SEVERITY_GLYPH[Severity.WARNING] + text.strip()
    if mark is not None and mark.note:
        # What was done about it takes the place of the bar's end.
        text_width = min(width - label_width - len(note) - 1, text_width + len(mark.note) + 2)
        text = noted(text.strip(), mark, text_width)
    warns = warns and (mark is None or not mark.note)
    room = max(1, width - label_width - text_width - len(note))
    return (
        line_name(label, label_width, mark, ink),
        *bar(share, room, theme.FILL_WARNING if warns else ink.fill),
        (
            right(text, text_width),
            ink.value(value, theme.SEVERITY_STYLE[Severity.WARNING] if warns else None),
        ),
        (note, ink.quiet),
    )


def figure_line(
    ink: PanelInk, label: str, text: str, style: Style, mark: PartMark | None, width: int
) -> FixedParts:
    """Return a line of a label and a value."""
    room = max(1, width - 14)
    if mark is not None:
        text = noted(text, mark, room)
        style = mark.style if ink.is_live else style
    return line_name(label, 14, mark, ink), (right(text, room), style)


def line_name(label: str, cells: int, mark: PartMark | None, ink: PanelInk) -> tuple[str, Style]:
    """Return the name of a line, preceded by its alert's glyph."""
    if mark is None:
        return fit(f" {label}", cells), ink.quiet
    return fit(f"{mark.glyph}{label}", cells), mark.style


def noted(text: str, mark: PartMark, room: int) -> str:
    """Return a value, preceded by its alert's handling if there is room."""
    if not mark.note:
        return text
    for note in (mark.note, mark.note.partition(" ")[0]):
        if len(note) + 2 + len(text) <= room:
            return f"{note}  {text}"
    return text


_BETWEEN = "  "
_LINK_BARS_FROM = 60
"""Cells from which a link's line has bars and the other end's chip in full."""
_ROOMY = 76
"""Least cells for every metric's origin beside its source."""


def cores(facts: ChipFacts, width: int, *, in_pairs: bool, with_spark: bool) -> Panel:
    """Return the NeuronCores, one per line: logical (`in_pairs`) or physical with brackets."""
    ink = PanelInk.choose(facts.freshness)
    lnc = facts.lnc or 1
    number = facts.chip.neuroncores
    values = facts.values["nc_util_pct"][:number].tolist()
    known = [value for value in values if not math.isnan(value)]
    mean = sum(known) / len(known) if known else math.nan
    name = f"NeuronCores  LNC={facts.lnc or NOT_AVAILABLE}"
    spark = "nc_util_pct" if with_spark else None
    lines = [title_line(facts, name, with_unit(mean, "%"), width, spark, ("nc_util_pct",))]
    if not in_pairs:
        for core, value in enumerate(values):
            mark = facts.marks.get(ChipPart(Scope.CORE, f"nc{core}"))
            note = f"  logical {core // lnc}" if lnc > 1 and core % lnc == 0 else " " * 11
            gauge = gauge_line(
                ink,
                f"nc{core}",
                value,
                value / 100,
                with_unit(value, "%"),
                width - 1,
                6,
                note,
                9,
                mark=mark,
            )
            lines.append(((_bracket(core, lnc), ink.quiet), *gauge))
        return lines
    a_line = lnc if lnc > 1 else 2
    for first in range(0, number, a_line):
        parts: list[tuple[str, Style]] = []
        label = f"L{first // lnc}" if lnc > 1 else ""
        left = 3 if lnc > 1 else 0
        parts.append((label.ljust(left), ink.quiet))
        core_width = (width - left) // a_line
        for core in range(first, min(number, first + a_line)):
            value = values[core]
            parts.append(
                line_name(f"nc{core}", 5, facts.marks.get(ChipPart(Scope.CORE, f"nc{core}")), ink)
            )
            parts.extend(bar(value / 100, max(1, core_width - 12), ink.fill))
            parts.append((right(_short_percent(value), 6) + " ", ink.value(value)))
        lines.append(tuple(parts))
    return lines


def engines(facts: ChipFacts, width: int) -> Panel:
    """Return the four engines and their achieved rates."""
    if not facts.knows("tflops") and not facts.knows("engine_util_pct"):
        return []
    ink = PanelInk.choose(facts.freshness)
    tflops = facts.value("tflops")
    mfu = 100 * tflops * 1e12 / facts.chip.bf16_dense_flops.value
    figure = (
        NOT_AVAILABLE
        if math.isnan(tflops)
        else f"{with_unit(tflops, 'TFLOP/s')}  MFU {with_unit(mfu, '%')}"
    )
    lines = [title_line(facts, "Engines", figure, width, metrics=("tflops", "mfu_pct"))]
    shares = facts.values["engine_util_pct"].tolist() if facts.knows("engine_util_pct") else []
    for name, value in zip(ENGINES, shares, strict=False):
        lines.append(gauge_line(ink, name, value, value / 100, with_unit(value, "%"), width, 9))
    return lines


def hbm(facts: ChipFacts, width: int, *, with_spark: bool) -> Panel:
    """Return high-bandwidth memory: how full, how busy."""
    ink = PanelInk.choose(facts.freshness)
    chip = facts.chip
    has_traffic = facts.knows(*BY_KEY["hbm_traffic_bytes_per_s"].parts)
    traffic = facts.value("hbm_read_bytes_per_s") + facts.value("hbm_write_bytes_per_s")
    size = chip.hbm_bytes.value
    peak = chip.hbm_bytes_per_s.value
    share = traffic / peak if has_traffic else facts.value("hbm_used_bytes") / size
    spark = "hbm_traffic_bytes_per_s" if has_traffic else "hbm_used_bytes"
    name = f"HBM  {size / 2**30:.0f} GiB"
    if not with_spark:
        name += f", {with_unit(peak, 'bytes/s')}"
    lines = [
        title_line(
            facts,
            name,
            with_unit(100 * share, "%") + ("" if has_traffic else " used"),
            width,
            spark if with_spark else None,
        )
    ]
    entries = [
        (
            shown.label,
            facts.value(name := shown.metric.name),
            chip_peak(shown.metric, chip),
            shown.metric.unit,
            name,
        )
        for shown in PANELS[ChipPanel.HBM]
        if facts.knows(shown.metric.name)
    ]
    if has_traffic:
        entries.append(("traffic", traffic, peak, "bytes/s", "hbm_bw_util_pct"))
    for label, value, most, unit, name in entries:
        share = value / most
        mark = facts.marks.get(ChipPart(Scope.CHIP, name))
        is_full = unit == "bytes" and share >= findings.HBM_FULL
        text = right(with_unit(value, unit), 10) + right(with_unit(100 * share, "%"), 9)
        lines.append(
            gauge_line(
                ink, label, value, share, text, width, 9, text_width=19, warns=is_full, mark=mark
            )
        )
    return lines


def power(facts: ChipFacts, width: int, *, with_spark: bool) -> Panel:
    """Return power between background and maximum, temperature, throttling and efficiency."""
    told = [shown for shown in PANELS[ChipPanel.POWER] if facts.knows(shown.metric.name)]
    if not told:
        return []
    ink = PanelInk.choose(facts.freshness)
    chip = facts.chip
    watts = facts.value("power_w")
    low = chip.power_background_w.value
    high = chip.power_max_w.value
    name = f"Power  {low:.0f} to {high:.0f} W"
    spark = "power_w" if with_spark else None
    lines = (
        [title_line(facts, name, with_unit(watts, "W"), width, spark)]
        if facts.knows("power_w")
        else [title_line(facts, "Power", "% of maximum", width)]
    )
    for metric, display, label in told:
        value = facts.value(metric.name)
        # Watts begin at the background, which the chip never goes below.
        start = low if metric.name == "power_w" else 0.0
        filled = (value - start) / (chip_peak(metric, chip) - start)
        warns = facts.limits.severity(display, value, Level.CHIP) is not None
        text = with_unit(value, metric.unit)
        mark = facts.marks.get(ChipPart(Scope.CHIP, metric.name))
        lines.append(gauge_line(ink, label, value, filled, text, width, 12, warns=warns, mark=mark))
    return lines


def links(facts: ChipFacts, width: int, *, columns: int, with_spark: bool) -> Panel:
    """Return the NeuronLinks in one or two columns: rates, shares of peak, other ends."""
    if not any(facts.knows(shown.metric.name) for shown in PANELS[ChipPanel.LINKS]):
        return []
    ink = PanelInk.choose(facts.freshness)
    there = [link for link in facts.links if link.exists]
    up = [link for link in there if link.up]
    known = [link for link in there if link.up is not None]
    figure = f"{len(up)}/{len(there)} up" if known else NOT_AVAILABLE if there else "none"
    lines = [
        title_line(
            facts, "NeuronLink  GB/s", figure, width, "link_tx_bytes_per_s" if with_spark else None
        )
    ]
    link_width = (width - len(_BETWEEN) * (columns - 1)) // columns
    cells = [_link(ink, link, link_width, facts) for link in facts.links]
    lines += [_beside(cells[at : at + columns], ink) for at in range(0, len(cells), columns)]
    return lines


_COMPONENTS = {
    "hbm": "HBM",
    "sram": "SRAM",
    "link_intraserver": "NeuronLink in the instance",
    "link_host": "link to the host",
    "link_efa": "link to EFA",
    "link_interserver": "NeuronLink in the UltraServer",
}
"""Words for unhealthy components."""


def counters(facts: ChipFacts, width: int, *, columns: int) -> Panel:
    """Return ECC and execution counters with their rates, and the unhealthy components."""
    ink = PanelInk.choose(facts.freshness)
    if facts.unhealthy is None:
        health = f"health {NOT_AVAILABLE}" if facts.knows("health") else ""
        style = theme.GHOST
    elif facts.unhealthy:
        broken = ", ".join(
            _COMPONENTS.get(component, component.replace("_", " ")) for component in facts.unhealthy
        )
        health = f"✖ {broken}"
        style = theme.SEVERITY_STYLE[Severity.CRITICAL]
    else:
        health = "health ok"
        style = ink.quiet
    name = "Counters"
    rule = "─" * max(0, width - len(name) - 2 - len(health))
    mark = facts.marks.get(ChipPart(Scope.CHIP, "health"))
    if mark is not None:
        note = f"{mark.note}  " if mark.note else ""
        health = f"{note}{mark.glyph} {health.removeprefix('✖ ')}"
        style = mark.style
        rule = "─" * max(0, width - len(name) - 2 - len(health))
    lines: Panel = [((name + " ", ink.strong), (rule + " ", theme.RULE), (health, style))]
    counter_width = (width - len(_BETWEEN) * (columns - 1)) // columns
    entries = [
        shown
        for shown in PANELS[ChipPanel.COUNTERS]
        if shown.metric.kind is Kind.COUNTER and facts.knows(shown.metric.name)
    ]
    cells = [_counter(ink, facts, shown, counter_width) for shown in entries]
    # Down the columns, so that related entries are together.
    rows = -(-len(cells) // columns)
    lines += [_beside(cells[row::rows], ink) for row in range(rows)]
    return lines


def host(facts: ChipFacts, width: int) -> Panel:
    """Return the instance's own figures."""
    ink = PanelInk.choose(facts.freshness)
    lines = [title_line(facts, "Instance", facts.kind.name, width)]
    for metric, _, label in PANELS[ChipPanel.INSTANCE]:
        if not facts.knows(metric.name):
            continue
        value = facts.host[metric.name]
        mark = facts.marks.get(ChipPart(Scope.INSTANCE, metric.name))
        lines.append(
            figure_line(ink, label, value_text(metric, value), ink.value(value), mark, width)
        )
    return lines


def other(facts: ChipFacts, width: int) -> Panel:
    """Return the chip metrics without another panel; no lines if there are none."""
    told = [shown for shown in PANELS[ChipPanel.OTHER] if facts.knows(shown.metric.name)]
    if not told:
        return []
    ink = PanelInk.choose(facts.freshness)
    lines = [title_line(facts, "Other", "", width)]
    for metric, display, label in told:
        value = facts.value(metric.name)
        severity = facts.limits.severity(display, value, Level.CHIP)
        style = None if severity is None else theme.SEVERITY_STYLE[severity]
        mark = facts.marks.get(ChipPart(Scope.CHIP, metric.name))
        lines.append(
            figure_line(ink, label, value_text(metric, value), ink.value(value, style), mark, width)
        )
    return lines


def unknown(facts: ChipFacts, width: int) -> Panel:
    """Return the names of figures that the chip's publisher cannot know; no lines for none."""
    ink = PanelInk.choose(facts.freshness)
    text = unknown_text(facts.announced, 1)
    if not text:
        return []
    lines = wrapped(f"{text} (p: why)", width, 5)
    return [((fit(line, width), ink.quiet),) for line in lines]


def chart(facts: ChipFacts, field: Field, width: int, height: int, axis: int) -> Panel:
    """Return a field's history as a chart under its title.

    `height` includes the time axis.

    Args:
        facts: The chip.
        field: What the chart shows.
        width: Cells.
        height: Lines of the chart.
        axis: Least cells of its value axis.
    """
    ink = PanelInk.choose(facts.freshness)
    now = facts.now[field.key]
    chart = facts.charts[field.key]
    value = with_unit(now, field.unit)
    # What is now is not the mean of the last seconds, which headlines have.
    title: Parts = [(field.title + "  ", ink.strong), (value, ink.value(now)), (" now", ink.quiet)]
    lines: Panel = [head(title, facts.window, width)]
    if not ink.is_live:
        chart = chart._replace(
            series=[series._replace(style=ink.chart, area=()) for series in chart.series]
        )
    return [*lines, *draw(chart, width, height, axis=axis)]


def provenance(facts: ChipFacts, width: int) -> Panel:
    """Return the source of every metric's values."""
    ink = PanelInk.choose(facts.freshness)
    # Of a simulator's values the lines say what they would be on a real host.
    origin = {"simulated": "simulated; on a real host:", "neuron": "a real host"}.get(
        facts.origin, "unknown"
    )
    lines = [title_line(facts, "Sources", origin, width)]
    # The title says where they come from if all have one origin; the room is for what differs.
    kinds = {record.origin for record in facts.provenance}
    cells = 0 if len(kinds) == 1 and width < _ROOMY else 12
    room = 2 + max((len(record.metric.name) for record in facts.provenance), default=0)
    for metric, where, source in facts.provenance:
        name = fit(metric.name, room)
        kind = fit(where, cells)
        style = theme.GHOST if where in {"unavailable", "not sent"} else ink.base
        lines.append(
            (
                (name, ink.quiet),
                (kind, style),
                (_whole_words(source, width - room - cells), ink.quiet),
            )
        )
    return lines


def _whole_words(text: str, width: int) -> str:
    """Return the words of a text that fit, padded to `width` cells."""
    if len(text) > width:
        head = text[: max(0, width - 1)].rpartition(" ")[0]
        text = f"{head} …" if head else ""
    return fit(text, max(0, width))


def _beside(cells: Sequence[FixedParts], ink: PanelInk) -> FixedParts:
    """Return cells beside each other in one line."""
    first, *others = cells
    gap = (_BETWEEN, ink.base)
    return (*first, *(part for cell in others for part in (gap, *cell)))


def _link(ink: PanelInk, link: LinkFacts, width: int, facts: ChipFacts) -> FixedParts:
    """Return one link in `width` cells."""
    mark = facts.marks.get(ChipPart(Scope.LINK, link.direction))
    if mark is None and link.up is False and _is_between(link, facts):
        mark = facts.marks.get(ChipPart(Scope.ULTRASERVER, Z_DOWN))
    label = line_name(link.direction, 8, mark, ink)
    if not link.exists:
        return label, (fit("no link", width - 8), theme.GHOST)
    whereto = _whereto(link, facts, width)
    if link.up is False:
        style = theme.SEVERITY_STYLE[Severity.CRITICAL] if ink.is_live else ink.base
        text = "✖ down"
        cells = 16
        if mark is not None:
            text = f"down  {mark.note}"
            style = mark.style
            cells = max(cells, len(text) + 2)
        return label, (fit(text, cells), style), (fit(whereto, width - cells - 8), ink.quiet)
    share = max(link.tx_bytes_per_s, link.rx_bytes_per_s) / link.peak_bytes_per_s
    percent = NOT_AVAILABLE if math.isnan(share) else f"{100 * share:.0f}%"
    rates = [
        (
            glyph,
            value,
            ""
            if math.isnan(value)
            else f"{value / 1e9:.1f}"
            if value < 99.95e9
            else f"{value / 1e9:.0f}",
        )
        for glyph, value in (("↑", link.tx_bytes_per_s), ("↓", link.rx_bytes_per_s))
    ]
    parts: list[tuple[str, Style]] = [label]
    bars = (width - 51) // 2 if width >= _LINK_BARS_FROM else 0
    for glyph, value, text in rates:
        if bars:
            parts.extend(bar(value / link.peak_bytes_per_s, bars, ink.fill))
            parts.append((f" {glyph}" + right(text or NOT_AVAILABLE, 4) + "  ", ink.value(value)))
        else:
            parts.append((glyph + right(text or NOT_AVAILABLE, 4) + " ", ink.value(value)))
    parts.append((right(percent, 4) + " ", ink.value(share, mark.style if mark else None)))
    room = width - width_of(tuple(parts))
    if mark is not None and mark.note:
        words = (f"{whereto}  {mark.note}", f"{whereto} {mark.note.partition(' ')[0]}", mark.note)
        whereto = next((form for form in words if len(form) <= room), mark.note.partition(" ")[0])
    parts.append((fit(whereto, room), ink.quiet))
    return tuple(parts)


def _is_between(link: LinkFacts, facts: ChipFacts) -> bool:
    """Return whether a link connects to another instance."""
    return (
        bool(link.neighbour)
        and link.neighbour.rpartition("/")[0] != facts.address.rpartition("/")[0]
    )


def _whereto(link: LinkFacts, facts: ChipFacts, width: int) -> str:
    """Return the other end in few words.

    It is a chip of the same instance, or the same chip of another.
    """
    if link.is_port:
        return "switch"
    if not link.neighbour:
        return "unknown"
    instance, _, chip = link.neighbour.rpartition("/")
    own = facts.address.rpartition("/")[0]
    if instance == own:
        return chip
    return (
        instance.rpartition("/")[2]
        if width < _LINK_BARS_FROM
        else f"{instance.rpartition('/')[2]}/{chip}"
    )


def _counter(ink: PanelInk, facts: ChipFacts, shown: ShownMetric, width: int) -> FixedParts:
    value = facts.value(shown.metric.name)
    rate = facts.rates[shown.metric.name]
    total = NOT_AVAILABLE if math.isnan(value) else count(int(value))
    style = None
    severity = facts.limits.severity(shown.display, value, Level.CHIP)
    mark = facts.marks.get(ChipPart(Scope.CHIP, shown.metric.name))
    room = max(1, width - 18 - 9)
    if mark is not None:
        style = mark.style
        total = noted(total, mark, room)
    elif severity is not None and ink.is_live:
        style = theme.SEVERITY_STYLE[severity]
        total = theme.SEVERITY_GLYPH[severity] + total
    a_second = "" if math.isnan(rate) else f"{rate:.1f}/s" if rate < 1_000 else f"{rate:,.0f}/s"
    return (
        line_name(shown.label, 18, mark, ink),
        (right(total, room), ink.value(value, style)),
        (right(a_second, 9), ink.quiet),
    )


def _bracket(core: int, lnc: int) -> str:
    if lnc == 1:
        return " "
    return "╭" if core % lnc == 0 else "╰" if core % lnc == lnc - 1 else "│"


def _short_percent(value: float) -> str:
    return NOT_AVAILABLE if math.isnan(value) else f"{value:.1f}"
