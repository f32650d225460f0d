"""Occupancy of a pool: instances of blocks at a time, and instances for sale."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trnfleet.domain.quantities import counted
from trnfleet.domain.reservations import rules
from trnfleet.domain.reservations.states import HOLDING, BlockState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from numpy.typing import NDArray

    from trnfleet.domain.reservations.blocks import Block
    from trnfleet.domain.reservations.pool import OfferingKind, Pool


class Occupancy:
    """Instances of a pool held by blocks, always up to date."""

    def __init__(self, pool: Pool, blocks: Mapping[str, Block]) -> None:
        """Read blocks from now on.

        Args:
            pool: The existing instances.
            blocks: By id, the live table of the ledger.
        """
        self.pool = pool
        self._blocks = blocks
        self._sellable: dict[tuple[str, str, bool], NDArray[np.int64]] = {}
        """Instances for sale by type, zone and whether they are in UltraServers."""

    def busy(
        self,
        start_ns: int,
        end_ns: int,
        but: str | None = None,
        states: AbstractSet[BlockState] = HOLDING,
    ) -> NDArray[np.bool_]:
        """Return the mask of instances in any block within [start, end); shape (instances,).

        Args:
            start_ns: Start of the time.
            end_ns: Its end.
            but: Id of a block to ignore.
            states: States of the blocks that count.
        """
        busy = np.zeros(len(self.pool), np.bool_)
        for block in self._holders(start_ns, end_ns, but, states):
            busy[list(block.places)] = True
        return busy

    def held(
        self,
        start_ns: int,
        end_ns: int,
        but: str | None = None,
        states: AbstractSet[BlockState] = HOLDING,
    ) -> int:
        """Return the most instances in blocks at one instant of [start, end).

        Arguments as for `busy`.
        """
        holders = list(self._holders(start_ns, end_ns, but, states))
        # It can only be at an instant at which a block begins.
        instants = {start_ns, *(max(block.start_ns, start_ns) for block in holders)}
        return max(
            sum(
                len(block.places)
                for block in holders
                if block.start_ns <= at_ns < block.held_until_ns
            )
            for at_ns in instants
        )

    def too_many(
        self,
        count: int,
        start_ns: int,
        end_ns: int,
        but: str | None = None,
        states: AbstractSet[BlockState] = HOLDING,
    ) -> str:
        """Return an explanation if further instances exceed the account's limit; else empty.

        Args:
            count: Additional instances.
            start_ns: Start of the time.
            end_ns: Its end.
            but: Id of a block to ignore.
            states: States of the blocks that count.
        """
        held = self.held(start_ns, end_ns, but, states)
        if held + count <= rules.MOST_INSTANCES:
            return ""
        return (
            f"{counted(count, 'more instance')} beside {held} would be more than"
            f" {rules.MOST_INSTANCES} at a time"
        )

    def choose(
        self, kind: OfferingKind, zone: str, start_ns: int, end_ns: int
    ) -> tuple[int, ...] | None:
        """Return the instances to sell; None if too few are free."""
        key = kind.instance_type, zone, kind.is_ultraserver
        rows = self._sellable.get(key)
        if rows is None:
            rows = self.pool.sellable(kind.instance_type, zone, ultraserver=kind.is_ultraserver)
            self._sellable[key] = rows
        busy = self.busy(start_ns, end_ns)
        if self.pool.on_demand is not None:
            busy = busy | self.pool.on_demand
        return self.pool.choose_from(rows, kind.instances, busy)

    def _holders(
        self, start_ns: int, end_ns: int, but: str | None, states: AbstractSet[BlockState]
    ) -> Iterator[Block]:
        """Yield the blocks of these states with instances within [start, end)."""
        for block in self._blocks.values():
            overlaps = block.start_ns < end_ns and start_ns < block.held_until_ns
            if overlaps and block.state in states and block.id != but:
                yield block
