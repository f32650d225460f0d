"""The fleet's figures on a screen by name.

They are in the header, the chart titles and the root row of the tree. Two values of one name on one
screen are a contradiction, whatever their styles: `61.1 kW` and `61.1k` are the same.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

HEADER_ROW = 1
_NAMES = {
    "NC util": "nc_util_pct",
    "NC": "nc_util_pct",
    "MFU": "mfu_pct",
    "HBM bw %": "hbm_bw_util_pct",
    "HBM bw": "hbm_traffic_bytes_per_s",
    "HBM": "hbm_traffic_bytes_per_s",
    "link tx": "link_tx_bytes_per_s",
    "link": "link_tx_bytes_per_s",
    "host power": "host_power_w",
    "power": "power_w",
    "compute": "tflops",
    "hottest": "temperature_max_c",
    "hot": "temperature_max_c",
    "below cap": "headroom_w",
}
_SHORT = {"NC", "HBM", "link", "hottest", "hot", "below cap"}
_HEADS = {
    **{name: key for name, key in _NAMES.items() if name not in _SHORT},
    "temp": "temperature_max_c",
    "TFLOPS/W": "tflops_per_w",
}
_HEAD = re.compile(
    rf"(?<![^\s↑↓])({'|'.join(map(re.escape, sorted(_HEADS, key=len, reverse=True)))})(?!\S)"
)
_PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_VALUE = r"(-?\d[\d.]*) ?([kMGTPE]?)(?:%|W|B/s|FLOP/s|°C|(?= ))"
_FIGURE = re.compile(rf"(?<!\S)({'|'.join(_NAMES)}) +{_VALUE}(?!\S)")
_TITLES = {**_NAMES, "Power": "power_w"}
_TITLE = re.compile(rf"(?<!\S)({'|'.join(_TITLES)}) {_VALUE} (?=.*─)")
_PLACE = re.compile(r"(?<!\S)\S+  (?:chip|instance|UltraServer|cluster)\b.* ─")


class Shown(NamedTuple):
    """A figure on a screen."""

    key: str
    """Its key among the means of `status --json`."""
    value: float
    where: str


def figures(lines: list[str], *, with_charts: bool = True) -> list[Shown]:
    """Return the fleet's figures on a screen.

    Charts are the fleet's only in the Fleet view, and there not below the name of a place.
    """
    found = [_shown(match, "header") for match in _FIGURE.finditer(lines[HEADER_ROW] + " ")]
    end = len(lines[HEADER_ROW])
    for line in lines[HEADER_ROW + 1 :] if with_charts else ():
        if place := _PLACE.search(line):
            end = place.start()
        found += [_shown(match, "chart") for match in _TITLE.finditer(line) if match.start() < end]
    return [*found, *_root(lines)]


def contradictions(shown: list[Shown]) -> list[str]:
    """Return what has two values on one screen."""
    values: dict[str, dict[float, str]] = {}
    for each in shown:
        values.setdefault(each.key, {})[each.value] = each.where
    return [f"{key}: {which}" for key, which in values.items() if len(which) > 1]


def differences(shown: list[Shown], mean: Mapping[str, float | None]) -> list[str]:
    """Return a screen's figures different from `status --json`."""
    return [
        f"{each.key} is {each.value:g} in {each.where}, {mean[each.key]} in the JSON"
        for each in shown
        if not _is_same(each, mean[each.key])
    ]


def _is_same(shown: Shown, value: float | None) -> bool:
    if value is None:
        return False
    wanted = value * (1e12 if shown.key == "tflops" else 1.0)
    # One decimal of percentages and degrees, three digits of the rest.
    is_fixed = shown.key.endswith(("_pct", "_c"))
    room = (
        0.0501
        if is_fixed
        else 0.00501 * max(abs(wanted), 1.0)
        if shown.key != "tflops_per_w"
        else 0.00501
    )
    return abs(shown.value - wanted) <= room


def _shown(match: re.Match[str], where: str) -> Shown:
    name, number, prefix = match.groups()
    return Shown(_TITLES[name], float(f"{float(number) * _PREFIXES[prefix]:.6g}"), where)


def _root(lines: list[str]) -> Iterator[Shown]:
    """Yield the figures of the first row of the tree, if there is one."""
    top = next(
        (y for y, line in enumerate(lines) if re.match(r"\s+[↑↓]?name\s+[↑↓]?state\b", line)), None
    )
    if top is None or top + 2 >= len(lines):
        return
    head = lines[top]
    row = lines[top + 2]
    seen = set[str]()
    before = 0
    for match in _HEAD.finditer(head):
        cell = row[before : match.end()]
        before = match.end()
        key = _HEADS[match.group(1)]
        value = re.search(r"(-?\d[\d.]*) ?([kMGTPE]?)\S*$", cell.rstrip())
        if value is not None and key not in seen:
            seen.add(key)
            yield Shown(key, float(f"{float(value[1]) * _PREFIXES[value[2]]:.6g}"), "tree")
