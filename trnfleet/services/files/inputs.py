"""Message files: their kinds, recordings and lines of mosquitto_sub.

Files of the Neuron tools are in `neuron_inputs`. Each input yields its messages in order, any
number of times, and counts the ones left out.
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
import re
from typing import TYPE_CHECKING, Protocol

from trnfleet.bridge.neuron.devices import is_device_list
from trnfleet.bridge.neuron.fields import is_document, parse_json
from trnfleet.bridge.neuron.scrapes import is_exposition
from trnfleet.bridge.neuron.stream import MOST_DOCUMENT_BYTES, read_documents
from trnfleet.clock import format_rfc3339
from trnfleet.errors import ConfigError, WireError
from trnfleet.record.format.lines import decode_line, decode_lines
from trnfleet.record.format.metadata import About
from trnfleet.record.format.records import MAGIC
from trnfleet.record.read.reader import refuse_special
from trnfleet.record.read.recording import Recording
from trnfleet.wire.ndjson import LeftOut, TextFile
from trnfleet.wire.topics import DEFAULT_ROOT, VALUES, VERSION, TopicClass

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trnfleet.wire.ports import Stored

LINES_TO_TRY = 32
"""Lines or multi-line documents at a file's start. One must identify its kind."""
_MOSQUITTO_BEGIN = b'{"tst":'
_TOPIC = re.compile(
    rf"(?P<root>(?:[A-Za-z0-9_-]{{1,64}}/)+?){VERSION}/(?P<fleet>[A-Za-z0-9_-]{{1,64}})/"
    rf"(?:{'|'.join(topic_class.value for topic_class in TopicClass)})/"
)


class Kind(enum.StrEnum):
    """Kind of a file."""

    MCAP = "mcap"
    MOSQUITTO = "mosquitto"
    NEURON = "neuron-monitor"
    PROMETHEUS = "prometheus"
    """Text that neuron-monitor-prometheus serves."""
    NEURON_LS = "neuron-ls"
    """No messages, but where a host's devices are."""


NOUNS = {
    Kind.MCAP: "message",
    Kind.MOSQUITTO: "message",
    Kind.NEURON: "document",
    Kind.PROMETHEUS: "scrape",
    Kind.NEURON_LS: "device",
}
ENDINGS = {
    ".mcap": Kind.MCAP,
    ".ndjson": Kind.MOSQUITTO,
    ".jsonl": Kind.MOSQUITTO,
    ".json": Kind.MOSQUITTO,
}
"""Usual kind of a file of messages, by its ending."""
HOST_KINDS = (Kind.NEURON, Kind.PROMETHEUS)
"""Kinds of files written by tools on real hosts, without fleet or address."""


class UnknownKindError(ConfigError):
    """A file is none of the kinds."""


class Input(Protocol):
    """A file that messages are taken from."""

    kind: Kind
    skipped: LeftOut
    """Counts of messages read and left out in the last pass."""

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
        UnknownKindError: it is none of them.
        ConfigError: it cannot be read.
    """
    first = ""
    try:
        refuse_special(path)
        with TextFile.open(path) as stream:
            if stream.peek().startswith(MAGIC):
                if stream.forms:
                    raise ConfigError(f"{path}: a recording packed with {stream.forms[-1]}")
                return Kind.MCAP
            for count, (line, text, _) in enumerate(read_documents(stream), start=1):
                kind = _kind_of(text) if text else None
                if kind is not None:
                    return kind
                first = first or _unlike(line, text)
                if count >= LINES_TO_TRY:
                    break
            is_empty = path.stat().st_size == 0
            problem = stream.problem and f"; {stream.problem}"
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    if path.suffix == ".mcap" and not is_empty:
        # A recording that is damaged at its very begin; its reader says so.
        return Kind.MCAP
    reason = f"no MCAP, no lines of mosquitto_sub -F %j, no neuron-monitor{first}{problem}"
    if is_empty:
        reason = "it is empty"
    raise UnknownKindError(f"{path}: {reason}")


def _unlike(line: int, text: bytes | None) -> str:
    """Return a clause about a line, or a document of several, that is of no kind."""
    if text is None:
        return f"; line {line}: longer than {MOST_DOCUMENT_BYTES} bytes"
    shown = ascii(text[:60].decode("utf-8", "replace"))
    reason = "not JSON"
    with contextlib.suppress(WireError):
        data = parse_json(text)
        keys = "neither neuron_runtime_data nor system_data"
        reason = f"JSON with {keys if isinstance(data, dict) else 'no object'}"
    return f"; line {line} is {reason}: {shown}"


def _kind_of(text: bytes) -> Kind | None:
    """Return the kind of file that a line, or a document of several, is from."""
    with contextlib.suppress(WireError):
        decode_line(text)
        return Kind.MOSQUITTO
    # Payloads that are no text make mosquitto_sub's lines unreadable; they are its lines all the
    # same.
    if text.startswith(_MOSQUITTO_BEGIN):
        return Kind.MOSQUITTO
    if is_exposition(text):
        return Kind.PROMETHEUS
    with contextlib.suppress(WireError):
        data = parse_json(text)
        if is_document(data):
            return Kind.NEURON
        # A member of the array that it is.
        if is_device_list([data]):
            return Kind.NEURON_LS
    return None


def note_end(stream: TextFile, skipped: LeftOut) -> None:
    """Count the part of a packed file that cannot be unpacked."""
    if stream.problem:
        skipped.add("end", stream.problem)


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
        telemetry = re.compile(
            rf"{re.escape(self.about.root)}/{VERSION}/[^/]*/(?:{'|'.join(VALUES)})/"
        )
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
    """Lines of `mosquitto_sub -F '%j'`, also with `payload_base64` as written by `trnfleet`."""

    kind = Kind.MOSQUITTO

    def __init__(self, path: Path) -> None:
        self.skipped = LeftOut()
        self._path = path
        self._about: About | None = None

    @property
    def about(self) -> About:
        """Metadata: fleets and begin.

        Reads the whole file.
        """
        if self._about is None:
            roots: dict[str, set[str]] = {}
            first_ns = -1
            for stored in self.messages():
                first_ns = stored.time_ns if first_ns < 0 else first_ns
                if match := _TOPIC.match(stored.envelope.topic):
                    roots.setdefault(match["root"].rstrip("/"), set()).add(match["fleet"])
            root = DEFAULT_ROOT if DEFAULT_ROOT in roots or not roots else next(iter(roots))
            fleets = tuple(sorted(roots.get(root, ())))
            self._about = about_file(
                self.kind, max(0, first_ns), fleets, root, "from lines of mosquitto_sub"
            )
        return self._about

    def messages(self) -> Iterator[Stored]:
        """Yield the messages.

        Hold times that go back.
        """
        self.skipped = LeftOut()
        with TextFile.open(self._path) as stream:
            yield from decode_lines(stream, counts=self.skipped)
            note_end(stream, self.skipped)

    def close(self) -> None:
        """Nothing is open."""


def about_file(kind: Kind, start_ns: int, fleets: tuple[str, ...], root: str, note: str) -> About:
    """Return metadata for a recording of a file: the same for the same file."""
    mark = hashlib.sha256(f"{kind}:{start_ns}:{fleets}".encode()).hexdigest()[:16]
    return About(id=mark, fleets=fleets, root=root, started=format_rfc3339(start_ns), note=note)
