"""Faults on a small fleet without an engine.

Two UltraServers, one training and one serving, and idle instances.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from trnfleet.config import validate
from trnfleet.domain.fleet import FleetFile, expand
from trnfleet.domain.layout import Layout
from trnfleet.domain.metrics import HEALTH_BITS, SIMULATED, Scope
from trnfleet.domain.scenario import Scenario
from trnfleet.sim.faults.timeline import IncidentTimeline
from trnfleet.sim.jobs.slowdown import Slowdowns
from trnfleet.sim.placement import Placement
from trnfleet.sim.rng import Rng

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.sim.events import SimEvent

TRAIN = "c/us-0001"
SERVE = "c/us-0002"
IDLE = "c/standalone"
TRAINING = 0
"""Number of the training job."""
SERVING = 1
CHIP = f"{TRAIN}/trn2u-0001-2/chip05"
INSTANCE = f"{TRAIN}/trn2u-0001-2"
SLOWDOWNS = ("compute", "link", "efa", "storage", "load", "halt", "replica", "replica_halt")


def entry(
    fault: str, target: str = CHIP, at: float = 10.0, lasts: float | str | None = None, **rest: Any
) -> dict[str, Any]:
    """Return a fault of a scenario."""
    return {
        "fault": fault,
        "target": target,
        "at": at,
        **({} if lasts is None else {"for": lasts}),
        **rest,
    }


def bits(*names: str) -> int:
    """Return the health bits of names."""
    return sum(1 << HEALTH_BITS.index(name) for name in names)


class SmallFleet:
    """A fleet, its incidents and their columns, advanced by hand."""

    def __init__(
        self,
        *faults: dict[str, Any],
        seed: int = 7,
        chips_per_replica: int = 16,
        cluster: str = "c",
        **rest: Any,
    ) -> None:
        self.fleet = validate(
            {
                "name": "f",
                "clusters": [
                    {
                        "name": cluster,
                        "ultraservers": [{"count": 2}],
                        "instances": [{"type": "trn2.48xlarge", "count": 2}],
                    }
                ],
                "jobs": [
                    {"kind": "training", "name": "train", "on": [f"{cluster}/us-0001"]},
                    {
                        "kind": "inference",
                        "name": "serve",
                        "on": [f"{cluster}/us-0002"],
                        "chips_per_replica": chips_per_replica,
                    },
                ],
            },
            FleetFile,
            "fleet.toml",
        )
        self.layout = Layout.of(expand(self.fleet))
        self.placement = Placement.resolve(self.layout, self.fleet)
        scenario = validate({"faults": list(faults), **rest}, Scenario, "scenario.toml")
        self.incidents = IncidentTimeline(
            self.layout, self.fleet, self.placement, Rng(seed), scenario
        )
        self.effects = self.incidents.effects
        self.columns: dict[str, NDArray[Any]] = {
            metric.name: np.zeros(
                self.layout.chips if metric.scope == Scope.CHIP else len(self.layout.instances),
                metric.dtype,
            )
            for metric in SIMULATED
            if not metric.is_vector
        }
        self.columns["links_up"][:] = self.links_up
        self.at_s = 0.0
        self.events: list[SimEvent] = []

    @property
    def links_up(self) -> NDArray[np.uint8]:
        """`links_up` of every chip of a healthy fleet."""
        return self.layout.links_mask[self.layout.instance_of_chip]

    def go(self, until_s: float, window_s: float | None = None) -> None:
        """Advance to `until_s` in windows.

        Changes cut a window, as in an engine.
        """
        while self.at_s < until_s:
            end_s = until_s if window_s is None else min(self.at_s + window_s, until_s)
            for at_s in (self.at_s, *self.incidents.boundaries(self.at_s, end_s)):
                self.incidents.move_to(at_s)
            self.columns["throttle_pct"][:] = 0
            self.effects.mark(self.columns)
            self.effects.count(self.columns, end_s)
            self.incidents.move_to(end_s)
            self.events += self.incidents.drain()
            self.at_s = end_s

    def inject(self, fault: str, target: str, **rest: Any) -> str:
        return self.incidents.inject(fault, target, self.at_s, **rest)

    def row(self, path: str) -> int:
        """Return the row of a chip, or the number of an instance."""
        node = self.layout.find(path)
        assert node is not None, path
        return node.number

    def names(self) -> list[str]:
        return [event.name for event in self.events]

    def is_well(self) -> bool:
        """Return whether no effect of any fault is left, apart from counters and generations."""
        incidents = self.incidents
        healthy = Slowdowns.healthy(2, self.placement.replicas)
        return (
            not incidents.active()
            and not incidents.effects.instances.silent.any()
            and not incidents.effects.instances.inlet_delta_c.any()
            and bool((incidents.effects.instances.cap_share == 1.0).all())
            and all(
                np.array_equal(getattr(incidents.effects.slowdowns, name), getattr(healthy, name))
                for name in SLOWDOWNS
            )
            and not len(incidents.effects.stragglers.rows)
            and not len(incidents.effects.cooling.rows)
            and not self.columns["health"].any()
            and not self.columns["throttle_pct"].any()
            and bool((self.columns["links_up"] == self.links_up).all())
        )
