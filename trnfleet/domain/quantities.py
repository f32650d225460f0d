"""Numbers as people read them on a screen: fixed widths, SI prefixes, `n/a` for what is not known."""

from __future__ import annotations

import math

NOT_AVAILABLE = "n/a"

_SI = ("", "k", "M", "G", "T", "P", "E")
_IEC = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")

_SHORT_UNITS = {
    "bytes/s": "B/s",
    "bytes": "B",
    "TFLOP/s": "TF/s",
    "TFLOP/s/W": "TF/J",
    "degC": "°C",
    "events": "",
}
"""Units as they stand behind a number; others stand as they are."""


def with_unit(value: float | None, unit: str) -> str:
    """Return a value with its unit and about three significant digits, such as `4.31 TB/s`, `412 W`, `87.5 %`."""
    if value is None or math.isnan(value):
        return NOT_AVAILABLE
    if unit == "%":
        return f"{value:.1f} %"
    if unit == "degC":
        return f"{value:.1f} °C"
    if unit == "bytes":
        scaled, prefix = _scaled(value, _IEC, 1024.0)
        return f"{_digits(scaled)} {prefix}B"
    if unit == "TFLOP/s":
        scaled, prefix = _scaled(value * 1e12, _SI, 1000.0)
        return f"{_digits(scaled)} {prefix}FLOP/s"
    if unit == "TFLOP/s/W":
        return f"{value:.2f} TFLOPS/W"
    if unit in {"events", ""}:
        return f"{value:,.0f}"
    scaled, prefix = _scaled(value, _SI, 1000.0)
    return f"{_digits(scaled)} {prefix}{_SHORT_UNITS.get(unit, unit)}"


def bare(value: float | None, unit: str) -> str:
    """Return a value for a column whose head names the unit: at most seven characters, prefix but no unit."""
    if value is None or math.isnan(value):
        return NOT_AVAILABLE
    if unit in {"%", "degC"}:
        return f"{value:.1f}"
    if unit == "bytes":
        scaled, prefix = _scaled(value, _IEC, 1024.0)
        return _digits(scaled) + prefix
    if unit == "TFLOP/s":
        scaled, prefix = _scaled(value * 1e12, _SI, 1000.0)
        return _digits(scaled) + prefix
    if unit == "TFLOP/s/W":
        return f"{value:.2f}"
    if unit == "events":
        scaled, prefix = _scaled(value, _SI, 1000.0)
        return f"{value:.0f}" if not prefix else _digits(scaled) + prefix
    scaled, prefix = _scaled(value, _SI, 1000.0)
    return _digits(scaled) + prefix


def in_three(value: float, unit: str) -> str:
    """Return a value in at most three characters (four for some), empty where it is not known, for a heat map's cell."""
    if math.isnan(value):
        return ""
    if unit in {"%", "degC", "W", "TFLOP/s"} and value < 999.5:
        return f"{value:.0f}"
    if unit == "TFLOP/s/W":
        return f"{value:.1f}" if value >= 0.995 else f"{value:.2f}"[1:]
    scaled, prefix = _scaled(value, _IEC, 1024.0) if unit == "bytes" else _scaled(value, _SI, 1000.0)
    if not prefix:
        return f"{scaled:.0f}"
    # 990 of one prefix and 1.0 of the next take as much room; tenths only fit below ten.
    return (f"{scaled:.1f}" if 0 < scaled < 9.95 and unit == "events" else f"{scaled:.0f}") + prefix[0]


def duration(seconds: float) -> str:
    """Return a duration in its two largest units, such as `850 ms`, `12 s`, `3 min 05 s`, `2 h 10 min`, `14 d 3 h`."""
    if seconds < 1:
        return f"{max(0.0, seconds) * 1000:.0f} ms"
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 86_400:
        return f"{whole // 3_600} h {whole % 3_600 // 60:02d} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3_600} h"


def count(number: int) -> str:
    """Return a whole number with separators."""
    return f"{number:,}"


def _scaled(value: float, prefixes: tuple[str, ...], step: float) -> tuple[float, str]:
    magnitude = abs(value)
    for prefix in prefixes[:-1]:
        # What would round up to four digits already belongs to the next prefix.
        if magnitude < step * 0.9995:
            return math.copysign(magnitude, value), prefix
        magnitude /= step
    return math.copysign(magnitude, value), prefixes[-1]


def _digits(value: float) -> str:
    magnitude = abs(value)
    if magnitude == 0:
        return "0"
    if magnitude < 9.995:
        return f"{value:.2f}"
    if magnitude < 99.95:
        return f"{value:.1f}"
    return f"{value:.0f}"
