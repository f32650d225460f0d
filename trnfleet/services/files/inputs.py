"""Files that hold messages: recordings, lines of mosquitto_sub, documents of neuron-monitor.

Each yields its messages in order, any number of times, and counts what it leaves out.
"""

from __future__ import annotations

import enum
import hashlib
import re
import statistics
from array import array
from typing import TYPE_CHECKING, Protocol

from trnfleet.bridge.neuron.fields import read_period
from trnfleet.bridge.neuron.host_reader import DEFAULT_PERIOD_S, MOST_DOCUMENT_BYTES, HostReader
from trnfleet.bridge.neuron.telemetry import HostTelemetry, boot_of, default_path
from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.errors import ConfigError, WireError
from trnfleet.record.format.lines import decode_line, decode_lines
from trnfleet.record.format.metadata import About
from trnfleet.record.format.records import MAGIC
from trnfleet.record.read.open import refuse_special
from trnfleet.record.read.recording import Recording
from trnfleet.wire.ndjson import LeftOut, read_lines
from trnfleet.wire.ports import Stored
from trnfleet.wire.topics import DEFAULT_ROOT, VERSION, TopicClass
from trnfleet.wire.values import LONGEST_PERIOD_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Literal

LINES_TO_TRY = 32
"""Lines at a file's begin of which one must identify its kind."""
DEFAULT_FLEET = "neuron"
"""Default fleet of neuron-monitor's hosts."""

_MOSQUITTO_BEGIN = b'{"tst":'
_TOPIC = re.compile(
    rf"(?P<root>(?:[A-Za-z0-9_-]{{1,64}}/)+?){VERSION}/(?P<fleet>[A-Za-z0-9_-]{{1,64}})/"
    rf"(?:{'|'.join(each.value for each in TopicClass)})/"
)


class Kind(enum.StrEnum):
    """Kind of a file."""

    MCAP = "mcap"
    MOSQUITTO = "mosquitto"
    NEURON = "neuron-monitor"


NOUNS = {Kind.MCAP: "message", Kind.MOSQUITTO: "message", Kind.NEURON: "document"}


class UnknownKindError(ConfigError):
    """A file is none of the kinds."""


class Input(Protocol):
    """A file that messages are taken from."""

    kind: Kind
    skipped: LeftOut
    """Counts of what the last pass took and left out."""

    @property
    def about(self) -> About:
        """Metadata for a recording of it."""

    def messages(self) -> Iterator[Stored]:
        """Yield all messages in order; may be called again."""

    def close(self) -> None:
        """Close the file."""


def detect(path: Path) -> Kind:
    """Return the kind of a file, by its content.

    Raises:
        UnknownKindError: it is none of the three.
        ConfigError: it cannot be read.
    """
    try:
        refuse_special(path)
        with path.open("rb") as stream:
            if stream.read(len(MAGIC)) == MAGIC:
                return Kind.MCAP
            stream.seek(0)
            for number, line in read_lines(stream, MOST_DOCUMENT_BYTES):
                kind = _kind_of(line) if line else None
                if kind is not None:
                    return kind
                if number >= LINES_TO_TRY:
                    break
            is_empty = path.stat().st_size == 0
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    if path.suffix == ".mcap" and not is_empty:
        # A recording that is damaged at its very begin; its reader says so.
        return Kind.MCAP
    reason = "it is empty" if is_empty else "no MCAP, no lines of mosquitto_sub -F %j, no neuron-monitor"
    raise UnknownKindError(f"{path}: {reason}")


def _kind_of(line: bytes) -> Kind | None:
    for kind, parse in ((Kind.MOSQUITTO, decode_line), (Kind.NEURON, read_period)):
        try:
            parse(line)
        except WireError:
            continue
        return kind
    # Payloads that are no text make mosquitto_sub's lines unreadable; they are its lines all the same.
    return Kind.MOSQUITTO if line.startswith(_MOSQUITTO_BEGIN) else None


class McapInput:
    """A recording, whole or damaged."""

    kind = Kind.MCAP

    def __init__(self, path: Path) -> None:
        """Open it.

        Raises:
            ConfigError: it is no recording; the message names the file.
        """
        self.skipped = LeftOut()
        self.recording = Recording.open([path])

    @property
    def about(self) -> About:
        """The recording's own metadata."""
        return self.recording.abouts[0]

    def messages(self) -> Iterator[Stored]:
        """Yield the state at the begin, without telemetry, and then the recorded messages."""
        recording = self.recording
        self.skipped = LeftOut()
        first_ns = recording.start_ns
        keyframe = recording.keyframe(first_ns)
        telemetry = re.compile(rf"{re.escape(self.about.root)}/{VERSION}/[^/]*/{TopicClass.TELEMETRY}/")
        for stored in keyframe.state if keyframe else ():
            if not telemetry.match(stored.envelope.topic):
                self.skipped.taken += 1
                yield stored._replace(time_ns=first_ns)
        for stored in recording.read(first_ns - 1, recording.end_ns):
            self.skipped.taken += 1
            yield stored
        for _ in range(recording.damaged):
            self.skipped.add("chunk", "damaged")
        for _ in range(recording.unread):
            self.skipped.add("message", "no envelope")

    def close(self) -> None:
        """Close the file."""
        self.recording.close()


class LinesInput:
    """Lines of `mosquitto_sub -F '%j'`, also those with `payload_base64` that `trnfleet` writes."""

    kind = Kind.MOSQUITTO

    def __init__(self, path: Path) -> None:
        self.skipped = LeftOut()
        self._path = path
        self._about: About | None = None

    @property
    def about(self) -> About:
        """Metadata: the fleets in it and its begin. Takes a pass over the file."""
        if self._about is None:
            roots: dict[str, set[str]] = {}
            first_ns = -1
            for stored in self.messages():
                first_ns = stored.time_ns if first_ns < 0 else first_ns
                if found := _TOPIC.match(stored.envelope.topic):
                    roots.setdefault(found["root"].rstrip("/"), set()).add(found["fleet"])
            root = DEFAULT_ROOT if DEFAULT_ROOT in roots or not roots else next(iter(roots))
            fleets = tuple(sorted(roots.get(root, ())))
            self._about = _about(self.kind, max(0, first_ns), fleets, root, "from lines of mosquitto_sub")
        return self._about

    def messages(self) -> Iterator[Stored]:
        """Yield the messages; times that go back are held."""
        self.skipped = LeftOut()
        with self._path.open("rb") as stream:
            yield from decode_lines(stream, counts=self.skipped)

    def close(self) -> None:
        """Nothing is open."""


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
    ) -> None:
        """Add up the file's periods: documents have no time.

        Args:
            path: The file.
            fleet: Name of the fleet that the host is shown in.
            address: The instance's; by default a standalone instance, named by its EC2 id.
            start_ns: Begin of the first document's period; by default the file's modification time less its length.
            encoding: Frames, or JSON objects.
        """
        self.skipped = LeftOut()
        self._path = path
        self._fleet = fleet or DEFAULT_FLEET
        self._address = address
        self._encoding = encoding
        self._ends: array[int] = array("q")
        """Nanoseconds from the begin to each line's end."""
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
            for _, line in read_lines(stream, MOST_DOCUMENT_BYTES):
                try:
                    period_s = read_period(line or b"")
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
        return _about(self.kind, self.start_ns, (self._fleet,), DEFAULT_ROOT, f"from neuron-monitor; {dated}")

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
        reader = HostReader()
        telemetry: HostTelemetry | None = None
        with self._path.open("rb") as stream:
            for number, line in read_lines(stream, MOST_DOCUMENT_BYTES):
                if line is None:
                    skipped.add(f"line {number}", f"longer than {MOST_DOCUMENT_BYTES} bytes")
                    continue
                try:
                    reader.read(line)
                except WireError as error:
                    skipped.add(f"line {number}", str(error))
                    continue
                except ConfigError as error:
                    raise ConfigError(f"{self._path}: line {number}: {error}") from error
                skipped.taken += 1
                if telemetry is None:
                    telemetry = self._telemetry(reader)
                # The file may have grown since its periods were added up.
                passed_ns = self._ends[min(number, len(self._ends)) - 1]
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


def _about(kind: Kind, start_ns: int, fleets: tuple[str, ...], root: str, note: str) -> About:
    mark = hashlib.sha256(f"{kind}:{start_ns}:{fleets}".encode()).hexdigest()[:16]
    return About(id=mark, fleets=fleets, root=root, started=format_rfc3339(start_ns), note=note)
