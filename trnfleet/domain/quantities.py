"""Numbers as text for a screen: fixed widths, SI prefixes, `n/a` for unknown values."""

from __future__ import annotations

import enum
import math

NOT_AVAILABLE = "n/a"

SI = ("", "k", "M", "G", "T", "P", "E", "Z")
IEC = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")

SHORT_UNITS = {
    "bytes/s": "B/s",
    "bytes": "B",
    "TFLOP/s": "TF/s",
    "TFLOP/s/W": "TF/J",
    "degC": "°C",
    "events": "",
}
"""Units as written behind a number; others are unchanged."""
_LONG_UNITS = SHORT_UNITS | {"TFLOP/s": "FLOP/s", "TFLOP/s/W": "TFLOPS/W"}


def scaled_by(value: float, prefixes: tuple[str, ...], step: float) -> tuple[float, str]:
    """Return a value scaled by its prefix, and the prefix: one of `SI` or `IEC`."""
    magnitude = abs(value)
    for prefix in prefixes[:-1]:
        # What would round up to four digits already belongs to the next prefix.
        if magnitude < step * 0.9995:
            return math.copysign(magnitude, value), prefix
        magnitude /= step
    return math.copysign(magnitude, value), prefixes[-1]


def with_unit(value: float | None, unit: str) -> str:
    """Return a value with its unit: `4.31 TB/s`, `412 W`, `87.5 %`.

    About three significant digits.
    """
    if value is None or math.isnan(value):
        return NOT_AVAILABLE
    if unit in {"events", ""}:
        return f"{value:,.0f}"
    number, prefix = _number(value, unit)
    return f"{number} {prefix}{_LONG_UNITS.get(unit, unit)}"


def bare(value: float | None, unit: str) -> str:
    """Return a value without its unit, for a column with the unit in its head.

    At most seven characters, with its prefix.
    """
    if value is None or math.isnan(value):
        return NOT_AVAILABLE
    number, prefix = _number(value, unit)
    return f"{value:.0f}" if unit == "events" and not prefix else number + prefix


def _number(value: float, unit: str) -> tuple[str, str]:
    """Return a value as text, about three significant digits, and the prefix of its unit."""
    if unit in {"%", "degC"}:
        return f"{value:.1f}", ""
    if unit == "TFLOP/s/W":
        return f"{value:.2f}", ""
    if unit == "bytes":
        scaled, prefix = scaled_by(value, IEC, 1024.0)
    else:
        scaled, prefix = scaled_by(value * 1e12 if unit == "TFLOP/s" else value, SI, 1000.0)
    return _digits(scaled), prefix


def in_three(value: float, unit: str) -> str:
    """Return a value for a heat map's cell; empty if unknown.

    At most three characters (four for some).
    """
    if math.isnan(value):
        return ""
    if unit in {"%", "degC", "W", "TFLOP/s"} and value < 999.5:
        return f"{value:.0f}"
    if unit == "TFLOP/s/W":
        return f"{value:.1f}" if value >= 0.995 else f"{value:.2f}"[1:]
    scaled, prefix = (
        scaled_by(value, IEC, 1024.0) if unit == "bytes" else scaled_by(value, SI, 1000.0)
    )
    if not prefix:
        return f"{scaled:.0f}"
    # 990 of one prefix and 1.0 of the next take as much room; tenths only fit below ten.
    return (
        f"{scaled:.1f}" if 0 < scaled < 9.95 and unit == "events" else f"{scaled:.0f}"
    ) + prefix[0]


class DurationStyle(enum.Enum):
    """Forms of a duration, by width."""

    LONG = enum.auto()
    """Two largest units. Examples: `850 ms`, `12 s`, `3 min 05 s`, `2 h 10 min`, `14 d 3 h`."""
    SHORT = enum.auto()
    """The same in at most seven cells: `12s`, `3m 05s`, `2h 10m`, `14d 03h`, `182d`."""
    COARSE = enum.auto()
    """Largest unit alone: `12 s`, `3 min`, `2 h`, `14 d`."""
    NARROW = enum.auto()
    """At most four cells: `12s`, `3m`, `2h10`, `14h`, `14d`."""
    CLOCK = enum.auto()
    """As players show it: `0:12`, `3:05`, `2:10:00`."""


_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def duration(seconds: float, style: DurationStyle = DurationStyle.LONG) -> str:
    """Return a duration without its smaller units; negative ones are zero."""
    if style is DurationStyle.LONG and seconds < 1:
        return f"{max(0.0, seconds) * 1000:.0f} ms"
    whole = max(0, int(seconds))
    if style is DurationStyle.CLOCK:
        hours = whole // 3_600
        minutes = whole % 3_600 // 60
        return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"
    place = next(
        (place for place, (size, _) in enumerate(_UNITS) if whole >= size), len(_UNITS) - 1
    )
    size, unit = _UNITS[place]
    first, rest = divmod(whole, size)
    if style is DurationStyle.COARSE:
        return f"{min(999, first)} {unit}"
    next_size, next_unit = _UNITS[min(place + 1, len(_UNITS) - 1)]
    second = rest // next_size
    if style is DurationStyle.LONG:
        if size == 1:
            return f"{first} s"
        return f"{first} {unit} {second:{'' if unit == 'd' else '02'}d} {next_unit}"
    if style is DurationStyle.NARROW:
        return (
            f"{first}h{second:02d}" if unit == "h" and first < 10 else f"{min(999, first)}{unit[0]}"
        )
    if size == 1 or first >= 100:
        return f"{first}{unit[0]}"
    return f"{first}{unit[0]} {second:02d}{next_unit[0]}"


def mean_label(seconds: float) -> str:
    """Return the label of a mean, such as `10 s mean`; `now` for 0 seconds."""
    return f"{seconds:g} s mean" if seconds else "now"


def part_label(live: int, chips: int) -> str:
    """Return the number of chips in a sum: `of 322,560 live`.

    Empty if all or none are live.
    """
    return f"of {live:,} live" if 0 < live < chips else ""


def signed_percent(value: float) -> str:
    """Return a difference in whole percent with its sign: `+21 %`.

    Without a sign if it rounds to 0.
    """
    whole = round(value)
    return f"{whole:+d} %" if whole else "0 %"


def count(number: int) -> str:
    """Return a whole number with separators."""
    return f"{number:,}"


def counted(number: int, noun: str) -> str:
    """Return a number of things: `1 chip`, `1,000 chips`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _digits(value: float) -> str:
    magnitude = abs(value)
    if magnitude == 0:
        return "0"
    if magnitude < 9.995:
        return f"{value:.2f}"
    if magnitude < 99.95:
        return f"{value:.1f}"
    return f"{value:.0f}"


def in_digits(value: float) -> str:
    """Return a number with three digits, or all of its whole ones: `0.0712`, `12,400`."""
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:,.0f}"


def size_text(size_bytes: float) -> str:
    """Return a size with a binary prefix, such as `4.2 MiB`."""
    for prefix in ("B", "KiB", "MiB", "GiB"):
        if size_bytes < 1_000:
            return f"{size_bytes:.0f} {prefix}" if prefix == "B" else f"{size_bytes:.3g} {prefix}"
        size_bytes /= 1_024
    return f"{in_digits(size_bytes)} TiB"
