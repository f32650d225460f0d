"""Folders of history, made by tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trnfleet.domain.minutes import MINUTE_COLUMNS, MinuteRows
from trnfleet.export.history.writing import HistoryWriter

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

FIRST = 1_767_571_200 // 60
"""Minute of 2026-01-05T00:00Z."""
HOSTS = tuple(f"uc1/us-{us:04d}/trn2u-{us:04d}-{place}" for us in (1, 2) for place in range(4))
CHIPS = 16 * len(HOSTS)


def chip_minute(
    minute: int, *, power_w: float = 100.0, covered_s: float = 60.0, jobs: bool = True
) -> MinuteRows:
    """Return a minute of two UltraServers.

    Half of the chips have a job.

    Chip N uses N watts more than the first.
    """
    instance = np.repeat(np.arange(len(HOSTS), dtype=np.int32), 16)
    figures = {
        each.name: np.zeros(CHIPS, np.uint64 if each.is_whole else np.float32)
        for each in MINUTE_COLUMNS
    }
    figures["power_w"] = (power_w + np.arange(CHIPS)).astype(np.float32)
    figures["power_w_max"] = (power_w + 5 + np.arange(CHIPS)).astype(np.float32)
    figures["nc_util_pct"][:] = 50.0
    figures["tflops"][:] = np.nan
    figures["exec_errors"][:] = np.iinfo(np.uint64).max
    figures["exec_errors_increase"][:] = np.iinfo(np.uint64).max
    figures["mem_ecc_corrected_increase"][:] = 1
    return MinuteRows(
        minute,
        HOSTS,
        instance,
        np.tile(np.arange(16, dtype=np.int16), len(HOSTS)),
        np.full(CHIPS, covered_s, np.float32),
        ("train",),
        np.where((instance < 4) & jobs, 0, -1).astype(np.int32),
        figures,
    )


def write_minutes(
    folder: Path,
    minutes: Iterable[int],
    *,
    writer: str = "host-a",
    covered_s: float = 60.0,
    cell: str = "main",
    cluster: str = "uc1",
    windows: Iterable[int] = (),
    fleet: str = "demo",
) -> None:
    """Write minutes of a fleet as a writer does, and some ten-minute windows."""
    history = HistoryWriter(folder, fleet, cell, writer)
    try:
        for minute in minutes:
            rows = chip_minute(minute, covered_s=covered_s)
            hosts = tuple(f"{cluster}{each.removeprefix('uc1')}" for each in rows.instances)
            history.write_chips([rows._replace(instances=hosts)])
        for window in windows:
            history.roll_up(window)
    finally:
        history.close()
