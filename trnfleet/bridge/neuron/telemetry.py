"""A real host's telemetry as messages: descriptor, and frame or JSON objects per document.

It knows no broker and no file; the caller sends the messages.
"""

from __future__ import annotations

import hashlib
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec
from msgspec import UNSET

from trnfleet.clock import format_rfc3339
from trnfleet.domain.address import STANDALONE, Level, format_chip, is_segment, split, to_segment
from trnfleet.domain.metrics import BY_NAME
from trnfleet.domain.quantities import counted
from trnfleet.domain.severity import Severity
from trnfleet.errors import ConfigError
from trnfleet.wire.frames import FrameEncoder
from trnfleet.wire.limits import DEFAULT_LIMITS
from trnfleet.wire.messages import (
    MOST_CLAIMS,
    ClaimMessage,
    ClaimSpec,
    ClockSpec,
    ColumnSpec,
    Descriptor,
    EventMessage,
    HostMessage,
    InstanceSpec,
    message_envelope,
    named_lanes,
)
from trnfleet.wire.ports import CONTENT_TYPE_CBOR, CONTENT_TYPE_JSON, Envelope
from trnfleet.wire.telemetry import Head, dump, encode_chips, encode_instance
from trnfleet.wire.topics import DEFAULT_ROOT, TopicClass, build_topic

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from trnfleet.bridge.neuron.host_reader import HostReader
    from trnfleet.bridge.neuron.values import FailedExecutions

CLUSTER = "uc1"
"""Cluster of a host without a given address."""
HOST = "host"
"""Name of a host without one, and without an EC2 id."""
_NAME_CHARS = DEFAULT_LIMITS.text_chars
SOURCES = ("process-tag", "pod-resources", "job-mapping")
"""Sources of claims, the most precise first: a tag was set by a person, and names a process."""


class Holder(NamedTuple):
    """A job with chips of the host, as one source names it."""

    name: str
    chips: frozenset[int]
    source: str
    """One of `SOURCES`."""
    since: str | None = None
    """RFC 3339; None if the source does not know."""


_OF_A_MINUTE: dict[str, Literal["mean", "min", "max"]] = {
    "power_util_pct": "mean",
    "power_util_max_pct": "max",
}
"""Statistics of the last wall-clock minute."""


def default_path(reader: HostReader, host: str = HOST) -> str:
    """Return an address for a host after its first document.

    In its UltraServer if it names one, by EC2 id or name tag, else by the name `host`.
    """
    names = (reader.ec2_id or "", reader.host, host)
    above = reader.ultraserver if is_segment(reader.ultraserver) else STANDALONE
    return f"{CLUSTER}/{above}/{next(name for name in names if is_segment(name))}"


def check_path(path: str) -> str:
    """Return the address of an instance as it was given.

    Raises:
        ConfigError: it is no instance's.
    """
    try:
        depth = len(split(path))
    except ValueError as error:
        raise ConfigError(str(error)) from error
    if depth != Level.INSTANCE:
        raise ConfigError(
            f"address {path!r} has {depth} segments; an instance's has 3, as"
            f" {CLUSTER}/{STANDALONE}/{HOST}"
        )
    return path


def boot_of(path: str, start_ns: int) -> str:
    """Return the boot id of a host's file: 16 hexadecimal digits.

    The same for the same file.
    """
    return hashlib.sha256(f"{path}:{start_ns}".encode()).hexdigest()[:16]


def job_segments(names: Collection[str], former: Mapping[str, str]) -> dict[str, str]:
    """Return the segments of names, all different.

    Of names with the same segment the second has a hash behind it. A name that is a segment stays
    as it is, because other hosts use it, too.

    Args:
        names: The jobs' names.
        former: Segments until now; they stay.
    """
    owners = {name: name for name in names if is_segment(name)}
    for name in sorted(set(names) - owners.keys(), key=lambda name: (name not in former, name)):
        segment = former.get(name, to_segment(name))
        if segment in owners:
            segment = f"{segment[:55]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
        owners[segment] = name
    return {name: segment for segment, name in owners.items()}


def _column(name: str) -> ColumnSpec:
    """Return a column of a host; the driver measures power by the minute."""
    column = ColumnSpec.of(BY_NAME[name])
    statistic = _OF_A_MINUTE.get(name)
    if statistic is None:
        return column
    return msgspec.structs.replace(column, period_s=60.0, statistic=statistic)


def publisher_of(path: str) -> str:
    """Return the publisher's name of a host with an address."""
    return f"neuron-{path.rpartition('/')[2]}"[:64]


class HostEvent(NamedTuple):
    """An event of a host, or of one of its chips."""

    name: str
    text: str
    severity: Severity
    source: str = "hardware"
    chip: int | None = None
    """None for the host itself."""
    nrt: int | None = None
    key: str = ""
    """What is the same at each start, by which readers know the event again; empty for a new one.
    """


class PresenceFacts(NamedTuple):
    """Facts in a host's presence."""

    versions: Mapping[str, str] = MappingProxyType({})
    """Versions of its programs, by name."""
    problems: tuple[str, ...] = ()
    """Sources that do not work, with the reason."""
    source: str | None = None
    """Kind of program that reads the host."""


class HostTelemetry:
    """Messages of one host; call `envelopes` once for each document that its reader has read."""

    def __init__(
        self,
        reader: HostReader,
        fleet: str,
        path: str,
        *,
        boot: str,
        period_s: float,
        encoding: Literal["json", "cbor"] = "cbor",
        root: str = DEFAULT_ROOT,
        publisher: str = "",
        with_presence: bool = True,
    ) -> None:
        """Bind to a reader that has read its first document.

        Args:
            reader: Its columns are published as they are when `envelopes` is called.
            fleet: Name of the fleet.
            path: Address of the instance.
            boot: Id of this start.
            period_s: Seconds between two documents; who is silent for longer is stale.
            encoding: One frame for all chips, or an object a chip and one for the instance.
            root: First part of the topics.
            publisher: Name of the publisher; by default made from the address.
            with_presence: Whether the host has a presence of its own.
        """
        self.publisher = publisher or publisher_of(path)
        self.presence_facts = PresenceFacts()
        """What its presence says besides its state."""
        self._has_presence = with_presence
        self.seq = 0
        """Number of the next tick."""
        self.backlog: tuple[int, int] | None = None
        """First and last tick that waited in the last outage, and come as backlog."""
        self.holders: tuple[Holder, ...] = ()
        """Jobs that other sources than process tags name, set before each tick."""
        self.reader = reader
        self._fleet = fleet
        self.path = path
        self._root = root
        self.boot = boot
        self.period_s = period_s
        self._encoding = encoding
        self._encoder: FrameEncoder | None = None
        self._epoch = ""
        self._claimed_at = ""
        self._told_revision = -1
        self._since: dict[str, str | None] = {}
        """Since when each job is there; None for those of the first document."""
        self._segments: dict[str, str] = {}
        self._claims: tuple[ClaimSpec, ...] = ()
        self._events = 0

    def move(self, path: str) -> Iterator[Envelope]:
        """Yield the messages that clear the present address; the next ones have the new one."""
        if not self._epoch:
            self.path = path
            return
        told = (TopicClass.NODE, TopicClass.CLAIM) if self._claims else (TopicClass.NODE,)
        for topic_class in told:
            topic = build_topic(self._fleet, topic_class, self.path, self._root)
            yield Envelope(topic, b"", qos=1, retain=True)
        self.path = path
        self._claims = ()
        self._told_revision = -1

    def envelopes(self, ts_ns: int, *, with_events: bool = True) -> Iterator[Envelope]:
        """Yield the messages for the present columns; new or changed state first.

        Args:
            ts_ns: Source time of the document.
            with_events: Whether its failures are new, and not those since an exporter began.
        """
        reader = self.reader
        if self._told_revision != reader.revision:
            self._told_revision = reader.revision
            self._epoch = self._epoch or format_rfc3339(ts_ns)
            self._encoder = FrameEncoder(
                self.path,
                self.boot,
                revision=reader.revision,
                columns=reader.columns,
                chips=slice(0, reader.kind.chips),
                instances=slice(0, 1),
            )
            yield from self.announce()
        claims = self._read_claims(None if self.seq == 0 else format_rfc3339(ts_ns))
        if claims != self._claims:
            self._claims = claims
            self._claimed_at = format_rfc3339(ts_ns)
            yield self._claim()
        head = Head(self.boot, self.seq, ts_ns)
        self.seq += 1
        if self._encoding == "json" or self._encoder is None:
            yield from self._samples(head)
        else:
            payload = self._encoder.encode(head.seq, ts_ns)
            yield Envelope(self._topic(self.path), payload, content_type=CONTENT_TYPE_CBOR)

        for failure in self.reader.failures if with_events else ():
            yield self.failure(failure, ts_ns)

    def failure(self, failure: FailedExecutions, ts_ns: int) -> Envelope:
        """Return the event of failed executions."""
        is_hardware = failure.name.startswith("EXEC_HW_ERR")
        return self.event(
            HostEvent(
                "execution_failed",
                f"{counted(failure.executions, 'execution')} failed: {failure.name}",
                Severity.CRITICAL if is_hardware else Severity.WARNING,
                source="runtime",
                chip=failure.chip,
                nrt=failure.nrt,
            ),
            ts_ns,
        )

    def event(self, event: HostEvent, ts_ns: int) -> Envelope:
        """Return an event of the host or of a chip."""
        self._events += 1
        chip = ""
        if event.chip is not None and event.chip < self.reader.kind.chips:
            chip = f"/{format_chip(event.chip)}"
        again = hashlib.sha256(f"{self.publisher}{event.key}".encode()).hexdigest()[:32]
        message = EventMessage(
            id=again if event.key else f"{self.boot}-{self._events}",
            ts=format_rfc3339(ts_ns),
            path=self.path + chip,
            source=event.source,
            name=event.name,
            severity=event.severity,
            text=event.text[: DEFAULT_LIMITS.text_chars],
            nrt=event.nrt,
        )
        topic = build_topic(self._fleet, TopicClass.EVENT, message.path, self._root)
        return message_envelope(topic, message, retain=False)

    def announce(self) -> Iterator[Envelope]:
        """Yield the retained state: presence of the host, its descriptor and claims."""
        if self._has_presence:
            yield self.presence("online")
        if not self._epoch:
            return
        topic = build_topic(self._fleet, TopicClass.NODE, self.path, self._root)
        yield message_envelope(topic, self.descriptor(), retain=True)
        if self._claims:
            yield self._claim()

    def presence(self, state: Literal["online", "offline"]) -> Envelope:
        """Return the host's presence; `offline` is its last will."""
        message = HostMessage(
            client=self.publisher,
            state=state,
            boot=self.boot,
            path=self.path if self._epoch else None,
            versions=dict(self.presence_facts.versions),
            problems=self.presence_facts.problems,
            source=self.presence_facts.source,
            backlog=self.backlog,
        )
        topic = build_topic(self._fleet, TopicClass.PUBLISHER, self.publisher, self._root)
        return message_envelope(topic, message, retain=True)

    def clear(self) -> Iterator[Envelope]:
        """Yield the messages that clear descriptor and claims of a host that is gone."""
        for topic_class in (TopicClass.CLAIM, TopicClass.NODE):
            topic = build_topic(self._fleet, topic_class, self.path, self._root)
            yield Envelope(topic, b"", qos=1, retain=True)

    def _claim(self) -> Envelope:
        """Return the message of the host's claims."""
        message = ClaimMessage(
            path=self.path, boot=self.boot, ts=self._claimed_at, claims=self._claims
        )
        topic = build_topic(self._fleet, TopicClass.CLAIM, self.path, self._root)
        return message_envelope(topic, message, retain=True)

    def _read_claims(self, ts: str | None) -> tuple[ClaimSpec, ...]:
        """Return the claims of this tick; new ones without a time of their own begin at `ts`.

        The most precise source of a chip has it.
        """
        tagged = tuple(
            Holder(tag, frozenset(chips), SOURCES[0]) for tag, chips in self.reader.tagged.items()
        )
        claimed: list[Holder] = []
        for source in SOURCES:
            covered = frozenset().union(*(holder.chips for holder in claimed))
            claimed += [
                holder._replace(chips=holder.chips - covered)
                for holder in sorted((*tagged, *self.holders), key=lambda holder: holder.name)
                if holder.source == source and not holder.chips <= covered
            ]
        del claimed[MOST_CLAIMS:]
        self._since = {
            holder.name: self._since.get(holder.name, holder.since or ts) for holder in claimed
        }
        self._segments = job_segments(self._since, self._segments)
        return tuple(
            ClaimSpec(
                job=job,
                display_name=None if job == holder.name else holder.name[:_NAME_CHARS],
                chips=tuple(sorted(holder.chips)),
                since=self._since[holder.name],
                source=holder.source,
            )
            for holder in claimed
            for job in [self._segments[holder.name]]
        )

    def descriptor(self) -> Descriptor:
        """Return the host's descriptor, on the wall clock."""
        reader = self.reader
        own = self.path.rpartition("/")[2]
        return Descriptor(
            path=self.path,
            publisher=self.publisher,
            boot=self.boot,
            revision=reader.revision,
            period_s=self.period_s,
            clock=ClockSpec(epoch=self._epoch),
            origin="neuron",
            instances=(
                InstanceSpec(
                    path=self.path,
                    type=reader.kind.name,
                    ec2_id=reader.ec2_id,
                    display_name=UNSET if reader.host in {"", own} else reader.host[:128],
                    lnc=reader.lnc,
                    versions=reader.versions,
                ),
            ),
            columns=tuple(map(_column, reader.columns)),
            lanes=named_lanes([reader.kind.name]),
        )

    def _samples(self, head: Head) -> Iterator[Envelope]:
        columns = self.reader.columns
        chips = slice(0, self.reader.kind.chips)
        own = encode_instance(head, self.path, None, columns, 0)
        for path, sample in (
            (self.path, own),
            *encode_chips(head, self.path, None, columns, chips),
        ):
            yield Envelope(self._topic(path), dump(sample), content_type=CONTENT_TYPE_JSON)

    def _topic(self, path: str) -> str:
        return build_topic(self._fleet, TopicClass.TELEMETRY, path, self._root)
