"""Prometheus exposition format 0.0.4, the part used by `neuron-monitor-prometheus`."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from trnfleet.bridge.neuron.fields import MEMORY_PARTS
from trnfleet.errors import WireError

MEMORY_PREFIX = "neuroncore_memory_usage_"
"""Begin of the metrics of a core's device memory, one for each kind."""
NAMES = frozenset(
    {
        "neuroncore_utilization_ratio",
        *(MEMORY_PREFIX + part for part in MEMORY_PARTS),
        "neuron_runtime_memory_used_bytes",
        "neuron_runtime_vcpu_usage_ratio",
        "execution_errors_total",
        "execution_status_total",
        "execution_latency_seconds",
        "hardware_ecc_events_total",
        "system_memory_total_bytes",
        "system_memory_used_bytes",
        "system_swap_total_bytes",
        "system_swap_used_bytes",
        "system_vcpu_count",
        "system_vcpu_usage_ratio",
        "instance_info",
        "neuron_hardware_info",
    }
)
"""Metrics of the exporter. Others in the same text, such as its Python process's, are skipped."""

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_SAMPLE = re.compile(
    r"(?:\{(?P<labels>.*)\})?(?:[ \t]+(?P<value>\S+)(?:[ \t]+(?P<ts>-?\d{1,18}))?)?[ \t]*"
)
_LABEL = re.compile(r'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"[ \t]*(?:,|$)')
_COMMENT = re.compile(rb"# (?:HELP|TYPE) [a-zA-Z_:][a-zA-Z0-9_:]*(?: |$)")
_ESCAPE = re.compile(r"\\(.)")


class Sample(NamedTuple):
    """One value of a series."""

    name: str
    labels: dict[str, str]
    value: float
    """NaN if missing or not finite; `problem` names the reason."""
    problem: str
    ts_ns: int | None
    """Time of the sample; None without a timestamp, as in an exporter's own text."""


def is_exposition(line: bytes) -> bool:
    """Return whether a line is in this format: a metric's comment, or an exporter's value."""
    if _COMMENT.match(line):
        return True
    try:
        return parse_sample(line) is not None
    except WireError:
        return False


def parse_sample(line: bytes) -> Sample | None:
    """Return the sample on a line.

    None for a comment, a blank line or another program's metric.

    Raises:
        WireError: the line is none of these.
    """
    try:
        text = line.decode().strip()
    except UnicodeDecodeError as error:
        raise WireError("not UTF-8 text") from error
    if not text or text.startswith("#"):
        return None
    name = _NAME.match(text)
    if name is None:
        raise WireError(f"no sample of Prometheus' text format: {text[:40]!r}")
    if name[0] not in NAMES:
        return None
    match = _SAMPLE.fullmatch(text, name.end())
    if match is None:
        raise WireError(f"{name[0]}: no sample of Prometheus' text format")
    value, problem = _value(match["value"])
    ts_ns = None if match["ts"] is None else int(match["ts"]) * 1_000_000
    if ts_ns is not None and not 0 <= ts_ns < 2**63:
        raise WireError(f"{name[0]}: timestamp {match['ts']} is no time in milliseconds")
    return Sample(name[0], _labels(name[0], match["labels"] or ""), value, problem, ts_ns)


def _value(text: str | None) -> tuple[float, str]:
    """Return a finite number and no problem, or NaN and the problem."""
    if text is None:
        return math.nan, "has no value"
    try:
        value = float(text)
    except ValueError:
        return math.nan, f"is {text[:40]!a}, no number"
    return (value, "") if math.isfinite(value) else (math.nan, f"is {text[:40]}")


def _labels(name: str, text: str) -> dict[str, str]:
    labels: dict[str, str] = {}
    place = 0
    while place < len(text):
        match = _LABEL.match(text, place)
        if match is None:
            raise WireError(f"{name}: its labels are not those of Prometheus' text format")
        labels[match[1]] = _ESCAPE.sub(_unescaped, match[2])
        place = match.end()
    return labels


def _unescaped(found: re.Match[str]) -> str:
    return "\n" if found[1] == "n" else found[1]
