"""Members of reservations: instance rows of the present layout, by address or EC2 id.

Maps the places of messages to rows. Only changes are mapped again, in slices, because a large fleet
has tens of thousands of places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trnfleet.domain.layout import Layout
    from trnfleet.monitor.slices import Slices
    from trnfleet.monitor.sources.descriptors import Descriptors
    from trnfleet.wire.reservations import ReservationMessage

SLICE = 128
"""Places that are found in one slice."""


class ReservationMembers:
    """The instance rows of every reservation."""

    def __init__(self) -> None:
        self.generation = -1
        """Layout generation that `rows` belongs to."""
        self.rows: dict[str, tuple[range, ...]] = {}
        """By reservation: ascending and apart; none where nothing is known."""
        self._places: dict[str, tuple[str, ...]] = {}
        """Addresses and ranges of reservations that name such."""
        self._ec2_ids: dict[str, tuple[str, ...]] = {}
        """EC2 ids of reservations that name no addresses."""
        self._due: set[str] = set()
        """Reservations whose rows must be found again."""
        self._addresses: dict[str, str] = {}
        """Of instances, by EC2 id, as far as described."""
        self._searched: set[str] = set()
        """EC2 ids already searched, found or not."""
        self._described = -1
        """Change count of the descriptors searched."""

    def put(self, message: ReservationMessage) -> None:
        """Add or replace a reservation."""
        name = message.id
        places = message.on
        ec2_ids = () if message.on else message.ec2_ids
        if (self._places.get(name), self._ec2_ids.get(name)) != (places, ec2_ids):
            self._places[name], self._ec2_ids[name] = places, ec2_ids
            self._due.add(name)

    def remove(self, name: str) -> None:
        """Forget a reservation."""
        for table in (self.rows, self._places, self._ec2_ids):
            table.pop(name, None)
        self._due.discard(name)

    def find(self, layout: Layout, generation: int, descriptors: Descriptors) -> Slices[None]:
        """Bring `rows` up to date in slices; left half-way, the next call goes on.

        Args:
            layout: The present layout.
            generation: Its generation.
            descriptors: They have the EC2 ids of instances.
        """
        if generation != self.generation:
            self.generation = generation
            self._due = set(self._places)
        yield from self._find_addresses(descriptors)
        count = 0
        while self._due and self.generation == generation:
            name = next(iter(self._due))
            targets = self._places[name] or [
                self._addresses[ec2_id]
                for ec2_id in self._ec2_ids[name]
                if ec2_id in self._addresses
            ]
            covered = [layout.find_instances(target) for target in targets]
            self.rows[name] = _joined([run for run in covered if run])
            self._due.discard(name)
            count += len(targets)
            if count >= SLICE:
                count = 0
                yield

    def _find_addresses(self, descriptors: Descriptors) -> Slices[None]:
        """Search these descriptors for the remaining EC2 ids, and mark moved ones as due."""
        changes = descriptors.changes
        if changes == self._described and not any(self._ec2_ids.get(name) for name in self._due):
            return
        ec2_ids = {ec2_id for ids in self._ec2_ids.values() for ec2_id in ids}
        if changes == self._described and ec2_ids <= self._searched:
            return
        addresses: dict[str, str] = {}
        if ec2_ids:
            yield from descriptors.search_ec2(ec2_ids, addresses)
        before = self._addresses
        self._addresses = addresses
        self._searched = ec2_ids
        self._described = changes
        for name, ids in self._ec2_ids.items():
            if any(before.get(ec2_id) != addresses.get(ec2_id) for ec2_id in ids):
                self._due.add(name)


def _joined(runs: list[range]) -> tuple[range, ...]:
    """Return ranges ascending, with adjacent and overlapping ones merged."""
    joined: list[range] = []
    for run in sorted(runs, key=lambda span: span.start):
        if joined and run.start <= joined[-1].stop:
            joined[-1] = range(joined[-1].start, max(joined[-1].stop, run.stop))
        else:
            joined.append(run)
    return tuple(joined)
