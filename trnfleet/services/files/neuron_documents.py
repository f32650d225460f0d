"""One instance of a recording, or of lines, as neuron-monitor's documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from trnfleet.bridge.neuron.documents import DocumentWriter
from trnfleet.bridge.neuron.ticks import InstanceTicks, described_instances
from trnfleet.errors import ConfigError, WireError, nearest
from trnfleet.services.files.recordings import choose_fleet
from trnfleet.wire.messages import decode_message
from trnfleet.wire.ndjson import LeftOut
from trnfleet.wire.reservations import ReservationMessage
from trnfleet.wire.topics import TopicClass, parse_topic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnfleet.bridge.neuron.ticks import InstanceTick
    from trnfleet.services.files.inputs import Input
    from trnfleet.wire.ports import Envelope


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
            tick = ticks.take(stored.envelope)
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
        raise ConfigError("no instance is described in it, so there is none to write")
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
