"""Descriptors of publishers: their instances, and the columns of their frames.

A large fleet has tens of thousands of instances, so what every tick needs is kept small and the rest (EC2 ids, versions)
stays encoded until it is read.
"""

from __future__ import annotations

import functools
import operator
import re
import sys
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from trnfleet.clock import parse_rfc3339
from trnfleet.domain.hardware.catalogue import INSTANCE_TYPES
from trnfleet.errors import WireError
from trnfleet.monitor.copies import copied
from trnfleet.monitor.room import Room, compact, held_bytes
from trnfleet.monitor.sources.clocks import ClockKey
from trnfleet.monitor.sources.descriptor_forms import DescriptorForms, NamesOf
from trnfleet.monitor.sources.descriptor_parts import ChangedDescriptors, ColumnSets, LaneSets
from trnfleet.wire.limits import DEFAULT_LIMITS, Limits
from trnfleet.wire.messages import (
    STANDARD_COLUMNS,
    ColumnSpec,
    Descriptor,
    InstanceSpec,
    decode_message,
    encode_message,
)
from trnfleet.wire.rollups import RollupDescriptor, RollupForm, is_rollup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnfleet.monitor.slices import Slices
    from trnfleet.wire.ports import Envelope

K = TypeVar("K")
SHELL_BYTES = 250
"""Bytes of a descriptor without its texts: the tuple, and its entry in the table by path."""
INSTANCE_BYTES = 130
"""Bytes of an instance in tables of the layout: its entries by path and by row, and its type in the descriptor."""
SLICE = 8
"""Descriptors that are searched in one slice."""

_STANDARD_FIELDS = tuple(map(vars, STANDARD_COLUMNS))
_EC2_ID = re.compile(rb'"ec2_id":"([^"\\]*)"')


class CompactDescriptor(NamedTuple):
    """A descriptor, in short."""

    path: str
    publisher: str
    boot: str
    """The publisher's boot that it describes; it does not describe telemetry of another one."""
    revision: int
    period_s: float
    instances: tuple[str, ...]
    """Paths, in the order of the frames' rows."""
    types: tuple[str, ...]
    """Instance type of each."""
    columns: tuple[ColumnSpec, ...]
    lanes: tuple[tuple[str, tuple[str, ...]], ...]
    """Names of link lanes by instance type, where they are not those of schema version 1."""
    rest: bytes
    """The descriptor without its columns and without fields that are not known here."""
    clock: ClockKey
    mark: int
    """Hash of the bytes that came, by which a repetition is recognised."""
    size_bytes: int = 0
    """Memory that it takes without its columns, with what the layout keeps of its instances."""
    members: tuple[int, ...] = ()
    """Of a block of roll-ups, how many instances each row stands for; empty for a descriptor of telemetry."""
    rollup: RollupForm | None = None
    """The form of its frames, of a block of roll-ups."""
    cell: str = ""
    """The cell of a block of roll-ups, or from which a host's descriptor was forwarded under a lease."""
    relay_boot: str = ""
    """The boot of the relay that forwarded it; empty for what its publisher sends to this broker."""
    links: int = 0
    """A bit for each connection over which it has come, of a fleet that has several; 0 where it has one."""

    @staticmethod
    def of(payload: bytes, limits: Limits = DEFAULT_LIMITS) -> CompactDescriptor:
        """Decode and shorten a descriptor.

        Raises:
            WireError: it is not one, or names an instance type that the hardware catalogue does not have.
        """
        found = _FORMS.find(payload) if len(payload) <= limits.payload_bytes else None
        if found is not None:
            return _of_form(payload, *found)
        if is_rollup(payload):
            return _of_rollups(payload, limits)
        descriptor = decode_message(payload, Descriptor, limits)
        for instance in descriptor.instances:
            if instance.type not in INSTANCE_TYPES:
                raise WireError(f"unknown instance type {instance.type!r}")
            if not _is_below(instance.path, descriptor.path):
                raise WireError("describes an instance that is not below its path")
        for name, lanes in descriptor.lanes.items():
            if name in INSTANCE_TYPES and len(lanes) < len(INSTANCE_TYPES[name].lanes):
                raise WireError(
                    f"names {len(lanes)} link lanes of a {name}, which has {len(INSTANCE_TYPES[name].lanes)}"
                )
        columns = descriptor.columns
        compact_descriptor = CompactDescriptor(
            descriptor.path,
            sys.intern(descriptor.publisher),
            sys.intern(descriptor.boot),
            descriptor.revision,
            descriptor.period_s,
            tuple(instance.path for instance in descriptor.instances),
            tuple(sys.intern(instance.type) for instance in descriptor.instances),
            # Almost every publisher has the same columns: one copy serves all.
            STANDARD_COLUMNS if _is_standard(columns) else compact(descriptor).columns,
            tuple(sorted(descriptor.lanes.items())),
            encode_message(descriptor.model_copy(update={"columns": ()})),
            _clock_of(descriptor),
            hash(payload),
            cell="" if descriptor.forwarded is None else sys.intern(descriptor.forwarded.cell),
            relay_boot=""
            if descriptor.forwarded is None
            else sys.intern(descriptor.forwarded.boot),
        )
        # Types, clock, publisher and boot are objects that many share.
        own = (
            descriptor.path,
            compact_descriptor.instances,
            compact_descriptor.lanes,
            compact_descriptor.rest,
        )
        size_bytes = held_bytes(own) + SHELL_BYTES + INSTANCE_BYTES * len(descriptor.instances)
        kept = compact_descriptor._replace(size_bytes=size_bytes)
        _FORMS.learn(payload, descriptor, kept)
        return kept

    def whole(self) -> Descriptor:
        """Return the full descriptor, of telemetry."""
        return _decode(self.rest).model_copy(update={"columns": self.columns})

    @property
    def cause(self) -> str:
        """Who has a new layout made by it: its publisher, or of what comes and goes with leases each path by itself."""
        return self.path if self.relay_boot else self.publisher

    def same_hardware(self, other: CompactDescriptor | None) -> bool:
        """Return whether another descriptor covers the same instances with the same links in the same order, roll-ups with the same columns."""
        return other is not None and (
            (self.instances, self.types, self.lanes, self.members, self.cell)
            == (other.instances, other.types, other.lanes, other.members, other.cell)
            and self.rollup_columns == other.rollup_columns
        )

    @property
    def rollup_columns(self) -> tuple[str, ...]:
        """Metrics of the frames of a relay's block; none for telemetry."""
        return () if self.rollup is None else (*self.rollup.totals, *self.rollup.counters)


_FORMS: DescriptorForms[CompactDescriptor] = DescriptorForms()
"""Those of all monitors: what a form reads does not depend on who reads it."""


def _of_form(payload: bytes, names: NamesOf, like: CompactDescriptor) -> CompactDescriptor:
    """Return the descriptor with some names that is otherwise like another one."""
    path, publisher, boot, revision, epoch_ns, rest = names
    publisher = sys.intern(publisher)
    return CompactDescriptor(
        path,
        publisher,
        sys.intern(boot),
        revision,
        like.period_s,
        (path,),
        like.types,
        like.columns,
        like.lanes,
        rest,
        ClockKey(
            publisher, epoch_ns, like.clock.speed, like.clock.is_simulated, like.clock.is_replay
        ),
        hash(payload),
        # The path is there twice; both are of a byte a character.
        like.size_bytes + 2 * (len(path) - len(like.path)) + len(rest) - len(like.rest),
        cell=like.cell,
        relay_boot=like.relay_boot,
    )


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
        held_bytes((descriptor.path, paths)) + SHELL_BYTES + INSTANCE_BYTES * len(paths),
        members=tuple(row.instances for row in descriptor.rows),
        rollup=form,
        cell=sys.intern(descriptor.cell),
    )


class Descriptors:
    """The descriptors of a fleet by path, and the room that they take of its limits, by publisher."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._by_path: dict[str, CompactDescriptor] = {}
        self._instances = Room(limits.fleet_instances)
        self._bytes = Room(limits.descriptors_bytes)
        self.column_sets = ColumnSets()
        self.lane_sets = LaneSets()
        self.paths_of: dict[str, int] = {}
        """How many of them each publisher has."""
        self.changed: ChangedDescriptors[CompactDescriptor] = ChangedDescriptors()
        """What the layout does not show yet."""
        self.instances_of: dict[ClockKey, int] = {}
        """Instances that go by each clock."""
        self._forwarded: set[str] = set()
        """Paths of those that a relay has forwarded."""
        self.changes = 0
        """Goes up with every descriptor that comes or goes."""

    @property
    def instances(self) -> int:
        """Instances in all of them."""
        return self._instances.used

    @property
    def size_bytes(self) -> int:
        """Memory that all of them take, with their columns."""
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
        """Return whether a message brings a descriptor as it is known, over a connection that is known.

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
        owner, known = descriptor.publisher, self._by_path.get(descriptor.path)
        instances, size_bytes = len(descriptor.instances), descriptor.size_bytes
        size_bytes += self.column_sets.new_bytes(descriptor.columns)
        if known is not None and known.publisher == owner:
            instances, size_bytes = instances - len(known.instances), size_bytes - known.size_bytes
        return self._instances.refusal(owner, instances, "instances") or self._bytes.refusal(
            owner, size_bytes, "bytes of descriptors"
        )

    def put(self, descriptor: CompactDescriptor) -> CompactDescriptor:
        """Keep a descriptor in the place of the one that its path had; return it as it is kept."""
        columns = self.column_sets.share(descriptor.columns, descriptor.publisher, self._bytes)
        if not self.remove(descriptor.path):
            self.changed.note(descriptor.path, None)
        kept = descriptor if columns is descriptor.columns else descriptor._replace(columns=columns)
        self._by_path[descriptor.path] = kept
        self._instances.change(kept.publisher, len(kept.instances))
        self._count(kept, 1)
        if kept.relay_boot:
            self._forwarded.add(kept.path)
        self._bytes.change(kept.publisher, kept.size_bytes)
        self.changes += 1
        return kept

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
        """Count a descriptor that comes (1) or goes (-1)."""
        self.lane_sets.count(descriptor.lanes, more)
        _add(self.instances_of, descriptor.clock, more * len(descriptor.instances))
        _add(self.paths_of, descriptor.publisher, more)

    def copy(self) -> Descriptors:
        """Return a copy; descriptors themselves never change."""
        return copied(
            self,
            _by_path=self._by_path.copy(),
            instances_of=self.instances_of.copy(),
            _forwarded=self._forwarded.copy(),
            _instances=self._instances.copy(),
            _bytes=self._bytes.copy(),
            column_sets=self.column_sets.copy(),
            lane_sets=self.lane_sets.copy(),
            paths_of=self.paths_of.copy(),
            changed=self.changed.copy(),
        )

    def is_void(self, descriptor: CompactDescriptor) -> bool:
        """Return whether a descriptor was forwarded by a relay in whose place another has come: nobody forwards its telemetry now."""
        if not descriptor.relay_boot:
            return False
        boots = self._relay_boots(descriptor.cell)
        return bool(boots) and descriptor.relay_boot not in boots

    def void(self, cell: str) -> list[CompactDescriptor]:
        """Return the descriptors of a cell that are void."""
        forwarded = [self._by_path[path] for path in self._forwarded]
        of_cell = [each for each in forwarded if each.cell == cell]
        boots = self._relay_boots(cell) if of_cell else set[str]()
        return [each for each in of_cell if boots and each.relay_boot not in boots]

    def _relay_boots(self, cell: str) -> set[str]:
        return {each.boot for each in self if each.members and each.cell == cell}

    def search_ec2(self, wanted: set[str], found: dict[str, str]) -> Slices[None]:
        """Fill in the addresses of instances by their EC2 ids, in slices.

        All descriptors are searched, so that it is for when reservations change and not for every tick.

        Args:
            wanted: EC2 ids.
            found: Receives the addresses.
        """
        for number, descriptor in enumerate(list(self._by_path.values())):
            if len(found) == len(wanted):
                return
            if number % SLICE == SLICE - 1:
                yield
            ec2_ids = {each.decode(errors="replace") for each in _EC2_ID.findall(descriptor.rest)}
            if ec2_ids.isdisjoint(wanted):
                continue
            for instance in decode_message(descriptor.rest, Descriptor).instances:
                if instance.ec2_id in wanted:
                    found[instance.ec2_id] = instance.path

    def covering(self, instance: str) -> CompactDescriptor | None:
        """Return the descriptor that covers an instance; None if there is none."""
        cluster, _, rest = instance.partition("/")
        ultraserver = f"{cluster}/{rest.partition('/')[0]}"
        compact = self._by_path.get(instance) or self._by_path.get(ultraserver)
        if compact is None or compact.members or instance not in compact.instances:
            # Blocks are not part of an address, and are few.
            blocks = (each for each in self._by_path.values() if not each.members)
            compact = next((each for each in blocks if instance in each.instances), None)
        return compact

    def whole(self, instance: str) -> tuple[Descriptor, InstanceSpec] | None:
        """Return the full descriptor that covers an instance, and the instance's part of it; None if there is none."""
        compact = self.covering(instance)
        if compact is None:
            return None
        descriptor = compact.whole()
        return descriptor, descriptor.instances[compact.instances.index(instance)]


def _add(counts: dict[K, int], key: K, more: int) -> None:
    """Add to a count, which goes to the end and is forgotten at 0."""
    left = counts.pop(key, 0) + more
    if left > 0:
        counts[key] = left


def _is_standard(columns: tuple[ColumnSpec, ...]) -> bool:
    """Return whether columns are the standard ones: by their fields, which takes a tenth of the time of comparing models."""
    return len(columns) == len(_STANDARD_FIELDS) and all(
        map(operator.eq, map(vars, columns), _STANDARD_FIELDS)
    )


def _is_below(instance: str, path: str) -> bool:
    """Return whether a descriptor's path may describe an instance: its own, one above it, or a block of its cluster."""
    cluster, _, block = path.partition("/")
    return instance == path or instance.startswith(
        f"{cluster}/" if block.startswith("block-") else f"{path}/"
    )


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


@functools.lru_cache(maxsize=64)
def _decode(payload: bytes) -> Descriptor:
    return decode_message(payload, Descriptor)
