"""Descriptors of publishers: their instances, and the columns of their frames.

A large fleet has tens of thousands of instances. Data needed in every tick is small, and the rest
(EC2 ids, versions) stays encoded until it is read.
"""

from __future__ import annotations

import functools
import re
import sys
from collections import Counter
from sys import getsizeof
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

import msgspec

from trnfleet.clock import parse_rfc3339
from trnfleet.domain.hardware.catalogue import INSTANCE_TYPES, unknown_instance_type
from trnfleet.errors import WireError
from trnfleet.monitor.room import ALLOCATION_BYTES, ENTRY_BYTES, Room, held_bytes
from trnfleet.monitor.sources.clocks import ClockKey
from trnfleet.wire.limits import DEFAULT_LIMITS, Limits
from trnfleet.wire.messages import (
    STANDARD_COLUMNS,
    ClockSpec,
    ColumnSpec,
    Descriptor,
    ForwardedBy,
    InstanceSpec,
    decode_message,
)
from trnfleet.wire.rollups import RollupDescriptor, RollupForm, is_rollup

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from trnfleet.wire.ports import Envelope

    Lanes = tuple[tuple[str, tuple[str, ...]], ...]

K = TypeVar("K")
MOST_CHANGED = 64
"""Most changed descriptors, or sets of lane names, for a layout to be changed one by one. Above it,
the layout is built from all."""


class _ColumnSet(NamedTuple):
    """Columns that descriptors have in common."""

    columns: tuple[ColumnSpec, ...]
    owner: str
    size_bytes: int
    uses: int
    """Descriptors that have them."""


class ColumnSets:
    """Non-standard columns.

    Equal columns of many descriptors are one object.
    """

    def __init__(self) -> None:
        self._sets: dict[tuple[ColumnSpec, ...], _ColumnSet] = {}

    def __len__(self) -> int:
        return len(self._sets)

    def identities(self) -> set[int]:
        """Return the identities of all column objects in use, and of the standard ones."""
        return {
            id(STANDARD_COLUMNS),
            *(id(column_set.columns) for column_set in self._sets.values()),
        }

    def new_bytes(self, columns: tuple[ColumnSpec, ...]) -> int:
        """Return the additional memory columns would need."""
        return (
            0 if columns is STANDARD_COLUMNS or columns in self._sets else _columns_bytes(columns)
        )

    def share(
        self, columns: tuple[ColumnSpec, ...], publisher: str, room: Room
    ) -> tuple[ColumnSpec, ...]:
        """Return the shared object for a descriptor's columns.

        It counts towards the first publisher to use it.
        """
        if columns is STANDARD_COLUMNS:
            return STANDARD_COLUMNS
        shared = self._sets.get(columns)
        if shared is None:
            shared = _ColumnSet(columns, publisher, _columns_bytes(columns), 0)
            room.change(shared.owner, shared.size_bytes)
        self._sets[shared.columns] = shared._replace(uses=shared.uses + 1)
        return shared.columns

    def release(self, columns: tuple[ColumnSpec, ...], room: Room) -> None:
        """Release the columns of a removed descriptor."""
        if columns is STANDARD_COLUMNS:
            return
        shared = self._sets[columns]
        if shared.uses > 1:
            self._sets[columns] = shared._replace(uses=shared.uses - 1)
        else:
            del self._sets[columns]
            room.change(shared.owner, -shared.size_bytes)


class LaneSets:
    """Unusual names of link lanes, with the number of descriptors using each set."""

    def __init__(self) -> None:
        self._uses: dict[Lanes, int] = {}

    def count(self, lanes: Lanes, more: int) -> None:
        """Count an added (1) or removed (-1) descriptor."""
        if lanes:
            left = self._uses.pop(lanes, 0) + more
            if left > 0:
                self._uses[lanes] = left

    def names(self) -> dict[str, tuple[str, ...]] | None:
        """Return the lane names by instance type.

        None if they depend on the order of descriptors.
        """
        if len(self._uses) > MOST_CHANGED:
            return None
        by_kind: dict[str, tuple[str, ...]] = {}
        for lanes in self._uses:
            for kind, names in lanes:
                if by_kind.setdefault(kind, names) != names:
                    return None
        return by_kind


class DescriptorChanges(NamedTuple):
    """Changes of descriptors since the layout was built."""

    former: dict[str, CompactDescriptor | None]
    """Former descriptor of each added, removed or replaced path. None if it was new."""
    gone: dict[tuple[str, str, ClockKey], None]
    """Publisher, boot and clock of all changed descriptors, including any added and removed since.
    """


class ChangedDescriptors:
    """Descriptors not yet shown in their present form by the layout."""

    def __init__(self) -> None:
        self._changes: DescriptorChanges | None = DescriptorChanges({}, {})
        """None where they are too many."""

    def note(self, path: str, known: CompactDescriptor | None) -> None:
        """Record a replaced or removed descriptor of a path."""
        if self._changes is None:
            return
        former, gone = self._changes
        former.setdefault(path, known)
        if known is not None:
            gone[known.publisher, known.boot, known.clock] = None
        if max(len(former), len(gone)) > MOST_CHANGED:
            self._changes = None

    def take(self) -> DescriptorChanges | None:
        """Return the changes; None if there are too many.

        All count as changed until `begin`: an unfinished layout is built from all next time.
        """
        changes = self._changes
        self._changes = None
        return changes

    def begin(self) -> None:
        """Begin again with a layout that shows all."""
        self._changes = DescriptorChanges({}, {})


def _columns_bytes(columns: tuple[ColumnSpec, ...]) -> int:
    """Return the memory of columns and of the smaller decoder of their frames."""
    return 2 * held_bytes(columns)


INSTANCE_BYTES = 280
"""Bytes per instance in tables of layout and descriptor: path, row, type and EC2 id."""

_EC2_ID = re.compile(rb'"ec2_id":"([^"\\]*)"')
_ENCODER = msgspec.json.Encoder()
_REST = msgspec.json.Decoder(
    tuple[tuple[InstanceSpec, ...], Literal["simulated", "neuron"], ClockSpec, ForwardedBy | None]
)


class CompactDescriptor(NamedTuple):
    """A descriptor, in short."""

    path: str
    publisher: str
    boot: str
    """Boot id of the described publisher. Telemetry of other boots is not covered."""
    revision: int
    period_s: float
    instances: tuple[str, ...]
    """Paths, in the order of the frames' rows."""
    types: tuple[str, ...]
    """Instance type of each."""
    columns: tuple[ColumnSpec, ...]
    lanes: tuple[tuple[str, tuple[str, ...]], ...]
    """Names of link lanes by instance type. Empty if as in schema version 1."""
    rest: bytes
    """Instances, origin, clock and relay as JSON, read when a host is viewed."""
    clock: ClockKey
    mark: int
    """Hash of the message bytes, to recognise a repetition."""
    size_bytes: int = 0
    """Memory without its columns, with the layout's data on its instances."""
    members: tuple[int, ...] = ()
    """Instances per row of a block of roll-ups. Empty for a descriptor of telemetry."""
    rollup: RollupForm | None = None
    """The form of its frames, of a block of roll-ups."""
    cell: str = ""
    """Cell of a block of roll-ups, or of a host forwarded under a lease."""
    relay_boot: str = ""
    """Boot of the forwarding relay. Empty if received directly from the publisher."""
    names: tuple[tuple[str, str], ...] = ()
    """Paths and display names of the instances that have one."""
    links: int = 0
    """Bit mask of the connections it arrived over. 0 in a fleet with one connection."""

    @staticmethod
    def of(payload: bytes, limits: Limits = DEFAULT_LIMITS) -> CompactDescriptor:
        """Decode and shorten a descriptor.

        Raises:
            WireError: it is not one, or names an instance type that the hardware catalogue does not
                have.
        """
        if is_rollup(payload):
            return _of_rollups(payload, limits)
        descriptor = decode_message(payload, Descriptor, limits)
        for instance in descriptor.instances:
            if instance.type not in INSTANCE_TYPES:
                raise WireError(unknown_instance_type(instance.type))
            if instance.path != descriptor.path and not _is_below(instance.path, descriptor.path):
                raise WireError("describes an instance that is not below its path")
        for name, names in descriptor.lanes.items():
            if name in INSTANCE_TYPES and len(names) < len(INSTANCE_TYPES[name].lanes):
                raise WireError(
                    f"names {len(names)} link lanes of a {name}, which has"
                    f" {len(INSTANCE_TYPES[name].lanes)}"
                )
        columns = descriptor.columns
        if columns is not STANDARD_COLUMNS and columns == STANDARD_COLUMNS:
            columns = STANDARD_COLUMNS
        paths = tuple([instance.path for instance in descriptor.instances])
        lanes = tuple(sorted(descriptor.lanes.items()))
        forwarded = descriptor.forwarded
        rest = _ENCODER.encode(
            (descriptor.instances, descriptor.origin, descriptor.clock, forwarded)
        )
        # Types, clock, publisher and boot are objects that many share.
        display_names = tuple(
            [(spec.path, spec.display_name) for spec in descriptor.instances if spec.display_name]
        )
        own = (descriptor.path, paths, *paths, rest)
        size_bytes = (
            sum(map(getsizeof, own))
            + ALLOCATION_BYTES * len(own)
            + (held_bytes(lanes) if lanes else 0)
            + (held_bytes(display_names) if display_names else 0)
        )
        return CompactDescriptor(
            descriptor.path,
            sys.intern(descriptor.publisher),
            sys.intern(descriptor.boot),
            descriptor.revision,
            descriptor.period_s,
            paths,
            tuple([sys.intern(instance.type) for instance in descriptor.instances]),
            columns,
            lanes,
            rest,
            _clock_of(descriptor),
            hash(payload),
            size_bytes + ENTRY_BYTES + INSTANCE_BYTES * len(paths),
            names=display_names,
            cell="" if forwarded is None else sys.intern(forwarded.cell),
            relay_boot="" if forwarded is None else sys.intern(forwarded.boot),
        )

    @property
    def source(self) -> str:
        """Kind of source, where the publisher's presence names none."""
        if self.members:
            return "relay"
        clock = self.clock
        return "replay" if clock.is_replay else "sim" if clock.is_simulated else "host"

    def whole(self) -> Descriptor:
        """Return the full descriptor, of telemetry."""
        instances, origin, clock, forwarded = _REST.decode(self.rest)
        return Descriptor(
            path=self.path,
            publisher=self.publisher,
            boot=self.boot,
            revision=self.revision,
            period_s=self.period_s,
            clock=clock,
            replay=self.clock.is_replay,
            origin=origin,
            instances=instances,
            columns=self.columns,
            lanes=dict(self.lanes),
            forwarded=forwarded,
        )

    def ec2_ids(self) -> Iterator[tuple[str, str]]:
        """Yield EC2 id and address of the instances that have an id."""
        ec2_ids = _EC2_ID.findall(self.rest)
        if len(ec2_ids) == len(self.instances) and all(ec2_ids):
            yield from zip(map(bytes.decode, ec2_ids), self.instances, strict=True)
        elif self.rest:
            for instance in _REST.decode(self.rest)[0]:
                if instance.ec2_id:
                    yield instance.ec2_id, instance.path

    @property
    def cause(self) -> str:
        """Cause of a new layout: the publisher, or the path of a forwarded descriptor.

        Forwarded paths come and go with leases.
        """
        return self.path if self.relay_boot else self.publisher

    def same_hardware(self, other: CompactDescriptor | None) -> bool:
        """Return whether another descriptor has the same instances, links and order.

        Roll-ups must have the same columns.
        """
        return other is not None and (
            (self.instances, self.types, self.lanes, self.members, self.cell)
            == (other.instances, other.types, other.lanes, other.members, other.cell)
            and self.rollup_columns == other.rollup_columns
        )

    @property
    def rollup_columns(self) -> tuple[str, ...]:
        """Metrics of the frames of a relay's block; none for telemetry."""
        return () if self.rollup is None else (*self.rollup.totals, *self.rollup.counters)


def _of_rollups(payload: bytes, limits: Limits) -> CompactDescriptor:
    """Decode and shorten the descriptor of a block of roll-ups.

    Raises:
        WireError: it is not one.
    """
    descriptor = decode_message(payload, RollupDescriptor, limits)
    form = RollupForm.of(descriptor)
    paths = tuple(row.path for row in descriptor.rows)
    return CompactDescriptor(
        descriptor.path,
        sys.intern(descriptor.publisher),
        sys.intern(descriptor.boot),
        descriptor.revision,
        descriptor.period_s,
        paths,
        tuple(sys.intern(row.type) for row in descriptor.rows),
        STANDARD_COLUMNS,
        (),
        b"",
        _clock_of(descriptor),
        hash(payload),
        held_bytes((descriptor.path, paths)) + ENTRY_BYTES + INSTANCE_BYTES * len(paths),
        members=tuple(row.instances for row in descriptor.rows),
        rollup=form,
        cell=sys.intern(descriptor.cell),
    )


class Descriptors:
    """Descriptors of a fleet by path, and their share of its limits by publisher."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._by_path: dict[str, CompactDescriptor] = {}
        self._instances = Room(limits.fleet_instances)
        self._bytes = Room(limits.descriptors_bytes)
        self.column_sets = ColumnSets()
        self.lane_sets = LaneSets()
        self.names: dict[str, str] = {}
        """Display names of instances by path."""
        self.name_uses: Counter[str] = Counter()
        """Instances with the same display name, by name."""
        self._ec2_ids: dict[str, str | Counter[str]] = {}
        """Address of each EC2 instance, or several with the number of descriptors that say so."""
        self.contested: dict[str, Counter[str]] = {}
        """EC2 ids that are described at several addresses."""
        self.paths_of: dict[str, int] = {}
        """How many of them each publisher has."""
        self.changed = ChangedDescriptors()
        """Changes not yet shown in the layout."""
        self.instances_of: dict[ClockKey, int] = {}
        """Instances that go by each clock."""
        self._forwarded: set[str] = set()
        """Paths of forwarded descriptors."""
        self.changes = 0
        """Increases with every added or removed descriptor."""

    @property
    def instances(self) -> int:
        """Instances in all of them."""
        return self._instances.used

    @property
    def size_bytes(self) -> int:
        """Memory of all descriptors with their columns."""
        return self._bytes.used

    def __len__(self) -> int:
        return len(self._by_path)

    def __iter__(self) -> Iterator[CompactDescriptor]:
        return iter(self._by_path.values())

    def get(self, path: str) -> CompactDescriptor | None:
        """Return the descriptor of a path, in short."""
        return self._by_path.get(path)

    def without(self, paths: set[str]) -> set[str]:
        """Return the paths that have no descriptor."""
        return paths.difference(self._by_path)

    def repeats(self, envelope: Envelope, path_at: int) -> bool:
        """Return whether a message repeats a known descriptor over a known connection.

        Args:
            envelope: The message.
            path_at: Where the path begins in its topic.
        """
        known = self._by_path.get(envelope.topic[path_at:])
        link = 1 << (envelope.link - 1) if envelope.link else 0
        return (
            known is not None
            and known.mark == hash(envelope.payload)
            and known.links | link == known.links
        )

    def refusal(self, descriptor: CompactDescriptor) -> str | None:
        """Return why there is no room for a descriptor, or None where there is."""
        owner = descriptor.publisher
        known = self._by_path.get(descriptor.path)
        instances = len(descriptor.instances)
        size_bytes = descriptor.size_bytes
        size_bytes += self.column_sets.new_bytes(descriptor.columns)
        if known is not None and known.publisher == owner:
            instances = instances - len(known.instances)
            size_bytes = size_bytes - known.size_bytes
        return self._instances.refusal(owner, instances, "instances") or self._bytes.refusal(
            owner, size_bytes, "bytes of descriptors"
        )

    def put(self, descriptor: CompactDescriptor) -> CompactDescriptor:
        """Store a descriptor in place of the path's former one.

        Return it as stored.
        """
        columns = self.column_sets.share(descriptor.columns, descriptor.publisher, self._bytes)
        if not self.remove(descriptor.path):
            self.changed.note(descriptor.path, None)
        stored = (
            descriptor if columns is descriptor.columns else descriptor._replace(columns=columns)
        )
        self._by_path[descriptor.path] = stored
        self._instances.change(stored.publisher, len(stored.instances))
        self._count(stored, 1)
        if stored.relay_boot:
            self._forwarded.add(stored.path)
        self._bytes.change(stored.publisher, stored.size_bytes)
        self.changes += 1
        return stored

    def remove(self, path: str) -> bool:
        """Remove a path's descriptor; return whether there was one."""
        gone = self._by_path.pop(path, None)
        if gone is not None:
            self._instances.change(gone.publisher, -len(gone.instances))
            self._bytes.change(gone.publisher, -gone.size_bytes)
            self.column_sets.release(gone.columns, self._bytes)
            self._forwarded.discard(path)
            self._count(gone, -1)
            self.changed.note(path, gone)
            self.changes += 1
        return gone is not None

    def _count(self, descriptor: CompactDescriptor, more: int) -> None:
        """Count an added (1) or removed (-1) descriptor."""
        self.lane_sets.count(descriptor.lanes, more)
        for path, name in descriptor.names:
            self.name_uses[name] += more
            if more > 0:
                self.names[path] = name
            else:
                self.names.pop(path, None)
                if not self.name_uses[name]:
                    del self.name_uses[name]
        for ec2_id, path in descriptor.ec2_ids():
            self._identify(ec2_id, path, more)
        _add(self.instances_of, descriptor.clock, more * len(descriptor.instances))
        _add(self.paths_of, descriptor.publisher, more)

    def is_void(self, descriptor: CompactDescriptor) -> bool:
        """Return whether a descriptor is from a replaced relay.

        Its telemetry is no longer forwarded.
        """
        if not descriptor.relay_boot:
            return False
        boots = self._relay_boots(descriptor.cell)
        return bool(boots) and descriptor.relay_boot not in boots

    def void(self, cell: str) -> list[CompactDescriptor]:
        """Return the void descriptors of a cell."""
        forwarded = [self._by_path[path] for path in self._forwarded]
        of_cell = [descriptor for descriptor in forwarded if descriptor.cell == cell]
        boots = self._relay_boots(cell) if of_cell else set[str]()
        return [
            descriptor for descriptor in of_cell if boots and descriptor.relay_boot not in boots
        ]

    def _relay_boots(self, cell: str) -> set[str]:
        return {block.boot for block in self if block.members and block.cell == cell}

    def addresses(self, ec2_id: str) -> Collection[str]:
        """Return the addresses of an EC2 instance: several if publishers disagree."""
        known = self._ec2_ids.get(ec2_id)
        return known or () if not isinstance(known, str) else (known,)

    def _identify(self, ec2_id: str, path: str, more: int) -> None:
        """Count an added (1) or removed (-1) address of an EC2 instance."""
        known = self._ec2_ids.pop(ec2_id, None)
        if known is None:
            self._ec2_ids[ec2_id] = path
            return
        uses = Counter({known: 1}) if isinstance(known, str) else known
        uses[path] += more
        if not uses[path]:
            del uses[path]
        if uses:
            self._ec2_ids[ec2_id] = uses
        self.contested.pop(ec2_id, None)
        if len(uses) > 1:
            self.contested[ec2_id] = uses

    def covering(self, instance: str) -> CompactDescriptor | None:
        """Return the descriptor covering an instance; None if there is none."""
        cluster, _, rest = instance.partition("/")
        ultraserver = f"{cluster}/{rest.partition('/')[0]}"
        compact = self._by_path.get(instance) or self._by_path.get(ultraserver)
        if compact is None or compact.members or instance not in compact.instances:
            # Blocks are not part of an address, and are few.
            blocks = (descriptor for descriptor in self._by_path.values() if not descriptor.members)
            compact = next((block for block in blocks if instance in block.instances), None)
        return compact

    def whole(self, instance: str) -> tuple[Descriptor, InstanceSpec] | None:
        """Return the full descriptor covering an instance, and the instance's part of it.

        None if there is none.
        """
        compact = self.covering(instance)
        if compact is None:
            return None
        descriptor = compact.whole()
        return descriptor, descriptor.instances[compact.instances.index(instance)]


def _add(counts: dict[K, int], key: K, more: int) -> None:
    """Add to a count, move it to the end, and drop it at 0."""
    left = counts.pop(key, 0) + more
    if left > 0:
        counts[key] = left


def _is_below(instance: str, path: str) -> bool:
    """Return whether a path is one above an instance's, or a block of its cluster."""
    cluster, _, block = path.partition("/")
    return instance.startswith(f"{cluster}/" if block.startswith("block-") else f"{path}/")


def _clock_of(descriptor: Descriptor | RollupDescriptor) -> ClockKey:
    return _clock(
        descriptor.publisher,
        descriptor.clock.epoch,
        descriptor.clock.speed,
        is_simulated=descriptor.origin == "simulated" or descriptor.replay,
        is_replay=descriptor.replay,
    )


@functools.lru_cache(maxsize=1_024)
def _clock(
    publisher: str, epoch: str, speed: float, *, is_simulated: bool, is_replay: bool
) -> ClockKey:
    """Return a clock's key; the descriptors of a publisher share one."""
    return ClockKey(publisher, parse_rfc3339(epoch), speed, is_simulated, is_replay)
