"""The header's text: the fleet in a few figures, as the monitor sums it up; pure functions without a widget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.domain.quantities import count, counted, with_unit
from trnfleet.monitor.summary import undescribed_text
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.format.alerts import counts_parts
from trnfleet.tui.widgets.bar import Item, fitted, justified
from trnfleet.tui.widgets.cells import Parts, width_of

if TYPE_CHECKING:
    from trnfleet.monitor.alerting.engine import AlertCounts
    from trnfleet.monitor.summary import Summary
    from trnfleet.wire.ports import LinkStatus


_YEAR_FROM = 100
"""Columns from which a date has its year."""


def header(
    summary: Summary,
    link: LinkStatus,
    width: int,
    alerts: AlertCounts | None = None,
    *,
    is_replay: bool = False,
) -> list[Parts]:
    """Return the header's two lines.

    Args:
        summary: The fleet in figures.
        link: Connection state.
        width: Cells.
        alerts: How many alerts there are; None where there are no rules, so that findings are shown.
        is_replay: Whether publishers say that they replay a recording, so that it is not mistaken for live data.
    """
    if not summary.chips:
        reason = f" {why_waiting(summary, link)}"
        return [
            [(f" {plain(summary.fleet)}", theme.HEAD_STRONG), ("   waiting for the fleet …", theme.HEAD)],
            [(reason, theme.HEAD)],
        ]
    return [
        _inventory(summary, width, alerts, is_replay=is_replay),
        fitted(figures(summary), width, theme.HEAD, theme.HEAD_STRONG),
    ]


def why_waiting(summary: Summary, link: LinkStatus) -> str:
    """Return the reason why there is nothing to show yet."""
    broker = plain(link.broker) or "the broker"
    if not link.connected:
        because = f": {plain(link.last_error)}" if link.last_error else ""
        return f"not connected to {broker}{because}"
    if summary.refused:
        number, last = sum(summary.refused.values()), plain(summary.last_problem, 200)
        return f"connected to {broker}; {counted(number, 'message')} refused, the last: {last}"
    if summary.publishers:
        return f"connected to {broker}; publishers are online, but no descriptor has arrived yet"
    return f"connected to {broker}; no publisher of fleet {plain(summary.fleet)!r} yet"


def figures(summary: Summary) -> list[Item]:
    """Return the second line's figures, the most important ones with the lowest ranks."""
    return [
        Item("NC util", "NC", with_unit(summary.nc_util_pct, "%"), 7, 0),
        Item("MFU", "MFU", with_unit(summary.mfu_pct, "%"), 7, 1),
        Item("HBM", "HBM", with_unit(summary.hbm_traffic_bytes_per_s, "bytes/s"), 9, 2),
        Item("of peak", "", with_unit(summary.hbm_bw_util_pct, "%"), 7, 7),
        Item("NeuronLink", "link", with_unit(summary.link_tx_bytes_per_s, "bytes/s"), 9, 3),
        Item("chips", "", with_unit(summary.power_w, "W"), 7, 4),
        Item("hosts", "hosts", with_unit(summary.host_power_w, "W"), 7, 8),
        Item("", "", with_unit(summary.tflops_per_w, "TFLOP/s/W"), 13, 5),
        Item("achieved", "", with_unit(summary.tflops, "TFLOP/s"), 11, 9),
        Item("hottest", "", with_unit(summary.temperature_c, "degC"), 8, 6),
    ]


def _facility(summary: Summary) -> tuple[str, ...]:
    """Return what the fleet draws at its meter, in more and in fewer words; nothing where it is not known."""
    if summary.facility_power_w is None:
        return ()
    facility = f"facility {with_unit(summary.facility_power_w, 'W')}"
    both = f"IT {with_unit(summary.it_power_w, 'W')}, {facility}"
    return f"{both} (PUE {summary.pue:.2f})", both, facility


def time_text(summary: Summary, *, short: bool = False) -> str:
    """Return the fleet's time, such as `2026-01-05 14:00 x3600`; empty where it is the wall clock's."""
    if summary.is_wall_time:
        return ""
    day, _, time = summary.monitor_time.partition("T")
    # Where an hour is a minute, seconds say nothing; where it is an hour, they show that time goes on.
    digits = 8 if summary.speed < 60 else 5
    return f"{day[5 if short else 0 :]} {time[:digits]} x{summary.speed:g}"


def _inventory(summary: Summary, width: int, alerts: AlertCounts | None, *, is_replay: bool) -> Parts:
    parts: Parts = [
        (f" {plain(summary.fleet, 32)}  ", theme.HEAD_STRONG),
        *([("a replay  ", theme.HEAD_ACCENT)] if is_replay else []),
        (count(summary.chips), theme.HEAD_STRONG),
        (" chip  " if summary.chips == 1 else " chips  ", theme.HEAD),
    ]
    undescribed = undescribed_text(summary)
    if summary.live_chips == summary.chips and not undescribed:
        parts.append(("all live", theme.HEAD))
    else:
        by_state = (
            (summary.live_chips, "live"),
            (summary.stale_chips - summary.offline_chips, "stale"),
            (summary.offline_chips, "offline"),
            (summary.unknown_chips, "not heard yet"),
        )
        for number, (chips, state) in enumerate([each for each in by_state if each[0] or each[1] == "live"]):
            parts.append((", " if number else "", theme.HEAD))
            parts.append((f"{count(chips)} {state}", theme.HEAD if state == "live" else theme.HEAD_STRONG))
    if undescribed:
        parts.append((f", {undescribed} not described", theme.HEAD_STRONG))
    right = _findings(summary) if alerts is None else _alerts(alerts, width - width_of(parts) - 2)
    time = time_text(summary, short=width < _YEAR_FROM)
    if time and width_of(parts) + width_of(right) + len(time) + 3 <= width:
        right.insert(0, (f"{time}  ", theme.HEAD_ACCENT))
    places = [
        counted(summary.instances, "instance"),
        counted(summary.ultraservers, "UltraServer") if summary.ultraservers else "",
        counted(summary.jobs, "job") if summary.jobs else "",
    ]
    for place in places:
        if place and width_of(parts) + width_of(right) + len(place) + 4 <= width:
            parts.append((f"  {place}", theme.HEAD))
    room = width - width_of(parts) - width_of(right) - 4
    facility = next((text for text in _facility(summary) if len(text) <= room), "")
    if facility:
        parts.append((f"  {facility}", theme.HEAD))
    return justified(parts, right, width, theme.HEAD)


def _alerts(alerts: AlertCounts, room: int) -> Parts:
    """Return the alerts in as many words as there is room for; never in none."""
    looks = (
        counts_parts(alerts),
        counts_parts(alerts, with_quiet=False),
        counts_parts(alerts, short=True, with_quiet=False),
    )
    tight = counts_parts(alerts, tight=True, with_quiet=False)
    return next((parts for parts in looks if width_of(parts) <= room), tight)


def _findings(summary: Summary) -> Parts:
    if not summary.findings:
        return [("nothing needs a look ", theme.HEAD)]
    return [(f" ▲ {counted(summary.findings, 'finding')} ", theme.BAR_ALERT)]
