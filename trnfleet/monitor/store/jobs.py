"""Jobs as published, and the instances on which they run."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from trnfleet.monitor.store.retained import RetainedCollection
from trnfleet.wire.messages import JobMessage

if TYPE_CHECKING:
    from trnfleet.monitor.store.store import Store

PLACE_EVERY_S = 1.0
"""Least seconds between two placements of jobs on instances."""


class Jobs(RetainedCollection[JobMessage]):
    """The jobs of one fleet; rows of the store name a job by its place in `by_key`."""

    def __init__(self) -> None:
        super().__init__(operator.attrgetter("job"))
        self.placements = 0
        """Goes up whenever jobs are placed."""
        self.placed: tuple[str, ...] = ()
        """Names of the jobs by the numbers that the store has for them, as of the last placement."""
        self._places = 0
        """Addresses and ranges that all jobs name."""
        self._have_moved = False
        """Whether any has come, gone or moved since they were placed."""
        self._generation = 0
        """Of the layout on which they were placed."""
        self._placed_s = -PLACE_EVERY_S

    def places_with(self, message: JobMessage) -> int:
        """Return how many addresses and ranges all jobs would name if a message was put."""
        known = self.by_key.get(message.job)
        return self._places + len(message.on) - (0 if known is None else len(known.on))

    def put(self, message: JobMessage) -> None:
        """Replace the message of the same job."""
        known = self.by_key.get(message.job)
        self._places = self.places_with(message)
        if known is None or known.on != message.on:
            self._have_moved = True
        super().put(message)

    def remove(self, key: str) -> None:
        """Remove a job whose message was cleared."""
        known = self.by_key.get(key)
        if known is not None:
            self._places -= len(known.on)
            self._have_moved = True
        super().remove(key)

    def place(self, store: Store, now_s: float, *, at_once: bool) -> bool:
        """Write into the store which job has each instance, where that is due; return whether it was.

        Args:
            store: The rows; a new layout of it is due at once.
            now_s: Monotonic seconds.
            at_once: Whether what has changed is due even if jobs were placed a moment ago.
        """
        is_new = store.generation != self._generation
        is_time = at_once or now_s - self._placed_s >= PLACE_EVERY_S
        if not (is_new or (self._have_moved and is_time)):
            return False
        self._have_moved, self._generation, self._placed_s = False, store.generation, now_s
        store.job_of[:] = -1
        self.placed = tuple(self.by_key)
        # Where two jobs claim an instance, the one dated last has it: a former run's may still be retained.
        for number, job in sorted(enumerate(self.by_key.values()), key=lambda pair: pair[1].ts):
            for target in job.on:
                # A job may be known before the hardware it runs on; placement is done again with the layout.
                covered = store.layout.find_instances(target)
                if covered:
                    store.job_of[covered.start : covered.stop] = number
        store.revision += 1
        self.placements += 1
        return True
