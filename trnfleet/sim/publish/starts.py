"""Which start of its publisher each unit's telemetry belongs to, and how often its description has changed.

The agent of an instance that boots again is another one: it has a boot id of its own and counts from 0. A replaced
instance has another EC2 id, and so has the unit that speaks for it another revision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trnfleet.sim.publish.state import boot_after
from trnfleet.wire.telemetry import Head

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.sim.engine import Engine
    from trnfleet.sim.publish.partition import Unit


class Starts:
    """Follows an engine's instances as they boot and are replaced."""

    def __init__(self, engine: Engine, boot: str, units: Sequence[Unit]) -> None:
        self._engine = engine
        self._units = units
        self._run = boot
        self.boot = [boot] * len(units)
        """Boot id of each unit's telemetry."""
        self.revision = [0] * len(units)
        """Revision of each unit's descriptor."""
        self._first_seq = [0] * len(units)
        self._first_instance = np.array([unit.instances.start for unit in units], np.int64)
        self._generation = engine.incidents.generation.copy()
        self._boots = engine.incidents.boots.copy()

    def head(self, number: int, seq: int, ts_ns: int) -> Head:
        """Return the head of a unit's telemetry in the run's tick `seq`."""
        return Head(self.boot[number], seq - self._first_seq[number], ts_ns)

    def renew(self, seq: int) -> list[int]:
        """Take note of instances that have come back since the last call; tick `seq` is their first.

        Returns:
            The units whose descriptors are to be published again, with their new revisions.
        """
        incidents, own = self._engine.incidents, self._engine.own
        self._hold(own)
        changed = (self._generation != incidents.generation) | (self._boots != incidents.boots)
        back = np.flatnonzero((changed & ~self._engine.silent)[own.start : own.stop]) + own.start
        if not len(back):
            return []
        self._generation[back] = incidents.generation[back]
        self._boots[back] = incidents.boots[back]
        place = np.searchsorted(self._first_instance, back, side="right") - 1
        numbers: list[int] = np.unique(place).tolist()
        for number in numbers:
            unit = self._units[number]
            self.revision[number] += 1
            if unit.instances.stop - unit.instances.start == 1:
                boots = int(self._boots[unit.instances.start])
                self.boot[number] = boot_after(self._run, unit.path, boots)
                self._first_seq[number] = seq
        return numbers

    def _hold(self, own: range) -> None:
        """Let the count of units stand that say nothing in this tick: an agent numbers what it sends."""
        silent = np.flatnonzero(self._engine.silent[own.start : own.stop]) + own.start
        if not len(silent):
            return
        place = np.searchsorted(self._first_instance, silent, side="right") - 1
        for number in np.unique(place).tolist():
            if self._engine.silent[self._units[number].instances].all():
                self._first_seq[number] += 1

    def revise(self) -> None:
        """Count a change that concerns every unit, such as of the clock."""
        self.revision = [revision + 1 for revision in self.revision]
