"""The header's text: the fleet in a few figures, from the monitor's summary.

Pure functions without a widget.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from trnfleet.clock import format_local, parse_rfc3339
from trnfleet.domain.metrics import BY_NAME
from trnfleet.domain.quantities import (
    bare,
    count,
    counted,
    duration,
    mean_label,
    part_label,
    with_unit,
)
from trnfleet.monitor.store.averages import WINDOW_S
from trnfleet.monitor.store.fields import BY_KEY
from trnfleet.monitor.store.last_known import jobs_text
from trnfleet.monitor.summary import Means, Summary, undescribed_text
from trnfleet.text import LONGEST, plain
from trnfleet.tui import theme
from trnfleet.tui.format.addresses import last_segments
from trnfleet.tui.format.problems import badge
from trnfleet.tui.metric_display import fleet_name, value_text
from trnfleet.tui.view import ALERTS
from trnfleet.tui.widgets.bar import Item, cut, fitted, justified, paragraph
from trnfleet.tui.widgets.cells import Parts, width_of
from trnfleet.tui.widgets.targets import ClickTarget, TargetKind, linked
from trnfleet.wire.ports import RECORDING, LinkStatus

if TYPE_CHECKING:
    from trnfleet.monitor.problems.problem import ProblemCounts


OPTIONAL_FROM = 7
"""Rank from which figures are dropped, before the others are shortened."""
REMEDY_AFTER_S = 5.0
"""Seconds of waiting before the header shows a remedy."""
LAST_SEEN = "last seen"
"""Label of figures without live chips. As long as the usual label, so that nothing moves."""
WORDS = (
    ("live", "Chips that send telemetry"),
    ("stale", "No telemetry for three periods: the values are the last known"),
    ("offline", "Their publisher said that it ends, or the broker did"),
    ("not heard yet", "Described, and no telemetry has come"),
    ("not observed", "Their relay does not hear their cell"),
    ("not described", "They publish, and no descriptor says what they are"),
    ("more to come", "Instances that are described, and shown in a moment"),
    ("from roll-ups", "Sums of a cell's relay, without single chips"),
    ("cells", "Without a watch: nobody evaluates their rules"),
    ("ack silenced", "Problems that somebody has seen to"),
    ("pending", "Rules that hold, but not yet for long enough to fire"),
)
"""Words of the header and their meaning, for the help."""


def header(
    summary: Summary,
    link: LinkStatus,
    width: int,
    problems: ProblemCounts,
    *,
    is_replay: bool = False,
    of_fleets: str = "",
    now_s: float | None = None,
    incomplete: str = "",
    local_time: bool = False,
) -> list[Parts]:
    """Return the header's two lines.

    More while it names a long reason for waiting, and a remedy.

    Args:
        summary: The fleet in figures.
        link: Connection state.
        width: Cells.
        problems: How many problems there are, of all fleets.
        is_replay: Whether publishers say that they replay a recording, so that it is not mistaken
            for live data.
        of_fleets: Words for how many fleets the app watches; empty for one.
        now_s: Monotonic seconds, for how long it has been connected or not; None where that is not
            told.
        incomplete: What problems lack of the moment that is shown; empty for nothing.
        local_time: Whether local time stands beside UTC.
    """
    if not summary.chips:
        waited_s = 0.0 if now_s is None or link.protocol == RECORDING else now_s - link.changed_s
        remedy = what_to_do(summary, link) if waited_s >= REMEDY_AFTER_S else ""
        return [
            [
                (f" {plain(summary.fleet)}", theme.HEAD_STRONG),
                ("   waiting for the fleet …", theme.HEAD),
            ],
            *paragraph(why_waiting(summary, link, waited_s), width, theme.HEAD_STRONG),
            *(paragraph(remedy, width, theme.HEAD) if remedy else []),
        ]
    return [
        _inventory(
            summary,
            width,
            problems,
            is_replay=is_replay,
            of_fleets=of_fleets,
            incomplete=incomplete,
            local_time=local_time,
        ),
        fitted(figures(summary), width, theme.HEAD, theme.HEAD_STRONG, optional_from=OPTIONAL_FROM),
    ]


def why_waiting(summary: Summary, link: LinkStatus, for_s: float = 0.0) -> str:
    """Return why nothing is shown yet, and for how long the connection has been so."""
    broker = plain(link.broker) or "the broker"
    if for_s >= 1:
        broker += f" for {duration(int(for_s))}"
    if not link.connected:
        because = f": {plain(link.last_error, LONGEST)}" if link.last_error else ""
        return f"not connected to {broker}{because}"
    if summary.refused:
        number = sum(summary.refused.values())
        last = plain(summary.last_problem, 200)
        return f"connected to {broker}; {counted(number, 'message')} refused, the last: {last}"
    if summary.publishers:
        return f"connected to {broker}; publishers are online, but no descriptor has arrived yet"
    return f"connected to {broker}; no publisher of fleet {plain(summary.fleet)!r} yet"


def what_to_do(summary: Summary, link: LinkStatus) -> str:
    """Return a remedy for the waiting, as commands.

    Empty if the reason names it, or waiting helps.
    """
    if not link.connected or summary.refused or summary.publishers:
        return ""
    return (
        "with the same --broker, `trnfleet status --all-fleets` lists the fleets that are there; "
        "`trnfleet simulate` publishes one"
    )


def figures(summary: Summary) -> list[Item]:
    """Return the second line's figures.

    The most important have the lowest ranks. All except the maximum are means.
    """
    mean = summary.mean
    usual = mean_label(WINDOW_S)
    short = mean_label(mean.seconds) if summary.live_chips else LAST_SEEN
    is_short = summary.live_chips and 0 < mean.seconds < WINDOW_S
    label = f"{usual} ({mean.seconds:g} s so far)" if is_short else short
    part = part_label(summary.live_chips, summary.chips)
    efficiency = with_unit(mean.tflops_per_w, "TFLOP/s/W")
    power = with_unit(mean.power_w, "W")
    cap = f"{power} of {with_unit(mean.power_cap_w, 'W')}"
    # Where only some chips know their power, their number stands in place of the cap.
    is_part = summary.part("power_w") > 0
    return [
        Item(
            f"{label} {part}".rstrip().ljust(len(usual)), part or short.ljust(len(usual)), "", 0, 1
        ),
        _partly(summary, "nc_util_pct", 7, 0),
        _partly(summary, "mfu_pct", 6, 2),
        *(
            [Item("power", "", cap, 18, 3, power, 7)]
            if mean.power_cap_w and not is_part
            else _first_known(summary, 7, 3, "power_w", "hbm_used_bytes")
        ),
        *_below_cap(mean),
        *(
            _hottest(mean)
            if summary.announced.knows(["temperature_c"])
            else _first_known(summary, 7, 5, "exec_errors")
        ),
        *_first_known(summary, 9, 7, "hbm_traffic_bytes_per_s", "exec_latency_p50_s"),
        *_first_known(summary, 9, 8, "link_tx_bytes_per_s", "exec_latency_p99_s"),
        # It has no name, so that n/a would be of nothing.
        *([] if mean.tflops_per_w is None else [Item("", "", efficiency, 13, 9)]),
        *_first_known(summary, 7, 10, "host_power_w", "host_memory_used_bytes"),
        *_first_known(summary, 5, 11, "hbm_bw_util_pct", "vcpu_util_pct"),
        *_first_known(summary, 11, 12, "tflops"),
    ]


def _first_known(summary: Summary, room: int, rank: int, *keys: str) -> list[Item]:
    """Return the first of some figures that a source can know; empty if there is none."""
    parts = {key: BY_KEY[key].parts if key in BY_KEY else (key,) for key in keys}
    key = next((key for key in keys if summary.announced.knows(parts[key])), None)
    return [] if key is None else [_partly(summary, key, room, rank)]


def _partly(summary: Summary, key: str, room: int, rank: int) -> Item:
    """Return a figure; one over fewer chips than are live says so."""
    item = _item(key, getattr(summary.mean, key), room, rank)
    if chips := summary.part(key):
        text = f"{item.value} of {counted(chips, 'chip')}"
        item = item._replace(value=text, room=len(text))
    return item


def _below_cap(mean: Means) -> list[Item]:
    """Return the power left below the chips' cap, as a figure and a share.

    Empty if unknown.
    """
    if mean.headroom_w is None or mean.headroom_pct is None:
        return []
    text = f"{with_unit(mean.headroom_w, 'W')} {mean.headroom_pct:.0f} %"
    return [Item("below cap", "below cap", text, 12, 4)]


def _hottest(mean: Means) -> list[Item]:
    """Return the highest temperature and, if there is room, its chip.

    Both link to the chip.
    """
    unit = BY_KEY["temperature_c"].unit
    temperature = Item("hottest", "hot", with_unit(mean.temperature_max_c, unit), 7, 5)
    if not mean.hottest_chip:
        return [temperature]
    target = ClickTarget(TargetKind.PLACE, mean.hottest_chip)
    chip = plain(brief_chip(last_segments(mean.hottest_chip)), 32)
    return [temperature._replace(target=target), Item("", "", chip, len(chip), 6, target=target)]


def brief_chip(name: str) -> str:
    """Return a chip's name for `:chip`: `0001-0/05` of `trn2u-0001-0/chip05`."""
    return re.sub(r"\A[a-z0-9]+-(?=\d)|(?<=/)chip(?=\d+\Z)", "", name)


def _item(key: str, value: float | None, room: int, rank: int) -> Item:
    """Return a field's figure under its name, the same on every screen.

    Narrow screens show the first word of it.
    """
    if key not in BY_KEY:
        metric = BY_NAME[key]
        text = value_text(metric, math.nan if value is None else value)
        return Item(metric.short_title, metric.short_title, text, room, rank)
    field = BY_KEY[key]
    name = fleet_name(field)
    short = name.partition(" ")[0]
    if field.unit == "W":
        short = ""
    elif field.is_max:
        short = name.rpartition(" ")[2]
    if name.endswith(field.unit):
        # A unit that is in the name is not said twice.
        return Item(name, name, bare(value, field.unit), room, rank)
    return Item(name, short, with_unit(value, field.unit), room, rank)


def _facility(summary: Summary) -> tuple[str, ...]:
    """Return the fleet's power at its meter, in a long and a short form.

    Empty if unknown.
    """
    mean = summary.mean
    if mean.facility_power_w is None:
        return ()
    facility = f"facility {with_unit(mean.facility_power_w, 'W')}"
    both = f"IT {with_unit(mean.it_power_w, 'W')}, {facility}"
    known = summary.part("power_w")
    part = part_label(summary.live_chips, summary.chips)
    if not part and known:
        part = f"of {counted(known, 'chip')}"
    part = f" {part}" if part else ""
    return f"{both} (PUE {summary.pue:.2f}){part}", f"{both}{part}", f"{facility}{part}"


def time_text(summary: Summary, *, short: bool = False) -> str:
    """Return the fleet's time, such as `2026-01-05 14:00 x3600`.

    Empty for the wall clock's time.
    """
    if summary.is_wall_time:
        return ""
    day, _, time = summary.monitor_time.partition("T")
    # Where an hour is a minute, seconds say nothing; where it is an hour, they show that time goes
    # on.
    digits = 8 if summary.speed < 60 else 5
    return f"{day[5 if short else 0 :]} {time[:digits]} x{summary.speed:g}"


def _with_local_time(summary: Summary) -> str:
    """Return the fleet's time, with UTC and local time, such as `21:04:12 UTC 22:04 CET`."""
    utc = time_text(summary) or summary.monitor_time[11:19]
    return f"{utc} UTC {format_local(parse_rfc3339(summary.monitor_time))}"


def fleets_text(fleets: int, not_shown: int) -> str:
    """Return the number of fleets watched, and those without room; empty for one fleet."""
    text = f"1 of {fleets} fleets" if fleets > 1 else ""
    return f"{text}, {not_shown} not shown" if not_shown else text


def _inventory(
    summary: Summary,
    width: int,
    problems: ProblemCounts,
    *,
    is_replay: bool,
    of_fleets: str,
    incomplete: str,
    local_time: bool,
) -> Parts:
    parts: Parts = [
        (f" {plain(summary.fleet, 32)}  ", theme.HEAD_STRONG),
        *([(f"{of_fleets}  ", theme.HEAD_ACCENT)] if of_fleets else []),
        *([("a replay  ", theme.HEAD_ACCENT)] if is_replay else []),
        (count(summary.chips), theme.HEAD_STRONG),
        (" chip  " if summary.chips == 1 else " chips  ", theme.HEAD),
    ]
    # Whatever is to be said of chips, problems keep their place.
    has_problems = problems.critical or problems.warning or problems.info or incomplete
    tight = badge(problems, tight=True, with_quiet=False, incomplete=incomplete)
    least = width_of(tight) + 1 if has_problems else 0
    states = _states(summary)
    if width_of(parts) + width_of(states) + least > width:
        states = _states(summary, with_rolled=False)
    parts = cut([*parts, *states], width - least)
    right = _badge(problems, width - width_of(parts) - 2, incomplete)
    if of_fleets and width_of(parts) + width_of(right) + 6 <= width:
        right.insert(0, ("all: ", theme.HEAD))
    room = width - width_of(parts) - width_of(right) - 3
    times = (
        *([_with_local_time(summary)] if local_time else []),
        time_text(summary),
        time_text(summary, short=True),
    )
    time = next((time for time in times if len(time) <= room), "")
    if time:
        right.insert(0, (f"{time}  ", theme.HEAD_ACCENT))
    places = [
        "" if summary.joining_instances else counted(summary.instances, "instance"),
        counted(summary.ultraservers, "UltraServer") if summary.ultraservers else "",
        jobs_text(summary.jobs, summary.last_known_jobs) if summary.jobs else "",
    ]
    for place in places:
        if place and width_of(parts) + width_of(right) + len(place) + 4 <= width:
            parts.append((f"  {place}", theme.HEAD))
    room = width - width_of(parts) - width_of(right) - 4
    facility = next((text for text in _facility(summary) if len(text) <= room), "")
    if facility:
        parts.append((f"  {facility}", theme.HEAD))
    return justified(parts, right, width, theme.HEAD)


def _states(summary: Summary, *, with_rolled: bool = True) -> Parts:
    """Return the number of live chips, and further remarks about all chips.

    Args:
        summary: The fleet in figures.
        with_rolled: Whether to name figures from roll-ups.
    """
    parts: Parts = []
    undescribed = undescribed_text(summary)
    if summary.live_chips == summary.chips and not undescribed and not summary.joining_instances:
        parts.append(("all live", theme.HEAD))
    else:
        shown = [pair for pair in summary.chip_states if pair[0] or pair[1] == "live"]
        for number, (chips, state) in enumerate(shown):
            parts.append((", " if number else "", theme.HEAD))
            parts.append(
                (f"{count(chips)} {state}", theme.HEAD if state == "live" else theme.HEAD_STRONG)
            )
    if undescribed:
        parts += [(", ", theme.HEAD), (f"{undescribed} not described", theme.HEAD_STRONG)]
    instances = counted(summary.instances, "instance")
    if summary.joining_instances:
        # Beside the instances shown, so that it is clear what is still to come.
        more = f"{count(summary.joining_instances)} more to come"
        parts += [(f"  {instances}, ", theme.HEAD), (more, theme.HEAD_STRONG)]
    if summary.rolled_chips and with_rolled:
        amount = "" if summary.rolled_chips == summary.chips else f"{count(summary.rolled_chips)} "
        parts.append((f"  {amount}from roll-ups", theme.HEAD))
    if summary.unwatched_cells:
        cells = counted(len(summary.unwatched_cells), "cell")
        # That no problem is known of them says nothing, so that this is as loud as one.
        parts += [(" ", theme.HEAD), (f" {cells} without a watch ", theme.BAR_ALERT)]
    return parts


def _badge(problems: ProblemCounts, room: int, incomplete: str) -> Parts:
    """Return the problems in as many words as fit, at least one.

    They link to the alerts.
    """
    looks = (
        badge(problems, incomplete=incomplete),
        badge(problems, with_quiet=False, incomplete=incomplete),
        badge(problems, short=True, with_quiet=False, incomplete=incomplete),
    )
    tight = badge(problems, tight=True, with_quiet=False, incomplete=incomplete)
    parts = next((parts for parts in looks if width_of(parts) <= room), tight)
    target = ClickTarget(TargetKind.VIEW, ALERTS)
    return [(text, linked(style, target)) for text, style in parts]
