"""Failures of the monitor's own work, counted and logged by stage.

Everything else goes on.

Bad input is rejected on arrival. A failure here is a bug or an undetected bad value: it must not
end the monitor, nor stay unseen.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from trnfleet import logs
from trnfleet.monitor.slices import LayoutChanged, Slices
from trnfleet.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnfleet.monitor.pipeline.counts import PipelineCounts

log = logs.get_logger(__name__)

LOGGED_EACH = 100
"""After the first failure of a kind, one in this number is logged."""


def fail(counts: PipelineCounts, stage: str, error: Exception, subject: str = "") -> None:
    """Count a failure, and log the first of its kind with its traceback.

    Args:
        counts: The counters.
        stage: Name of the failed work, such as `findings`.
        error: The exception.
        subject: Name of the one object left out; empty for the whole stage.
    """
    counts.internal_errors += 1
    kind = f"{stage}: {type(error).__name__} at {_place(error)}"
    subject = plain(subject)
    counts.last_problem = f"internal error in {kind}" + (f", {subject}" if subject else "")
    number = counts.failed_kinds[kind] = counts.failed_kinds.get(kind, 0) + 1
    if number == 1:
        log.error("stage_failed", stage=stage, subject=subject, kind=kind, exc_info=error)
    elif number % LOGGED_EACH == 0:
        log.error("stage_failed", stage=stage, subject=subject, kind=kind, count=number)


@contextlib.contextmanager
def guard(counts: PipelineCounts, stage: str) -> Iterator[None]:
    """Run a stage in one go.

    If it fails, later stages use its unfinished result.
    """
    try:
        yield
    except Exception as error:  # noqa: BLE001  a bug may raise anything
        fail(counts, stage, error)


def guarded(counts: PipelineCounts | None, stage: str, work: Iterator[None]) -> Slices[None]:
    """Run a stage in slices.

    If it fails, later stages use its unfinished result.

    Without counts it raises.

    Raises:
        LayoutChanged: it is no failure, and ends the stage of the pass that this is a part of.
    """
    try:
        yield from work
    except LayoutChanged:
        raise
    except Exception as error:
        if counts is None:
            raise
        fail(counts, stage, error)


def _place(error: Exception) -> str:
    """Return module and line that raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "no place"
    return f"{trace.tb_frame.f_globals.get('__name__', '?')}:{trace.tb_lineno}"
