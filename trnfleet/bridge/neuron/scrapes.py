"""Scrapes of `neuron-monitor-prometheus` or Neuron Observer as documents of `neuron-monitor`.

The exporter sums the counts of all periods; a document has its own period's again. Ratios become
percent, labels the instance's facts. Values missing in the exporter (FLOP/s, the physical cores of
a logical one) are missing in the documents.
"""

from __future__ import annotations

import io
import math
import re
import sys
from array import array
from collections import Counter
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from trnfleet.bridge.neuron.fields import MEMORY_PARTS, UTILISATION
from trnfleet.bridge.neuron.host_reader import EXPORTER
from trnfleet.bridge.neuron.observer import (
    UTILISATION_NAME,
    DocumentPart,
    ObserverLayout,
    SeriesPlace,
    SeriesSample,
    Totals,
    UtilisationUnit,
    count_name,
    growth,
    is_name,
    number_of,
    shared_place,
)
from trnfleet.clock import NS_PER_MS
from trnfleet.errors import WireError
from trnfleet.wire.ndjson import LeftOut, read_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

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
_LABEL = re.compile(r'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)="([^"\\]*(?:\\.[^"\\]*)*)"[ \t]*(?:,|$)')
_LABELS = re.compile(f"(?:{_LABEL.pattern})*")
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
    if _LABELS.fullmatch(text) is None:
        raise WireError(f"{name}: its labels are not those of Prometheus' text format")
    labels = dict(_LABEL.findall(text))
    if "\\" in text:
        labels = {label: _ESCAPE.sub(_unescaped, value) for label, value in labels.items()}
    return labels


def _unescaped(found: re.Match[str]) -> str:
    return "\n" if found[1] == "n" else found[1]


MOST_LINE_BYTES = 64 * 2**10
MOST_SERIES = 200_000
"""Most series of one scrape. 128 processes listing 128 cores each have 98,000."""
MOST_LINES = 2 * MOST_SERIES
"""Most lines of an exporter's own text."""
MOST_ENDED = 4_096
"""Counters of ended processes remembered for a host. They may come back after a damaged page."""
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
        self.lines = array("l")
        """Line of each sample."""
        self.seen: set[int] = set()
        """Hashes of series seen, only without timestamps. A repeated one marks the next scrape."""
        self.is_damaged = False
        """Whether lines are lost: their values are unknown, and may be of any core."""
        self.is_over = False
        """Whether a series came again without a timestamp, and with it another scrape."""


class _Names(NamedTuple):
    """The names of a scrape's series."""

    host: str
    line: int
    """On which it begins, counted from 1."""
    lines: array[int]
    """Line of each series."""
    series: tuple[str, ...]
    layout: ExporterLayout | ObserverLayout


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
        self._totals: dict[str, Totals] = {}
        """Counters as they were last, by host."""
        self._names: _Names | None = None
        """Of the scrape finished last."""
        self._digest: int | None = None
        """Hash of the lines of the last text without their values. None if the names alone do not
        say where its values are."""

    def read(self, stream: TextFile) -> Iterator[Scrape]:
        """Yield the scrapes, each host's in order."""
        yield from self._read(stream, lambda: stream.is_whole)

    def read_text(self, text: bytes) -> list[Scrape]:
        """Return the scrapes of a whole text, which continues the last one.

        Names are parsed only if they are not the last text's: an exporter's stay the same from
        scrape to scrape, and are most of the text.

        Raises:
            WireError: it has more than `MOST_LINES` lines.
        """
        lines = text.split(b"\n", MOST_LINES + 1)
        if len(lines) > MOST_LINES + 1:
            raise WireError(f"the page has more than {MOST_LINES:,} lines")
        parts = [line.rpartition(b" ") for line in lines]
        digest = hash(b"\n".join([name for name, _, _ in parts]))
        values = [b"", *[value for _, _, value in parts]]
        if digest == self._digest and self._names is not None:
            try:
                return [self._read_values(self._names, values)]
            except ValueError:
                pass
        self._is_damaged = False
        left_out = self._left_out.count
        is_whole = text.endswith(b"\n")
        scrapes = list(self._read(io.BytesIO(text), lambda: is_whole))
        is_plain = (
            [scrape.ts_ns for scrape in scrapes] == [None]
            and self._left_out.count == left_out
            and is_whole
        )
        self._open = {}
        if scrapes:
            # A host that is not in the text any more has left the target.
            self._totals = {scrape.host: self._totals[scrape.host] for scrape in scrapes}
        self._digest = digest if is_plain else None
        return scrapes

    def _read_values(self, names: _Names, values: list[bytes]) -> Scrape:
        """Return a scrape with known names.

        Args:
            names: The names.
            values: The end of each line of the text, by its number.

        Raises:
            ValueError: a line does not end in a number.
        """
        numbers = [*map(float, map(values.__getitem__, names.lines))]
        for place, number in enumerate(numbers) if not math.isfinite(sum(numbers)) else ():
            if not math.isfinite(number):
                line = names.lines[place]
                numbers[place], problem = _value(values[line].decode().strip())
                self._note(names.series[place], problem, line)
        for place in names.layout.utilisation:
            self.unit.note(numbers[place], names.lines[place])
        return self._scrape(names, None, numbers)

    def _note(self, name: str, problem: str, line: int) -> None:
        """Count the problem of a value."""
        if problem and (name, problem) != _NO_LATENCY:
            self._left_out.doubt(f"line {line}", f"{name} {problem}")

    def _read(self, stream: BinaryIO, is_whole: Callable[[], bool]) -> Iterator[Scrape]:
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
            self._note(sample.name, sample.problem, number)
            if sample.name == UTILISATION_NAME:
                self.unit.note(sample.value, number)
            try:
                done = self._put(sample, number)
            except WireError as error:
                self._left_out.add(f"line {number}", str(error))
                continue
            if done is not None:
                yield done
        if self._open and not is_whole():
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
            scrape.lines.append(number)
        return done

    def _count_again(self, scrape: _Open, sample: SeriesSample, number: int) -> None:
        """Record a series without a timestamp.

        The first repeated series begins another scrape; that scrape is left out.
        """
        series = hash((sample.name, frozenset(sample.labels.items())))
        if series in scrape.seen:
            scrape.seen = set()
            scrape.is_over = True
            self._left_out.add(f"line {number}", UNDATED)
        if len(scrape.seen) < MOST_SERIES:
            scrape.seen.add(series)

    def _finished(self, host: str, scrape: _Open) -> Scrape:
        is_observer = bool(scrape.samples) and is_name(scrape.samples[0].name)
        layout = (ObserverLayout if is_observer else ExporterLayout)(scrape.samples)
        series = tuple(sys.intern(sample.name) for sample in scrape.samples)
        names = self._names = _Names(host, scrape.line, scrape.lines, series, layout)
        numbers = [sample.value for sample in scrape.samples]
        finished = self._scrape(names, scrape.ts_ns, numbers)
        totals = self._totals[host]
        present = {place.series for place in layout.places if place is not None and place.series}
        if len(totals) > len(present) + MOST_ENDED:
            self._totals[host] = {series: totals[series] for series in present & totals.keys()}
        if scrape.is_damaged:
            # An unknown process may be on any core not listed by another.
            unknown = {"error": "lines are lost", "report": {}}
            finished.document["neuron_runtime_data"].append(unknown)
        return finished

    def _scrape(self, names: _Names, ts_ns: int | None, numbers: list[float]) -> Scrape:
        """Return a scrape with its values."""
        layout = names.layout
        self.has_observer = self.has_observer or layout.metrics is not EXPORTER
        for name, count in layout.unread.items():
            count_name(self.unread, name, count)
        totals = self._totals.setdefault(names.host, {})
        document = layout.document(numbers, totals, self.unit)
        return Scrape(names.host, ts_ns, names.line, document, layout.metrics)


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


Values = dict[str, dict[str, float]]
"""Values of a process's cores, by name of a core."""


class ExporterLayout:
    """The series of a scrape by their names, and the document that their values make."""

    metrics = EXPORTER
    utilisation = ()
    unread: Mapping[str, int] = {}

    def __init__(self, samples: list[SeriesSample]) -> None:
        """Find the place of each series; `samples` are all of one host and time."""
        self._instance: dict[str, str] = {}
        self._hardware: dict[str, int] = {}
        self._tags: dict[str, int] = {}
        self.places = [self._place(sample.name, sample.labels) for sample in samples]
        # Cores and their memory are most of a page. Numbers only: each host has a layout.
        self._cores = array("I")
        self._memory = array("I")
        self._others = array("I")
        for number, place in enumerate(self.places):
            if place is not None:
                {DocumentPart.CORE: self._cores, DocumentPart.MEMORY: self._memory}.get(
                    place.part, self._others
                ).append(number)

    def _place(self, name: str, labels: dict[str, str]) -> SeriesPlace | None:
        """Return the place of a series, and store its labels."""
        self._instance.update(
            {key: labels[label] for key, label in _PLACES.items() if labels.get(label)}
        )
        if name == "neuron_hardware_info":
            self._hardware.update(
                {key: number for key in labels if (number := number_of(labels, key)) is not None}
            )
        elif name == "hardware_ecc_events_total":
            index = number_of(labels, "neuron_device_index")
            if index is not None:
                return shared_place(DocumentPart.DEVICE, labels.get("event_type", ""), index)
        elif name == "system_vcpu_usage_ratio":
            return shared_place(DocumentPart.VCPU, labels.get("usage_type", ""))
        elif name.startswith("system_memory_"):
            return shared_place(DocumentPart.HOST_MEMORY, name.removeprefix("system_"))
        elif "runtime_tag" in labels:
            tag = labels["runtime_tag"]
            return _runtime_place(name, labels, tag, self._tags.setdefault(tag, len(self._tags)))
        return None

    def document(self, values: list[float], totals: Totals, _: UtilisationUnit) -> dict[str, Any]:
        """Return a scrape as a document; go on with the host's counters.

        Args:
            values: The value of each series.
            totals: The host's counters, continued.
        """
        reports: list[dict[str, Any]] = [{} for _ in self._tags]
        cores: list[Values] = [{} for _ in self._tags]
        memory: list[Values] = [{} for _ in self._tags]
        devices: dict[int, dict[str, Any]] = {}
        usage: dict[str, float] = {}
        host_memory: dict[str, float] = {}
        places: list[Any] = self.places
        for number in self._cores:
            place = places[number]
            value = values[number]
            cores[place.row][place.core] = {UTILISATION: value * 100.0} if value else _IDLE
        for number in self._memory:
            place = places[number]
            memory[place.row].setdefault(place.core, {})[place.key] = values[number]
        for number in self._others:
            part, key, row, series, _ = places[number]
            value = values[number]
            if series is not None:
                stats = reports[row].setdefault("execution_stats", {})
                counts = stats.setdefault(_COUNTED[part], {})
                counts[key] = growth(totals, series, value)
            elif part is DocumentPart.LATENCY:
                stats = reports[row].setdefault("execution_stats", {})
                latency = stats.setdefault("latency_stats", {"total_latency": {}})
                latency["total_latency"][key] = value
            elif part is DocumentPart.DEVICE:
                devices.setdefault(row, {"neuron_device_index": row})[key] = value
            elif part is DocumentPart.VCPU:
                usage[key] = value * 100.0
            else:
                host_memory[key] = value
        named: set[str] = set()
        for report, of_cores, of_memory in zip(reports, cores, memory, strict=True):
            if of_cores:
                _name_idle(of_cores, of_memory, named)
                report["neuroncore_counters"] = {"neuroncores_in_use": of_cores}
            if of_memory:
                used = {"usage_breakdown": {"neuroncore_memory_usage": of_memory}}
                report["memory_used"] = {"neuron_runtime_used_bytes": used}
        return {
            "neuron_runtime_data": [
                {"neuron_runtime_tag": tag, "report": report}
                for tag, report in zip(self._tags, reports, strict=True)
            ],
            "system_data": {
                "neuron_hw_counters": {"neuron_devices": list(devices.values())},
                "vcpu_usage": {"average_usage": usage},
                "memory_info": host_memory,
            },
            "instance_info": self._instance,
            "neuron_hardware_info": self._hardware,
        }


_IDLE = {UTILISATION: 0.0}


def _name_idle(cores: Values, memory: Values, named: set[str]) -> None:
    """Delete the idle cores of a process that others have named.

    A process lists every core, and most are idle: they cost most of a page. They say nothing where
    the process's own cores are known.
    """
    idle = {core for core, facts in cores.items() if facts is _IDLE}
    if len(idle) < len(cores) or any(any(parts.values()) for parts in memory.values()):
        for core in idle & named:
            del cores[core]
    named |= idle


def _runtime_place(name: str, labels: dict[str, str], tag: str, row: int) -> SeriesPlace | None:
    """Return the place of a series of a process."""
    core = labels.get("neuroncore", "")
    if name == "neuroncore_utilization_ratio":
        return shared_place(DocumentPart.CORE, UTILISATION, row, core=core)
    if name.startswith(MEMORY_PREFIX):
        key = name.removeprefix(MEMORY_PREFIX)
        return shared_place(DocumentPart.MEMORY, key, row, core=core)
    if name in _COUNTS:
        part, label = _COUNTS[name]
        kind = labels.get(label, "")
        return SeriesPlace(part, kind, row, (tag, name, kind))
    if name == "execution_latency_seconds":
        return shared_place(DocumentPart.LATENCY, labels.get("percentile", ""), row)
    return None


_COUNTS = {
    "execution_status_total": (DocumentPart.COUNT, "status_type"),
    "execution_errors_total": (DocumentPart.CAUSE, "error_type"),
}
"""Counters of executions: place of their kinds, and label with the kind."""
_COUNTED = {DocumentPart.COUNT: "execution_summary", DocumentPart.CAUSE: "error_summary"}
"""Their keys in `execution_stats`."""
