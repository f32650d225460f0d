"""Scrapes of `neuron-monitor-prometheus` or Neuron Observer as documents of `neuron-monitor`.

The exporter sums the counts of all periods; a document has its own period's again. Ratios become
percent, labels the instance's facts. Values missing in the exporter (FLOP/s, the physical cores of
a logical one) are missing in the documents.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from trnfleet.bridge.neuron.fields import MEMORY_PARTS, UTILISATION
from trnfleet.bridge.neuron.host_reader import EXPORTER, OBSERVER
from trnfleet.bridge.neuron.observer import (
    UTILISATION_NAME,
    SeriesSample,
    UtilisationUnit,
    document_of,
    growth,
    is_name,
    number_of,
)
from trnfleet.clock import NS_PER_MS
from trnfleet.errors import WireError
from trnfleet.wire.ndjson import LeftOut, read_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnfleet.wire.ndjson import TextFile


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


def is_exposition(line: bytes) -> bool:
    """Return whether a line is in this format: a metric's comment, or an exporter's value."""
    if _COMMENT.match(line):
        return True
    try:
        return parse_sample(line) is not None
    except WireError:
        return False


def parse_sample(line: bytes) -> SeriesSample | None:
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
    if name[0] not in NAMES and not is_name(name[0]):
        return None
    match = _SAMPLE.fullmatch(text, name.end())
    if match is None:
        raise WireError(f"{name[0]}: no sample of Prometheus' text format")
    value, problem = _value(match["value"])
    ts_ns = None if match["ts"] is None else int(match["ts"]) * NS_PER_MS
    if ts_ns is not None and not 0 <= ts_ns < 2**63:
        raise WireError(f"{name[0]}: timestamp {match['ts']} is not a time in milliseconds")
    return SeriesSample(name[0], _labels(name[0], match["labels"] or ""), value, problem, ts_ns)


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


MOST_LINE_BYTES = 64 * 2**10
MOST_SERIES = 200_000
"""Most series of one scrape. 128 processes listing 128 cores each have 98,000."""
UNDATED = "a scrape without timestamps after the first: when it was taken is not known"


class Scrape(NamedTuple):
    """What one host's exporter said at one time."""

    host: str
    """EC2 id, name tag or Prometheus' `instance`, the first present."""
    ts_ns: int | None
    """None where the text has no timestamps."""
    line: int
    """On which it begins, counted from 1."""
    document: dict[str, Any]
    metrics: tuple[str, ...]
    """Metrics that the host's exporter can have."""


class _Open:
    """A scrape that is being read."""

    def __init__(self, ts_ns: int | None, line: int) -> None:
        self.ts_ns = ts_ns
        self.line = line
        self.samples: list[SeriesSample] = []
        self.seen: set[tuple[str, ...]] = set()
        """Series seen, only without timestamps. A repeated one marks the next scrape."""
        self.is_damaged = False
        """Whether lines are lost: their values are unknown, and may be of any core."""
        self.is_over = False
        """Whether a series came again without a timestamp, and with it another scrape."""


class Scrapes:
    """Reader of a text with scrapes of any number of hosts.

    It has one scrape, or several with timestamps.
    """

    def __init__(self, left_out: LeftOut, unit: UtilisationUnit | None = None) -> None:
        """Count unreadable lines and scrapes in `left_out`."""
        self.unit = unit or UtilisationUnit()
        """Unit of Observer's utilisation."""
        self.unread: Counter[str] = Counter()
        """Series of Observer without a place in a document, by name."""
        self.has_observer = False
        self._left_out = left_out
        self._open: dict[str, _Open] = {}
        self._is_damaged = False
        """Whether a line was lost before the first scrape."""
        self._totals: dict[str, dict[tuple[str, str, str], float]] = {}
        """Counters as they were last, by host, then runtime, metric and kind."""

    def read(self, stream: TextFile) -> Iterator[Scrape]:
        """Yield the scrapes, each host's in order."""
        for number, line in read_lines(stream, MOST_LINE_BYTES):
            if line is None:
                self._left_out.add(f"line {number}", f"longer than {MOST_LINE_BYTES} bytes")
                self._damage()
                continue
            try:
                sample = parse_sample(line)
            except WireError as error:
                self._left_out.add(f"line {number}", str(error))
                self._damage()
                continue
            if sample is None:
                continue
            if sample.problem and (sample.name, sample.problem) != _NO_LATENCY:
                self._left_out.doubt(f"line {number}", f"{sample.name} {sample.problem}")
            if sample.name == UTILISATION_NAME:
                self.unit.note(sample.value, number)
            try:
                done = self._put(sample, number)
            except WireError as error:
                self._left_out.add(f"line {number}", str(error))
                continue
            if done is not None:
                yield done
        if self._open and not stream.is_whole:
            self._left_out.doubt(
                "end", "the text ends within a line: what would follow is not known"
            )
            self._damage()
        for host, scrape in self._open.items():
            yield self._finished(host, scrape)

    def _damage(self) -> None:
        """Mark every open scrape as damaged by a lost line."""
        self._is_damaged = not self._open
        for scrape in self._open.values():
            scrape.is_damaged = True

    def _put(self, sample: SeriesSample, number: int) -> Scrape | None:
        """Take a sample; return the scrape that it ends.

        Raises:
            WireError: it belongs to none.
        """
        is_observer = is_name(sample.name)
        keys = _OBSERVED if is_observer else _HOST
        host = next((sample.labels[key] for key in keys if sample.labels.get(key)), "")
        scrape = self._open.get(host)
        done = None
        if scrape is None or (sample.ts_ns is not None and sample.ts_ns != scrape.ts_ns):
            if scrape is not None:
                if scrape.ts_ns is not None and (sample.ts_ns or 0) < scrape.ts_ns:
                    raise WireError(f"{sample.name}: older than what came before it")
                done = self._finished(host, scrape)
            scrape = self._open[host] = _Open(sample.ts_ns, number)
            scrape.is_damaged = self._is_damaged
        elif sample.ts_ns is None and scrape.ts_ns is not None:
            raise WireError(f"{sample.name}: no timestamp, though others have one")
        if scrape.samples and is_name(scrape.samples[0].name) != is_observer:
            raise WireError(
                f"{sample.name}: a second exporter of the host, whose counts would double"
            )
        if sample.ts_ns is None:
            self._count_again(scrape, sample, number)
        if not scrape.is_over and len(scrape.samples) < MOST_SERIES:
            scrape.samples.append(sample)
        return done

    def _count_again(self, scrape: _Open, sample: SeriesSample, number: int) -> None:
        """Record a series without a timestamp.

        The first repeated series begins another scrape; that scrape is left out.
        """
        series = (sample.name, *(text for pair in sorted(sample.labels.items()) for text in pair))
        if series in scrape.seen:
            scrape.seen = set()
            scrape.is_over = True
            self._left_out.add(f"line {number}", UNDATED)
        if len(scrape.seen) < MOST_SERIES:
            scrape.seen.add(series)

    def _finished(self, host: str, scrape: _Open) -> Scrape:
        totals = self._totals.setdefault(host, {})
        if scrape.samples and is_name(scrape.samples[0].name):
            self.has_observer = True
            metrics = OBSERVER
            document = document_of(scrape.samples, totals, self.unit, self.unread)
        else:
            metrics = EXPORTER
            document = _document(scrape.samples, totals)
        if scrape.is_damaged:
            # An unknown process may be on any core not listed by another.
            document["neuron_runtime_data"].append({"error": "lines are lost", "report": {}})
        return Scrape(host, scrape.ts_ns, scrape.line, document, metrics)


_NO_LATENCY = ("execution_latency_seconds", "is NaN")
"""An exporter's problem for a process without executions."""
_HOST = ("instance_id", "instance_name", "instance")
_OBSERVED = ("instance_id", "instance")
"""As `_HOST`, on every series of Observer."""
_PLACES = {
    "instance_name": "instance_name",
    "instance_id": "instance_id",
    "instance_type": "instance_type",
    "instance_availability_zone": "availability_zone",
    "instance_region": "region",
    "subnet_id": "subnet_id",
    "ultraserver_id": "ultraserver_id",
}
"""Keys of `instance_info`, and the exporter's labels."""


def _document(
    samples: list[SeriesSample], totals: dict[tuple[str, str, str], float]
) -> dict[str, Any]:
    """Return the samples of a scrape as a document; go on with the host's counters."""
    runtimes: dict[str, dict[str, Any]] = {}
    devices: dict[int, dict[str, Any]] = {}
    usage: dict[str, float] = {}
    memory: dict[str, float] = {}
    hardware: dict[str, Any] = {}
    instance: dict[str, str] = {}
    for sample in samples:
        labels = sample.labels
        value = sample.value
        instance.update({key: labels[label] for key, label in _PLACES.items() if labels.get(label)})
        if sample.name == "neuron_hardware_info":
            hardware.update(
                {key: number for key in labels if (number := number_of(labels, key)) is not None}
            )
        elif sample.name == "hardware_ecc_events_total":
            index = number_of(labels, "neuron_device_index")
            if index is not None:
                device = devices.setdefault(index, {"neuron_device_index": index})
                device[labels.get("event_type", "")] = value
        elif sample.name == "system_vcpu_usage_ratio":
            usage[labels.get("usage_type", "")] = value * 100.0
        elif sample.name.startswith("system_memory_"):
            memory[sample.name.removeprefix("system_")] = value
        elif "runtime_tag" in labels:
            _put_runtime(runtimes.setdefault(labels["runtime_tag"], {}), sample, totals)
    return {
        "neuron_runtime_data": [
            {"neuron_runtime_tag": tag, "report": runtime} for tag, runtime in runtimes.items()
        ],
        "system_data": {
            "neuron_hw_counters": {"neuron_devices": list(devices.values())},
            "vcpu_usage": {"average_usage": usage},
            "memory_info": memory,
        },
        "instance_info": instance,
        "neuron_hardware_info": hardware,
    }


def _put_runtime(
    report: dict[str, Any], sample: SeriesSample, totals: dict[tuple[str, str, str], float]
) -> None:
    """Write a runtime's sample where a document has it."""
    labels = sample.labels
    value = sample.value
    core = labels.get("neuroncore", "")
    if sample.name == "neuroncore_utilization_ratio":
        group = report.setdefault("neuroncore_counters", {"neuroncores_in_use": {}})
        group["neuroncores_in_use"][core] = {UTILISATION: value * 100.0}
    elif sample.name.startswith(MEMORY_PREFIX):
        group = report.setdefault(
            "memory_used",
            {"neuron_runtime_used_bytes": {"usage_breakdown": {"neuroncore_memory_usage": {}}}},
        )
        by_core = group["neuron_runtime_used_bytes"]["usage_breakdown"]["neuroncore_memory_usage"]
        by_core.setdefault(core, {})[sample.name.removeprefix(MEMORY_PREFIX)] = value
    elif sample.name in _COUNTS:
        key, label = _COUNTS[sample.name]
        kind = labels.get(label, "")
        series = (labels["runtime_tag"], sample.name, kind)
        counts = report.setdefault("execution_stats", {}).setdefault(key, {})
        counts[kind] = growth(totals, series, value)
    elif sample.name == "execution_latency_seconds":
        stats = report.setdefault("execution_stats", {}).setdefault(
            "latency_stats", {"total_latency": {}}
        )
        stats["total_latency"][labels.get("percentile", "")] = value


_COUNTS = {
    "execution_status_total": ("execution_summary", "status_type"),
    "execution_errors_total": ("error_summary", "error_type"),
}
"""Counters of executions: key of their kinds in `execution_stats`, and label with the kind."""
