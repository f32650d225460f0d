"""Descriptors and jobs of an instance by path, cached until they change."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.monitor.store.jobs import CLAIMED
from trnfleet.text import plain

if TYPE_CHECKING:
    from trnfleet.domain.layout import Layout
    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.monitor.sources.descriptors import CompactDescriptor
    from trnfleet.wire.messages import Descriptor, InstanceSpec, JobMessage


class InstanceDescription(NamedTuple):
    """An instance as its publisher describes it."""

    descriptor: Descriptor
    spec: InstanceSpec


class Descriptions:
    """Descriptors by instance, and names of jobs by the store's numbers."""

    def __init__(self, monitor: FleetState) -> None:
        self._monitor = monitor
        self._layout: Layout | None = None
        self._known: dict[str, tuple[CompactDescriptor, InstanceDescription]] = {}

    def of(self, instance: str) -> InstanceDescription | None:
        """Return the description of the instance at a path."""
        layout = self._monitor.store.layout
        descriptors = self._monitor.ingest.descriptors
        if layout is not self._layout:
            self._layout = layout
            self._known.clear()
        known = self._known.get(instance)
        # Searching blocks takes a while; comparing the block with the one found last does not.
        if known is None or descriptors.get(known[0].path) is not known[0]:
            description = descriptors.whole(instance)
            short = descriptors.get(description[0].path) if description else None
            if description is None or short is None:
                return None
            known = self._known[instance] = (short, InstanceDescription(*description))
        return known[1]

    def lnc(self, chip: int) -> int | None:
        """Return the LNC of a chip by its job, else by its host; None if neither is known."""
        store = self._monitor.store
        if (lnc := self._monitor.ingest.job_table.lnc_of(chip, store)) is not None:
            return lnc
        described = self.of(store.layout.instances[int(store.layout.instance_of_chip[chip])])
        return described.spec.lnc if described else None

    def ec2_id(self, instance: str) -> str:
        """Return the EC2 instance id, fit for the screen; empty where no publisher says."""
        described = self.of(instance)
        return plain(described.spec.ec2_id, 24) if described and described.spec.ec2_id else ""

    def job_state(self, number: int) -> str:
        """Return the state of a job by the store's number.

        Safe for the screen; empty if unknown.
        """
        job = self.job(number)
        if job is None:
            return ""
        return plain(job.state, 32) + (", claimed" if job.kind == CLAIMED else "")

    def job(self, number: int) -> JobMessage | None:
        """Return the job with a number of the store's; None for none."""
        jobs = self._monitor.ingest.jobs
        return next(itertools.islice(jobs.values(), number, None), None) if number >= 0 else None

    def job_name(self, number: int) -> str:
        """Return the name of a job by the store's number.

        Safe for the screen; empty if unknown.
        """
        job = self.job(number)
        return self._monitor.ingest.names.job(job.job) if job else ""
