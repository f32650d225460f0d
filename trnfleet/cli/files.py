"""Recordings read by a command.

Recovered or skipped parts are reported on stderr.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trnfleet.text import LONGEST_LINE, plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trnfleet.record.read.recording import Recording


@contextlib.contextmanager
def open_recording(
    files: Sequence[str],
    *,
    name: str | None = None,
    neuron_ls: str | None = None,
    sysfs: str | None = None,
    utilization: str | None = None,
) -> Iterator[Recording]:
    """Open recordings, or files of other programs, as one recording.

    Report recovered parts on stderr.

    Args:
        files: The files.
        name: Fleet of files that name none.
        neuron_ls: File of neuron-ls -j, for files of neuron-monitor.
        sysfs: Tree of the Neuron driver, for files of neuron-monitor.
        utilization: Unit of Neuron Observer's utilization, if it is known.

    Raises:
        ConfigError: a file is no recording; the message names it.
    """
    from trnfleet.services.files.conversion import open_recordings  # noqa: PLC0415  it loads NumPy
    from trnfleet.services.files.recordings import left_out_text  # noqa: PLC0415  as above

    def report(line: str) -> None:
        click.echo(plain(line, LONGEST_LINE), err=True)

    recording = open_recordings(
        [Path(file) for file in files],
        report,
        name=name,
        neuron_ls=None if neuron_ls is None else Path(neuron_ls),
        sysfs=None if sysfs is None else Path(sysfs),
        utilization=utilization,
    )
    try:
        for recovery in recording.recoveries:
            report(recovery.text())
        at_first = left_out_text(recording.damaged, recording.unread)
        if at_first:
            report(f"{plain(files[0], LONGEST_LINE)}: {at_first}")
        yield recording
        in_all = left_out_text(recording.damaged, recording.unread)
        if in_all != at_first:
            report(f"{plain(files[0], LONGEST_LINE)}: {in_all}")
    finally:
        recording.close()
