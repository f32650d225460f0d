"""Minutes of jobs: the figures of their own messages, as means or last values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trnfleet.domain.metrics import JOB_FIGURES, LASTING_JOB_FIGURES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trnfleet.wire.messages import JobMessage


@dataclass(slots=True)
class _Job:
    kind: str = ""
    state: str = ""
    samples: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)


class JobMinutes:
    """The minutes that are open."""

    def __init__(self) -> None:
        self._open: dict[int, dict[str, _Job]] = {}

    def take(self, minute: int, jobs: Iterable[JobMessage]) -> None:
        """Add the jobs as they are now to a minute since 1970."""
        known = self._open.setdefault(minute, {})
        for message in jobs:
            job = known.setdefault(message.job, _Job())
            job.kind, job.state = message.kind, message.state
            job.samples += 1
            for name in JOB_FIGURES:
                value = getattr(message, name)
                if value is None:
                    continue
                if name in LASTING_JOB_FIGURES:
                    job.sums[name], job.counts[name] = value, 1
                else:
                    job.sums[name] = job.sums.get(name, 0.0) + value
                    job.counts[name] = job.counts.get(name, 0) + 1

    def close(self, until: int) -> dict[int, list[tuple[Any, ...]]]:
        """Return the rows of the minutes up to one, by minute, and forget them."""
        made: dict[int, list[tuple[Any, ...]]] = {}
        for minute in sorted(minute for minute in self._open if minute <= until):
            made[minute] = [
                (
                    minute * 60_000_000,
                    name,
                    job.kind,
                    job.state,
                    job.samples,
                    *(
                        job.sums[key] / job.counts[key] if key in job.sums else None
                        for key in JOB_FIGURES
                    ),
                )
                for name, job in self._open.pop(minute).items()
            ]
        return made
