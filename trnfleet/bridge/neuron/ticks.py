"""One instance's values, tick by tick, read from a fleet's messages.

Messages are frames of any granularity, or JSON. It stores nothing of other instances, and parses as
little of their messages as possible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from trnfleet.bridge.neuron.documents import Host
from trnfleet.domain.address import Level, level_of, parse_chip
from trnfleet.domain.hardware.catalogue import INSTANCE_TYPES
from trnfleet.domain.metrics import BY_NAME, METRICS, Scope
from trnfleet.errors import WireError
from trnfleet.wire.frame_head import is_cbor
from trnfleet.wire.frame_layout import Unit
from trnfleet.wire.messages import Descriptor, decode_message
from trnfleet.wire.telemetry import decode_sample, split_codes
from trnfleet.wire.topics import DEFAULT_ROOT, TopicClass, build_topic, parse_topic

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.wire.ports import Envelope


class InstanceTick(NamedTuple):
    """Values of an instance and its chips at one tick."""

    ts_ns: int
    """Source time."""
    period_s: float
    """Seconds since the tick before, in source time."""
    columns: dict[str, NDArray[Any]]
    """Wire codes by metric: a row a chip, one row of the instance's."""


class _Place(NamedTuple):
    """The instance's rows in the frames of a descriptor."""

    unit: Unit
    period_s: float
    """Seconds from tick to tick, in source time."""
    chips: slice
    instance: slice


def described_instances(
    envelope: Envelope, root: str = DEFAULT_ROOT
) -> tuple[str, tuple[str, ...]]:
    """Return the fleet and the instances described by a message.

    No instances if it is not a descriptor.
    """
    if "/node/" not in envelope.topic or not envelope.payload:
        return "", ()
    try:
        topic = parse_topic(envelope.topic, root)
        if topic.topic_class is not TopicClass.NODE:
            return "", ()
        descriptor = decode_message(envelope.payload, Descriptor)
    except WireError:
        return "", ()
    return topic.fleet, tuple(instance.path for instance in descriptor.instances)


class InstanceTicks:
    """Reader of one instance's ticks from the messages of its fleet."""

    def __init__(self, fleet: str, path: str, root: str = DEFAULT_ROOT) -> None:
        """Name the instance by its fleet and address."""
        self.host: Host | None = None
        """The instance as it was first described; None until then."""
        self._path = path
        self._name = path.rpartition("/")[2].encode()
        self._nodes = build_topic(fleet, TopicClass.NODE, "", root)
        self._telemetry = build_topic(fleet, TopicClass.TELEMETRY, "", root)
        self._place: _Place | None = None
        self._described = b""
        """The descriptor that it is from."""
        self._ts_ns = -1
        self._last_ns = -1
        self._columns: dict[str, NDArray[Any]] = {}

    def take(self, envelope: Envelope) -> InstanceTick | None:
        """Take a message; return the tick before it, once all of that has come.

        Raises:
            WireError: it is about the instance and makes no sense, or comes too late.
        """
        topic = envelope.topic
        if topic.startswith(self._nodes):
            if self._concerns(topic[len(self._nodes) :], envelope.payload):
                self._describe(envelope.payload)
        elif topic.startswith(self._telemetry):
            path = topic[len(self._telemetry) :]
            if path == self._path or path.startswith(self._path + "/"):
                return (
                    self._frame(envelope.payload) if is_cbor(envelope) else self._sample(envelope)
                )
            if self._place is not None and path == self._place.unit.path:
                return self._frame(envelope.payload)
        return None

    def finish(self) -> InstanceTick | None:
        """Return the last tick, after the last message."""
        return self._turn(-1)

    def _concerns(self, path: str, payload: bytes) -> bool:
        """Return whether a descriptor may be about the instance.

        A block's path names only its cluster.
        """
        return path == self._path or (
            path.partition("/")[0] == self._path.partition("/")[0] and self._name in payload
        )

    def _describe(self, payload: bytes) -> None:
        if not payload or payload == self._described:
            # Descriptors are repeated every minute; one that has not changed is not parsed again.
            return
        descriptor = decode_message(payload, Descriptor)
        paths = [instance.path for instance in descriptor.instances]
        if self._path not in paths:
            return
        number = paths.index(self._path)
        instance = descriptor.instances[number]
        unit = Unit.of(descriptor)
        kind = INSTANCE_TYPES[instance.type]
        if self.host is None:
            lnc = instance.lnc or kind.chip.logical_neuroncore_config
            self.host = Host(self._path, kind, lnc, instance.ec2_id)
        elif self.host.kind is not kind:
            raise WireError(f"the instance is a {kind.name} now, and was a {self.host.kind.name}")
        self._described = payload
        self._place = _Place(
            unit,
            descriptor.period_s * descriptor.clock.speed,
            slice(unit.chips[number], unit.chips[number + 1]),
            slice(number, number + 1),
        )

    def _frame(self, payload: bytes) -> InstanceTick | None:
        place = self._place
        if place is None:
            raise WireError("a frame before its descriptor")
        frame = place.unit.decode(payload)
        done = self._turn(frame.head.ts_ns)
        for name, codes in place.unit.codes(frame).items():
            rows = place.chips if BY_NAME[name].scope is Scope.CHIP else place.instance
            self._columns[name][...] = codes[rows]
        return done

    def _sample(self, envelope: Envelope) -> InstanceTick | None:
        if self.host is None:
            raise WireError("telemetry before its descriptor")
        sample = decode_sample(envelope.payload)
        if sample.path != envelope.topic[len(self._telemetry) :]:
            raise WireError("identity in the payload is not the topic's")
        row = 0
        if sample.is_chip:
            row = parse_chip(sample.path.rpartition("/")[2]) or 0
            if row >= self.host.kind.chips or level_of(sample.path) != Level.CHIP:
                raise WireError(f"a {self.host.kind.name} has no such chip")
        done = self._turn(sample.head.ts_ns)
        for metric, codes in split_codes([sample]):
            self._columns[metric.name][row] = codes[0]
        return done

    def _turn(self, ts_ns: int) -> InstanceTick | None:
        """Begin the tick of `ts_ns` if it is another; return the ended one."""
        if ts_ns == self._ts_ns:
            return None
        if -1 < ts_ns < self._ts_ns:
            raise WireError("it is older than what came before it")
        done = None
        if self._ts_ns >= 0 and self._place is not None:
            period_s = self._place.period_s
            if self._last_ns >= 0:
                period_s = (self._ts_ns - self._last_ns) / 1e9
            done = InstanceTick(self._ts_ns, period_s, self._columns)
        self._last_ns = self._ts_ns
        self._ts_ns = ts_ns
        if self.host is not None:
            chips = self.host.kind.chips
            self._columns = {
                metric.name: metric.blank(chips if metric.scope is Scope.CHIP else 1)
                for metric in METRICS
            }
        return done
