"""Files of the Neuron tools: neuron-monitor documents and neuron-monitor-prometheus text."""

from __future__ import annotations

import contextlib
import statistics
from abc import abstractmethod
from array import array
from collections import Counter
from typing import TYPE_CHECKING, BinaryIO, ClassVar, Literal, NamedTuple

from trnfleet.bridge.neuron.documents import (
    DocumentWriter,
    InstanceTick,
    InstanceTicks,
    described_instances,
)
from trnfleet.bridge.neuron.fields import read_period
from trnfleet.bridge.neuron.host_reader import DEFAULT_PERIOD_S, HostReader
from trnfleet.bridge.neuron.observer import UtilisationUnit
from trnfleet.bridge.neuron.scrapes import Scrape, Scrapes
from trnfleet.bridge.neuron.stream import MOST_DOCUMENT_BYTES, read_documents
from trnfleet.bridge.neuron.sysfs import SYSFS
from trnfleet.bridge.neuron.telemetry import HostTelemetry, boot_of, default_path
from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.quantities import counted
from trnfleet.errors import ConfigError, WireError, nearest
from trnfleet.services.files.inputs import Input, Kind, about_file, note_end
from trnfleet.services.files.recordings import choose_fleet
from trnfleet.wire.messages import decode_message
from trnfleet.wire.ndjson import LeftOut, TextFile
from trnfleet.wire.ports import Envelope, Stored
from trnfleet.wire.reservations import ReservationMessage
from trnfleet.wire.topics import DEFAULT_ROOT, TopicClass, parse_topic
from trnfleet.wire.values import PERIODS_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trnfleet.bridge.neuron.devices import DeviceList
    from trnfleet.bridge.neuron.sysfs import SysfsValues
    from trnfleet.record.format.metadata import About

DEFAULT_FLEET = "neuron"
"""Default fleet of hosts."""


class HostInput(Input):
    """A file from real hosts, without fleet or address."""

    period_s: float
    """Usual time between two documents of a host."""
    start_ns: int
    is_dated: bool
    """Whether its begin is known."""
    forms: list[str]
    """Encoding, packing and log that the last pass met around its text, and unit of utilization."""
    unread: Counter[str]
    """Series of the last pass without a metric here, by name."""
    origin: ClassVar[str]
    """Tool that wrote it."""
    undated: ClassVar[str]
    """Note about an assumed begin, with a placeholder for it."""

    def __init__(
        self,
        path: Path,
        *,
        fleet: str | None = None,
        address: str | None = None,
        start_ns: int | None = None,
        encoding: Literal["json", "cbor"] = "cbor",
        device_list: DeviceList | None = None,
        sysfs: SysfsValues | None = None,
        utilization: str | None = None,
    ) -> None:
        """Read the whole file for its begin and its period.

        Args:
            path: The file.
            fleet: Name of the fleet that its hosts are shown in.
            address: The instance's, where there is one host; by default in its UltraServer or
                alone, named by its EC2 id.
            start_ns: Begin of the first document's period, or time of the first scrape; by default
                as the file says, else by its modification time.
            encoding: Frames, or JSON objects.
            device_list: What neuron-ls says of the host.
            sysfs: Values of the Neuron driver's tree of the host.
            utilization: Unit of Neuron Observer's utilization, `ratio` or `percent`; by default
                percent if any value of the file is above 1.5.
        """
        self.skipped = LeftOut()
        self.forms = []
        self.unread = Counter()
        self._unit = UtilisationUnit(utilization)
        self._path = path
        self._fleet = fleet or DEFAULT_FLEET
        self._address = address
        self._encoding: Literal["json", "cbor"] = encoding
        self._device_list = device_list
        self._sysfs = sysfs
        self._filled: set[str] = set()
        self._survey(start_ns)

    @abstractmethod
    def _survey(self, start_ns: int | None) -> None:
        """Find the file's period and begin.

        `start_ns`, if set, is the begin.
        """

    @property
    def about(self) -> About:
        """Metadata: fleet and begin, and whether the begin is known or assumed."""
        dated = (
            "its begin is known" if self.is_dated else "its begin is assumed from the file's date"
        )
        note = f"from {self.origin}; {dated}"
        return about_file(self.kind, self.start_ns, (self._fleet,), DEFAULT_ROOT, note)

    def begin_text(self) -> str:
        """Return the begin of the file in words, and whether it is assumed."""
        begin = format_rfc3339(self.start_ns)
        return f"begins at {begin}" if self.is_dated else self.undated.format(begin)

    def unread_text(self) -> str:
        """Return a clause about series without a metric here; empty without any."""
        names = ", ".join(f"{name} ({count:,})" for name, count in sorted(self.unread.items()))
        return f"{self.unread.total():,} series not read: {names}" if names else ""

    def tree_text(self) -> str:
        """Return a clause about metrics filled from the driver's tree; empty without a tree."""
        if self._sysfs is None:
            return ""
        names = ", ".join(name for name in SYSFS if name in self._filled)
        return f"from the driver's tree: {names or 'nothing'}"

    def _new_count(self) -> LeftOut:
        """Return the counts of a pass, with what the driver's tree has of impossible values."""
        skipped = LeftOut()
        doubts = self._sysfs.doubts if self._sysfs is not None else None
        if doubts is not None and doubts.count:
            skipped.doubt("sysfs", doubts.first, doubts.count)
        return skipped

    def _telemetry(self, reader: HostReader) -> HostTelemetry:
        """Return the messages of a host after its first document was read."""
        path = self._address or default_path(reader)
        self._filled = reader.filled
        return HostTelemetry(
            reader,
            self._fleet,
            path,
            boot=boot_of(path, self.start_ns),
            period_s=min(max(self.period_s, PERIODS_S[0]), PERIODS_S[1]),
            encoding=self._encoding,
        )

    def close(self) -> None:
        """Nothing is open."""


class NeuronInput(HostInput):
    """The documents of one host's neuron-monitor."""

    kind = Kind.NEURON
    origin = "neuron-monitor"
    undated = (
        "documents have no time: taken to begin at {}, by the file's date (trnfleet convert --start"
        " says otherwise)"
    )

    def _survey(self, start_ns: int | None) -> None:
        """Add up the file's periods, except where documents are in a log with times."""
        self._ends: array[int] = array("q")
        """Nanoseconds from the begin to each document's end."""
        periods: list[float] = []
        passed_ns = 0
        last_s = DEFAULT_PERIOD_S
        begin_ns: int | None = None
        with TextFile.open(self._path) as stream:
            for document in read_documents(stream):
                with contextlib.suppress(WireError):
                    period_s = read_period(document.text or b"")
                    if period_s is not None:
                        last_s = period_s
                        periods.append(period_s)
                    passed_ns += round(last_s * NS_PER_S)
                # What is no document takes no time.
                if document.ts_ns is not None:
                    if begin_ns is None:
                        begin_ns = max(0, document.ts_ns - passed_ns)
                    passed_ns = max(document.ts_ns - begin_ns, *self._ends[-1:], 0)
                self._ends.append(passed_ns)
        self.period_s = statistics.median(periods) if periods else DEFAULT_PERIOD_S
        self.is_dated = start_ns is not None or begin_ns is not None
        if begin_ns is None:
            begin_ns = max(0, self._path.stat().st_mtime_ns - passed_ns)
        self.start_ns = begin_ns if start_ns is None else start_ns

    def messages(self) -> Iterator[Stored]:
        """Yield the host's state and telemetry, received when its period ended."""
        skipped = self.skipped = self._new_count()
        reader = HostReader(self._device_list, sysfs=self._sysfs)
        telemetry: HostTelemetry | None = None
        forms: Counter[str] = Counter()
        with TextFile.open(self._path) as stream:
            documents = read_documents(stream, forms=forms)
            for count, (line, document, _) in enumerate(documents, start=1):
                if document is None:
                    skipped.add(f"line {line}", f"longer than {MOST_DOCUMENT_BYTES} bytes")
                    continue
                try:
                    reader.read(document)
                except (WireError, ConfigError) as error:
                    skipped.add(f"line {line}", str(error))
                    continue
                skipped.taken += 1
                _tell(reader, line, skipped)
                if telemetry is None:
                    telemetry = self._telemetry(reader)
                # The file may have grown since its periods were added up.
                passed_ns = self._ends[min(count, len(self._ends)) - 1]
                time_ns = self.start_ns + passed_ns
                for envelope in telemetry.envelopes(time_ns):
                    yield Stored(time_ns, envelope)
            note_end(stream, skipped)
            stderr = forms.pop("stderr", 0)
            self.forms = [*stream.forms, *forms]
            if stderr:
                self.forms.append(f"{counted(stderr, 'line')} of stderr")


def _tell(reader: HostReader, line: int, skipped: LeftOut) -> None:
    """Count the impossible values of a document, by its first line."""
    if reader.doubts.count:
        skipped.doubt(f"line {line}", reader.doubts.first, reader.doubts.count)


class _Host(NamedTuple):
    """A host with scrapes to read."""

    reader: HostReader
    telemetry: HostTelemetry


class PrometheusInput(HostInput):
    """Text of neuron-monitor-prometheus or Neuron Observer, from any number of hosts.

    It is one scrape, or several with timestamps.
    """

    kind = Kind.PROMETHEUS
    origin = "neuron-monitor-prometheus"
    undated = (
        "it has no timestamps: taken at {}, the file's date (trnfleet convert --start says"
        " otherwise)"
    )

    def _survey(self, start_ns: int | None) -> None:
        """Look for timestamps: the first, and the usual time between two of a host."""
        last: dict[str, int] = {}
        gaps: list[float] = []
        first_ns: int | None = None
        with TextFile.open(self._path) as stream:
            for scrape in Scrapes(LeftOut(), self._unit).read(stream):
                if scrape.ts_ns is None:
                    continue
                first_ns = scrape.ts_ns if first_ns is None else min(first_ns, scrape.ts_ns)
                if scrape.host in last:
                    gaps.append((scrape.ts_ns - last[scrape.host]) / NS_PER_S)
                last[scrape.host] = scrape.ts_ns
        self.period_s = statistics.median(gaps) if gaps else DEFAULT_PERIOD_S
        self.is_dated = start_ns is not None or first_ns is not None
        if first_ns is None:
            first_ns = self._path.stat().st_mtime_ns
        self.start_ns = first_ns if start_ns is None else start_ns
        self._shift_ns = self.start_ns - first_ns
        """Time to add to the timestamps."""

    def messages(self) -> Iterator[Stored]:
        """Yield the hosts' state and telemetry, received in the order of the file."""
        skipped = self.skipped = self._new_count()
        hosts: dict[str, _Host] = {}
        received_ns = 0
        with TextFile.open(self._path) as stream:
            scrapes = Scrapes(skipped, self._unit)
            self.unread = scrapes.unread
            for scrape in scrapes.read(stream):
                ts_ns = self.start_ns if scrape.ts_ns is None else scrape.ts_ns + self._shift_ns
                try:
                    host = self._read_scrape(scrape, hosts)
                except (WireError, ConfigError) as error:
                    skipped.add(f"line {scrape.line}", str(error))
                    continue
                skipped.taken += 1
                _tell(host.reader, scrape.line, skipped)
                received_ns = max(received_ns, ts_ns)
                # The counters of a host's first scrape are those since its exporter began.
                is_first = not host.telemetry.seq
                for envelope in host.telemetry.envelopes(ts_ns, with_events=not is_first):
                    yield Stored(received_ns, envelope)
            note_end(stream, skipped)
            self.forms = stream.forms + [self._unit.text()] * scrapes.has_observer
        if not skipped.taken and not skipped.count:
            skipped.add("line 1", "no metrics of neuron-monitor-prometheus or Neuron Observer")

    def _read_scrape(self, scrape: Scrape, hosts: dict[str, _Host]) -> _Host:
        """Pass a host's scrape to its reader.

        Raises:
            WireError: it makes no sense.
            ConfigError: its instance type is not known, or several hosts would have one address.
        """
        host = hosts.get(scrape.host)
        if host is not None:
            host.reader.read_parsed(scrape.document)
            return host
        if hosts and self._sysfs is not None:
            raise ConfigError(f"a second host, {scrape.host[:64]}: --sysfs is for a file of one")
        if hosts and self._address is not None:
            raise ConfigError(f"a second host, {scrape.host[:64]}: an address is for a file of one")
        reader = HostReader(self._device_list, scrape.metrics, self._sysfs)
        reader.read_parsed(scrape.document)
        host = hosts[scrape.host] = _Host(reader, self._telemetry(reader))
        return host


def write_documents(given: Input, output: BinaryIO, name: str | None, instance: str | None) -> int:
    """Write one instance's ticks as documents of neuron-monitor; return their number.

    Invalid messages about the instance are added to those left out by the file's reader.
    """
    chosen = _choose(given, name, instance)
    ticks = InstanceTicks(chosen.fleet, chosen.path, given.about.root)
    writer: DocumentWriter | None = None
    left_out = LeftOut()
    count = 0
    for tick in _ticks(ticks, given, left_out):
        if ticks.host is not None:
            writer = writer or DocumentWriter(ticks.host._replace(zone=chosen.zone))
            output.write(writer.write(tick.columns, tick.period_s))
            count += 1
    given.skipped.count += left_out.count
    given.skipped.first = given.skipped.first or left_out.first
    return count


def _ticks(ticks: InstanceTicks, given: Input, left_out: LeftOut) -> Iterator[InstanceTick]:
    for number, stored in enumerate(given.messages(), start=1):
        try:
            tick = ticks.add(stored.envelope)
        except WireError as error:
            left_out.add(f"message {number}", str(error))
            continue
        if tick is not None:
            yield tick
    last = ticks.finish()
    if last is not None:
        yield last


class _Chosen(NamedTuple):
    """The instance to write."""

    fleet: str
    path: str
    zone: str
    """Availability Zone of its reservation. Empty without one."""


def _choose(given: Input, name: str | None, instance: str | None) -> _Chosen:
    """Return the instance to write.

    Reads all messages.

    Raises:
        ConfigError: there is none, or several and none was named, or not the one that was.
    """
    root = given.about.root
    fleets: dict[str, set[str]] = {}
    zones: dict[tuple[str, str], str] = {}
    for stored in given.messages():
        fleet, paths = described_instances(stored.envelope, root)
        if paths:
            fleets.setdefault(fleet, set()).update(paths)
        elif "/reservation/" in stored.envelope.topic:
            zones.update(_zones(stored.envelope, root))
    if not fleets:
        raise ConfigError("it describes no instance")
    fleet = choose_fleet(fleets, name)
    paths_of = sorted(fleets[fleet])
    if instance is None and len(paths_of) > 1:
        raise ConfigError(
            f"{len(paths_of)} instances in it: name one with --instance, such as {paths_of[0]}"
        )
    path = paths_of[0] if instance is None else instance
    if path not in fleets[fleet]:
        raise ConfigError(
            f"--instance {path}: no such instance in it: {nearest(path, paths_of[:2_000])}"
        )
    zone = next(
        (
            zone
            for (zone_fleet, place), zone in zones.items()
            if zone_fleet == fleet and _holds(place, path)
        ),
        "",
    )
    return _Chosen(fleet, path, zone)


def _zones(envelope: Envelope, root: str) -> dict[tuple[str, str], str]:
    """Return the Availability Zone of each reserved part of a fleet."""
    try:
        topic = parse_topic(envelope.topic, root)
        if topic.topic_class is not TopicClass.RESERVATION or not envelope.payload:
            return {}
        message = decode_message(envelope.payload, ReservationMessage)
    except WireError:
        return {}
    return {(topic.fleet, place): message.zone for place in message.on}


def _holds(place: str, path: str) -> bool:
    """Return whether an instance is in a subtree or in a range of siblings.

    A range has the form `uc1/us-0001..us-0008`.
    """
    first, _, last = place.partition("..")
    *above, begin = first.split("/")
    segments = path.split("/")
    if len(segments) <= len(above) or segments[: len(above)] != above:
        return False
    own = segments[len(above)]
    end = last or begin
    # Siblings have numbers of the same length, unless they count beyond it.
    return (len(begin), begin) <= (len(own), own) <= (len(end), end)
