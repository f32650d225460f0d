"""Descriptors of publishers: their instances, and the columns of their frames.

A large fleet has tens of thousands of instances, so what every tick needs is kept small and the rest (EC2 ids, versions)
stays encoded until it is read.
"""

from __future__ import annotations

import functools
import re
import sys
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.clock import parse_rfc3339
from trnfleet.domain.hardware.catalogue import INSTANCE_TYPES
from trnfleet.errors import WireError
from trnfleet.monitor.copies import copied
from trnfleet.monitor.sources.clocks import ClockKey
from trnfleet.wire.limits import DEFAULT_LIMITS, Limits
from trnfleet.wire.messages import (
    STANDARD_COLUMNS,
    ColumnSpec,
    Descriptor,
    InstanceSpec,
    decode_message,
    encode_message,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnfleet.monitor.slices import Slices

SLICE = 8
"""Descriptors that are searched in one slice."""

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

    @staticmethod
    def of(payload: bytes, limits: Limits = DEFAULT_LIMITS) -> CompactDescriptor:
        """Decode and shorten a descriptor.

        Raises:
            WireError: it is not one, or names an instance type that the hardware catalogue does not have.
        """
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
        return CompactDescriptor(
            descriptor.path,
            descriptor.publisher,
            descriptor.boot,
            descriptor.revision,
            descriptor.period_s,
            tuple(instance.path for instance in descriptor.instances),
            tuple(sys.intern(instance.type) for instance in descriptor.instances),
            # Almost every publisher has the same columns: one copy serves all.
            STANDARD_COLUMNS if columns == STANDARD_COLUMNS else columns,
            tuple(sorted(descriptor.lanes.items())),
            encode_message(descriptor.model_copy(update={"columns": ()})),
            _clock(
                descriptor.publisher,
                descriptor.clock.epoch,
                descriptor.clock.speed,
                is_simulated=descriptor.origin == "simulated" or descriptor.replay,
            ),
            hash(payload),
        )

    def same_hardware(self, other: CompactDescriptor | None) -> bool:
        """Return whether another descriptor covers the same instances with the same links in the same order."""
        return other is not None and (
            (self.instances, self.types, self.lanes) == (other.instances, other.types, other.lanes)
        )


class Descriptors:
    """The descriptors of a fleet by path."""

    def __init__(self) -> None:
        self._by_path: dict[str, CompactDescriptor] = {}
        self.instances = 0
        """Instances in all of them."""
        self.size_bytes = 0
        """Bytes of all of them as they came."""
        self.changes = 0
        """Goes up with every descriptor that comes or goes."""

    def __len__(self) -> int:
        return len(self._by_path)

    def __iter__(self) -> Iterator[CompactDescriptor]:
        return iter(self._by_path.values())

    def get(self, path: str) -> CompactDescriptor | None:
        """Return the descriptor of a path, in short."""
        return self._by_path.get(path)

    def put(self, descriptor: CompactDescriptor) -> None:
        """Keep a descriptor in the place of the one that its path had."""
        self.remove(descriptor.path)
        self._by_path[descriptor.path] = descriptor
        self.instances += len(descriptor.instances)
        self.size_bytes += len(descriptor.rest)
        self.changes += 1

    def remove(self, path: str) -> bool:
        """Remove a path's descriptor; return whether there was one."""
        gone = self._by_path.pop(path, None)
        if gone is not None:
            self.instances -= len(gone.instances)
            self.size_bytes -= len(gone.rest)
            self.changes += 1
        return gone is not None

    def copy(self) -> Descriptors:
        """Return a copy; descriptors themselves never change."""
        return copied(
            self,
            _by_path=self._by_path.copy(),
        )

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

    def whole(self, instance: str) -> tuple[Descriptor, InstanceSpec] | None:
        """Return the full descriptor that covers an instance, and the instance's part of it; None if there is none."""
        cluster, _, rest = instance.partition("/")
        ultraserver = f"{cluster}/{rest.partition('/')[0]}"
        compact = self._by_path.get(instance) or self._by_path.get(ultraserver)
        if compact is None or instance not in compact.instances:
            # Blocks are not part of an address, and are few.
            compact = next((each for each in self._by_path.values() if instance in each.instances), None)
        if compact is None:
            return None
        descriptor = _decode(compact.rest).model_copy(update={"columns": compact.columns})
        return descriptor, descriptor.instances[compact.instances.index(instance)]


def _is_below(instance: str, path: str) -> bool:
    """Return whether a descriptor's path may describe an instance: its own, one above it, or a block of its cluster."""
    cluster, _, block = path.partition("/")
    return instance == path or instance.startswith(
        f"{cluster}/" if block.startswith("block-") else f"{path}/"
    )


@functools.lru_cache(maxsize=1_024)
def _clock(publisher: str, epoch: str, speed: float, *, is_simulated: bool) -> ClockKey:
    """Return a clock's key; the descriptors of a publisher share one."""
    return ClockKey(publisher, parse_rfc3339(epoch), speed, is_simulated)


@functools.lru_cache(maxsize=64)
def _decode(payload: bytes) -> Descriptor:
    return decode_message(payload, Descriptor)
