"""Invented chip generations: the data of a new one, and false assumptions of consumers.

They are in the catalogue within `made_up()`. None has 16 chips an instance, 8 NeuronCores a chip or
four instances an UltraServer. One is a torus of another shape, one has switches, one is a line and
one a ring of many chips.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

from trnfleet.config import validate
from trnfleet.domain.fleet import FleetFile, expand
from trnfleet.domain.hardware.catalogue import (
    GIGA,
    INSTANCE_TYPES,
    TRAINIUM2,
    TRN2_48XLARGE,
    ULTRASERVER_TYPES,
    ChipType,
    InstanceType,
    UltraServerType,
    check_widths,
)
from trnfleet.domain.hardware.topology import Topology, line, ring, switched, torus
from trnfleet.domain.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager


@contextlib.contextmanager
def registered(*types: InstanceType | UltraServerType) -> Iterator[None]:
    """Add types to the catalogue for as long as the context lasts.

    Raises:
        ConfigError: a type does not fit the metric table.
    """
    instances = {kind.name: kind for kind in types if isinstance(kind, InstanceType)}
    ultraservers = {kind.name: kind for kind in types if isinstance(kind, UltraServerType)}
    for kind in instances.values():
        check_widths(kind)
    with patch.dict(INSTANCE_TYPES, instances), patch.dict(ULTRASERVER_TYPES, ultraservers):
        yield


def _chip(name: str, cores: int) -> ChipType:
    between = dataclasses.replace(TRAINIUM2.link_bytes_per_s, value=32 * GIGA)
    return dataclasses.replace(
        TRAINIUM2,
        name=name,
        title=name.title(),
        neuroncores=cores,
        z_link_bytes_per_s=between,
        device_types=(name,),
        claims=(),
    )


def _instance(
    name: str, chip: ChipType, topology: Topology, between: Topology | None = None
) -> InstanceType:
    return dataclasses.replace(
        TRN2_48XLARGE, name=name, chip=chip, topology=topology, between=between, aliases=()
    )


class Generation(NamedTuple):
    """One made-up generation."""

    alone: InstanceType
    """Its standalone instance type."""
    ultraserver: UltraServerType | None
    lane: str
    """A link lane within an instance."""
    between: str
    """A link lane between instances; empty without an UltraServer."""
    links: int
    """Links of a standalone instance."""

    @property
    def types(self) -> tuple[InstanceType | UltraServerType, ...]:
        if self.ultraserver is None:
            return (self.alone,)
        return (self.alone, self.ultraserver.instance, self.ultraserver)

    @property
    def member(self) -> InstanceType:
        """The type of its first cluster's instances: an UltraServer's, or the standalone one."""
        return self.alone if self.ultraserver is None else self.ultraserver.instance

    @property
    def groups(self) -> list[str]:
        """Addresses for jobs: two UltraServers, or as many standalone instances."""
        return (
            [f"uc1/us-000{number}" for number in (1, 2)] if self.ultraserver else self.instances[:2]
        )

    @property
    def instances(self) -> list[str]:
        """Addresses of all instances."""
        return list(self.layout.instances)

    @property
    def layout(self) -> Layout:
        return Layout.of(self.pairs)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Addresses of all instances with their types."""
        return expand(self.fleet())

    def file(self, **rest: Any) -> dict[str, Any]:
        """Return a fleet file of three standalone instances, and two UltraServers if possible."""
        cluster: dict[str, Any] = {
            "name": "uc1",
            "instances": [{"type": self.alone.name, "count": 3}],
        }
        if self.ultraserver is not None:
            cluster["ultraservers"] = [{"type": self.ultraserver.name, "count": 2}]
        return {"name": "made-up", "clusters": [cluster], **rest}

    def fleet(self, **rest: Any) -> FleetFile:
        return validate(self.file(**rest), FleetFile, "fleet.toml")

    def jobs(self) -> list[dict[str, Any]]:
        """Return a training job with derived traffic, and a serving job.

        The latter has a replica an instance.
        """
        first, second = self.groups
        model = {"parameters": 8e9, "tokens_per_step": 2e6}
        if self.ultraserver is None:
            # Two links a chip carry less than a torus's four.
            model |= {"tensor_parallel": 2, "mfu": 0.1, "sequence_length": 1_024}
        return [
            {"kind": "training", "name": "train", "on": [first], **model},
            {"kind": "inference", "name": "serve", "on": [second], "model_bytes": 16e9},
        ]

    def chip(self, number: int = 1) -> str:
        """Return the address of a chip of the first instance that a job runs on."""
        instance = next(path for path in self.instances if path.startswith(self.groups[0]))
        return f"{instance}/chip{number:02d}"


_NINE, _FOUR = _chip("trainium7", 4), _chip("trainium8", 4)
_TORUS_MEMBER = _instance("trn7u.9xlarge", _NINE, torus(3, 3), ring(3, ("z_prev", "z_next"), "z"))
_SWITCHED_MEMBER = _instance(
    "trn8u.4xlarge", _FOUR, switched(4, ("port0", "port1", "port2")), switched(5, ("uplink",), "z")
)
GENERATIONS = {
    "torus": Generation(
        _instance("trn7.9xlarge", _NINE, torus(3, 3)),
        UltraServerType("u-trn7x27", _TORUS_MEMBER, ("front", "back")),
        "east",
        "z_next",
        18,
    ),
    "switched": Generation(
        _instance("trn8.4xlarge", _FOUR, switched(4, ("port0", "port1", "port2"))),
        UltraServerType("u-trn8x20", _SWITCHED_MEMBER, ("left", "middle", "right")),
        "port1",
        "uplink",
        12,
    ),
    "line": Generation(
        _instance("inf8.6xlarge", _chip("inferentia8", 2), line(6)), None, "next", "", 5
    ),
    "ring": Generation(
        _instance("inf9.24xlarge", _chip("inferentia9", 2), ring(24)), None, "next", "", 24
    ),
}


def made_up() -> AbstractContextManager[None]:
    """Add all generations to the catalogue for a while."""
    return registered(*(kind for generation in GENERATIONS.values() for kind in generation.types))
