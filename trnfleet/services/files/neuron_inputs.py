"""Files of the Neuron tools: documents of neuron-monitor, and the text of neuron-monitor-prometheus."""

from __future__ import annotations

import statistics
from array import array
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.bridge.neuron.fields import read_period
from trnfleet.bridge.neuron.host_reader import DEFAULT_PERIOD_S, HostReader
from trnfleet.bridge.neuron.scrapes import Scrapes
from trnfleet.bridge.neuron.stream import MOST_DOCUMENT_BYTES, read_documents
from trnfleet.bridge.neuron.telemetry import HostTelemetry, boot_of, default_path
from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.errors import ConfigError, WireError
from trnfleet.services.files.inputs import Kind, about_file
from trnfleet.wire.ndjson import LeftOut
from trnfleet.wire.ports import Stored
from trnfleet.wire.topics import DEFAULT_ROOT
from trnfleet.wire.values import LONGEST_PERIOD_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Literal

    from trnfleet.bridge.neuron.devices import DeviceList
    from trnfleet.bridge.neuron.scrapes import Scrape
    from trnfleet.record.format.metadata import About

DEFAULT_FLEET = "neuron"
"""Default fleet of hosts."""


class NeuronInput:
    """The documents of one host's neuron-monitor."""

    kind = Kind.NEURON

    def __init__(
        self,
        path: Path,
        *,
        fleet: str | None = None,
        address: str | None = None,
        start_ns: int | None = None,
        encoding: Literal["json", "cbor"] = "cbor",
        device_list: DeviceList | None = None,
    ) -> None:
        """Add up the file's periods: documents have no time.

        Args:
            path: The file.
            fleet: Name of the fleet that the host is shown in.
            address: The instance's; by default a standalone instance, named by its EC2 id.
            start_ns: Begin of the first document's period; by default the file's modification time less its length.
            encoding: Frames, or JSON objects.
            device_list: What neuron-ls says of the host.
        """
        self.skipped = LeftOut()
        self._path = path
        self._fleet = fleet or DEFAULT_FLEET
        self._address = address
        self._encoding: Literal["json", "cbor"] = encoding
        self._device_list = device_list
        self._ends: array[int] = array("q")
        """Nanoseconds from the begin to each document's end."""
        self.period_s = self._add_up()
        """The usual one."""
        length_ns = self._ends[-1] if self._ends else 0
        self.is_dated = start_ns is not None
        """Whether the begin was given."""
        self.start_ns = start_ns if start_ns is not None else max(0, path.stat().st_mtime_ns - length_ns)

    def _add_up(self) -> float:
        periods: list[float] = []
        passed_ns, last_s = 0, DEFAULT_PERIOD_S
        with self._path.open("rb") as stream:
            for _, document in read_documents(stream):
                try:
                    period_s = read_period(document or b"")
                except WireError:
                    self._ends.append(passed_ns)
                    continue
                if period_s is not None:
                    last_s = period_s
                    periods.append(period_s)
                passed_ns += round(last_s * NS_PER_S)
                self._ends.append(passed_ns)
        return statistics.median(periods) if periods else DEFAULT_PERIOD_S

    @property
    def about(self) -> About:
        """Metadata: fleet and begin, and whether that is known or assumed."""
        dated = "its begin was given" if self.is_dated else "its begin is assumed from the file's date"
        return about_file(
            self.kind, self.start_ns, (self._fleet,), DEFAULT_ROOT, f"from neuron-monitor; {dated}"
        )

    def begin_text(self) -> str:
        """Return the begin of the file in words, and whether it is assumed."""
        begin = format_rfc3339(self.start_ns)
        if self.is_dated:
            return f"begins at {begin}"
        return (
            f"documents have no time: taken to begin at {begin}, by the file's date "
            "(trnfleet convert --start says otherwise)"
        )

    def messages(self) -> Iterator[Stored]:
        """Yield the host's state and telemetry, received when its period ended."""
        skipped = self.skipped = LeftOut()
        reader = HostReader(self._device_list)
        telemetry: HostTelemetry | None = None
        with self._path.open("rb") as stream:
            for count, (line, document) in enumerate(read_documents(stream), start=1):
                if document is None:
                    skipped.add(f"line {line}", f"longer than {MOST_DOCUMENT_BYTES} bytes")
                    continue
                try:
                    reader.read(document)
                except (WireError, ConfigError) as error:
                    skipped.add(f"line {line}", str(error))
                    continue
                skipped.taken += 1
                if telemetry is None:
                    telemetry = self._telemetry(reader)
                # The file may have grown since its periods were added up.
                passed_ns = self._ends[min(count, len(self._ends)) - 1]
                time_ns = self.start_ns + passed_ns
                for envelope in telemetry.envelopes(time_ns):
                    yield Stored(time_ns, envelope)

    def _telemetry(self, reader: HostReader) -> HostTelemetry:
        path = self._address or default_path(reader)
        return HostTelemetry(
            reader,
            self._fleet,
            path,
            boot=boot_of(path, self.start_ns),
            period_s=min(max(self.period_s, 0.001), LONGEST_PERIOD_S),
            encoding=self._encoding,
        )

    def close(self) -> None:
        """Nothing is open."""


class _Host(NamedTuple):
    """A host whose scrapes are read."""

    reader: HostReader
    telemetry: HostTelemetry


class PrometheusInput:
    """Text that neuron-monitor-prometheus serves: one scrape, or several with timestamps, of any number of hosts."""

    kind = Kind.PROMETHEUS

    def __init__(
        self,
        path: Path,
        *,
        fleet: str | None = None,
        address: str | None = None,
        start_ns: int | None = None,
        encoding: Literal["json", "cbor"] = "cbor",
        device_list: DeviceList | None = None,
    ) -> None:
        """Take a pass over the file, for its begin and the time between two scrapes.

        Args:
            path: The file.
            fleet: Name of the fleet that the hosts are shown in.
            address: The instance's, where there is one host; by default as for documents of neuron-monitor.
            start_ns: Time of the first scrape; by default its timestamp, else the file's modification time.
            encoding: Frames, or JSON objects.
            device_list: What neuron-ls says of the host.
        """
        self.skipped = LeftOut()
        self._path = path
        self._fleet = fleet or DEFAULT_FLEET
        self._address = address
        self._encoding: Literal["json", "cbor"] = encoding
        self._device_list = device_list
        first_ns, self.period_s = self._survey()
        self.is_dated = start_ns is not None or first_ns is not None
        """Whether its begin is known."""
        if first_ns is None:
            first_ns = path.stat().st_mtime_ns
        self.start_ns = first_ns if start_ns is None else start_ns
        self._shift_ns = self.start_ns - first_ns

    def _survey(self) -> tuple[int | None, float]:
        """Return the time of the first scrape, None where the text has none, and the usual time between two."""
        last: dict[str, int] = {}
        gaps: list[float] = []
        first_ns: int | None = None
        with self._path.open("rb") as stream:
            for scrape in Scrapes(LeftOut()).read(stream):
                if scrape.ts_ns is None:
                    continue
                first_ns = scrape.ts_ns if first_ns is None else min(first_ns, scrape.ts_ns)
                if scrape.host in last:
                    gaps.append((scrape.ts_ns - last[scrape.host]) / NS_PER_S)
                last[scrape.host] = scrape.ts_ns
        return first_ns, statistics.median(gaps) if gaps else DEFAULT_PERIOD_S

    @property
    def about(self) -> About:
        """Metadata: fleet and begin, and whether that is known or assumed."""
        dated = "its begin is known" if self.is_dated else "its begin is assumed from the file's date"
        note = f"from neuron-monitor-prometheus; {dated}"
        return about_file(self.kind, self.start_ns, (self._fleet,), DEFAULT_ROOT, note)

    def begin_text(self) -> str:
        """Return the begin of the file in words, and whether it is assumed."""
        begin = format_rfc3339(self.start_ns)
        if self.is_dated:
            return f"begins at {begin}"
        return f"it has no timestamps: taken at {begin}, the file's date (trnfleet convert --start says otherwise)"

    def messages(self) -> Iterator[Stored]:
        """Yield the hosts' state and telemetry, received in the order of the file."""
        skipped = self.skipped = LeftOut()
        hosts: dict[str, _Host] = {}
        received_ns = 0
        with self._path.open("rb") as stream:
            for scrape in Scrapes(skipped).read(stream):
                ts_ns = (
                    self.start_ns - self._shift_ns if scrape.ts_ns is None else scrape.ts_ns
                ) + self._shift_ns
                try:
                    host = self._take(scrape, hosts)
                except (WireError, ConfigError) as error:
                    skipped.add(f"line {scrape.line}", str(error))
                    continue
                skipped.taken += 1
                received_ns = max(received_ns, ts_ns)
                for envelope in host.telemetry.envelopes(ts_ns):
                    yield Stored(received_ns, envelope)
        if not skipped.taken and not skipped.count:
            skipped.add("line 1", "no metrics of neuron-monitor-prometheus")

    def _take(self, scrape: Scrape, hosts: dict[str, _Host]) -> _Host:
        """Let a host's reader take its scrape.

        Raises:
            WireError: it makes no sense.
            ConfigError: its instance type is not known, or several hosts would have one address.
        """
        host = hosts.get(scrape.host)
        if host is not None:
            host.reader.take(scrape.document)
            return host
        if hosts and self._address is not None:
            raise ConfigError(f"a second host, {scrape.host[:64]}: an address is for a file of one")
        reader = HostReader(self._device_list)
        reader.take(scrape.document)
        path = self._address or default_path(reader)
        telemetry = HostTelemetry(
            reader,
            self._fleet,
            path,
            boot=boot_of(path, self.start_ns),
            period_s=min(max(self.period_s, 0.001), LONGEST_PERIOD_S),
            encoding=self._encoding,
        )
        hosts[scrape.host] = _Host(reader, telemetry)
        return hosts[scrape.host]

    def close(self) -> None:
        """Nothing is open."""
