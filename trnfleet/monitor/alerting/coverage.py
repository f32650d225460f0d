"""On how many instances each rule's figures can be known.

A rule whose figures no source announces does not apply: it is not quiet, it is blind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.monitor.store.announced import bits_of
from trnfleet.monitor.store.jobs import CLAIMED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.monitor.store.jobs import Jobs
    from trnfleet.monitor.store.store import Store


class Coverage(NamedTuple):
    """How much of a fleet a rule sees."""

    rule: str
    instances: int
    """Instances where all of its figures can be known."""
    total: int
    """All instances."""
    lacks: tuple[str, ...]
    """Metrics that some instances lack; `jobs` or `job messages` if none has any."""

    @property
    def applies(self) -> bool:
        """Whether it sees any instance."""
        return self.instances > 0


def blind_text(coverage: Iterable[Coverage]) -> str:
    """Return how many rules see no instance, in words; empty for none."""
    read = list(coverage)
    blind = sum(not rule.applies for rule in read)
    return f"{blind} of {len(read)} rules do not apply here" if blind else ""


def read_coverage(rules: Iterable[Rule], store: Store, jobs: Jobs) -> list[Coverage]:
    """Return the coverage of rules, in their order; empty without instances.

    Rules about reservations, publishers and the pipeline see every instance.
    """
    layout = store.layout
    if not len(layout.instances):
        return []
    chips = np.array([kind.chips for kind in layout.types])[layout.instance_type]
    # A row of a roll-up is several instances.
    weights = layout.sizes // chips
    has_job = store.job_of >= 0
    messages = [jobs.by_key.get(name) for name in jobs.placed]
    tells = [job is not None and job.kind != CLAIMED for job in messages]
    has_message = np.array([*tells, False])[store.job_of]
    read = []
    for rule in rules:
        needed = np.uint64(bits_of(rule.metrics))
        sees = (store.announced & needed) == needed
        lacks = [
            name
            for name in rule.metrics
            if not (store.announced & np.uint64(bits_of([name]))).all()
        ]
        if rule.needs_job_messages:
            sees &= has_message
            if not has_message.any():
                lacks.append("job messages")
        elif rule.needs_jobs:
            sees &= has_job
            if not has_job.any():
                lacks.append("jobs")
        read.append(Coverage(rule.name, int(weights[sees].sum()), int(weights.sum()), tuple(lacks)))
    return read
