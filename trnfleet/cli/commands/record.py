"""`trnfleet record`: record all messages from a broker into a file."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trnfleet.cli.options import broker_options, durable_option, log_options, setting
from trnfleet.cli.output import (
    PROGRESS_EVERY_S,
    exit_on_broken_pipe,
    report,
    report_progress,
    stderr_is_terminal,
    stdout_bytes,
)
from trnfleet.cli.params import TOPIC_FILTER, Duration, FileName, FleetName, OneOf, Size
from trnfleet.domain.quantities import duration as duration_text
from trnfleet.domain.quantities import size_text
from trnfleet.errors import TrnfleetError
from trnfleet.text import plain
from trnfleet.wire.topics import RETAINED, TopicClass, build_filter

if TYPE_CHECKING:
    from trnfleet.services.record import RecordProgress, RecordRequest
    from trnfleet.services.session import BrokerSession
    from trnfleet.transport.url import BrokerUrl

STDOUT = "-"
LEAST_SPLIT = 2**20
RECORDED = (
    *(topic_class for topic_class in TopicClass if topic_class in RETAINED),
    *(
        topic_class
        for topic_class in TopicClass
        if topic_class not in {*RETAINED, TopicClass.COMMAND, TopicClass.REPLY}
    ),
)
"""Classes to record, state first. Without commands and replies: a viewer may not read them."""


@click.command("record")
@click.argument("file", type=FileName(), metavar="FILE")
@broker_options(required=True)
@setting(
    "--filter",
    "filters",
    type=TOPIC_FILTER,
    multiple=True,
    metavar="TOPIC",
    help=(
        "Record only topics under this filter; repeatable. By default everything of the fleets"
        " except for commands and replies."
    ),
)
@setting("--name", type=FleetName(), cls=OneOf, noun="fleet", help="Record only this fleet.")
@setting("--duration", type=Duration(), help="Stop after this time; by default at ctrl+c.")
@setting("--split", type=Size(LEAST_SPLIT), help="Start a new file at this size, such as 1GiB.")
@setting("--split-every", type=Duration(), help="Start a new file after this time, such as 1h.")
@setting(
    "--keep", type=Duration(), help="With splits: delete files of this recording that are older."
)
@setting(
    "--format",
    "encoding",
    type=click.Choice(["mcap", "ndjson"]),
    default="mcap",
    help="ndjson writes lines like mosquitto_sub -F '%j'; FILE may then be -.",
)
@click.option("--overwrite", is_flag=True, help="Replace FILE if it exists.")
@durable_option
@log_options
def command(
    session: BrokerSession,
    file: str,
    filters: tuple[str, ...],
    name: str | None,
    duration: float | None,
    split: int | None,
    split_every: float | None,
    keep: float | None,
    encoding: str,
    overwrite: bool,
    durable: bool,
) -> None:
    """Record a broker's messages into FILE until ctrl+c or --duration.

    The file is always complete except for the last half second, even after a crash. With --durable it is complete after a power
    failure, too, except for the last 1.5 s. With --split or --split-every FILE night.mcap becomes night-0001.mcap, night-0002.mcap
    and so on; you can read each file alone.

    \b
    Examples:
      trnfleet record night.mcap --broker mqtt://127.0.0.1:1883
      trnfleet record night.mcap --broker mqtt://127.0.0.1:1883 --split 1GiB --keep 24h
      trnfleet record - --format ndjson --broker mqtt://127.0.0.1:1883 | grep '"event"'
    """
    is_ndjson = encoding == "ndjson"
    if is_ndjson and (split or split_every or keep):
        raise click.UsageError("--split, --split-every and --keep go with --format mcap")
    if keep and not (split or split_every):
        raise click.UsageError("--keep goes with --split or --split-every: whole files are deleted")
    if file == STDOUT and not is_ndjson:
        raise click.UsageError("FILE - goes with --format ndjson: a recording must be a file")
    if file == STDOUT and durable:
        raise click.UsageError("--durable goes with a FILE: stdout is not ours to wait for")
    if filters and name:
        raise click.UsageError(
            "--name and --filter do not go together: the filters say what is recorded"
        )
    from trnfleet.services.record import RecordingFailedError, RecordRequest, record

    request = RecordRequest(
        Path(file),
        filters
        or tuple(build_filter(name or "+", topic_class, session.root) for topic_class in RECORDED),
        duration_s=duration,
        split_bytes=split,
        split_s=split_every,
        keep_s=keep,
        is_ndjson=is_ndjson,
        overwrite=overwrite,
        durable=durable,
        stdout=stdout_bytes() if file == STDOUT else None,
    )
    what = f"{', '.join(filters)} of " if filters else f"fleet {name} of " if name else ""
    with exit_on_broken_pipe():
        try:
            total = asyncio.run(record(session, request, Reporter(session.url, what)))
        except RecordingFailedError as error:
            readable = "; it can be read" if error.is_readable else ""
            raise TrnfleetError(
                f"{file}: recording ended: {plain(str(error), 200)}; until then"
                f" {_summary(error.progress)}{readable}"
            ) from error
        report(f"recorded {_summary(total)}")


class Reporter:
    """Progress on stderr: one changing line on a terminal, a line every 10 s elsewhere."""

    def __init__(self, url: BrokerUrl, what: str) -> None:
        self._url = url
        self._what = what
        self._is_terminal = stderr_is_terminal()
        self._every_s = 0.0 if self._is_terminal else PROGRESS_EVERY_S
        self._last_s = 0.0
        self._last_messages = 0

    def began(self, request: RecordRequest) -> None:
        """Report the broker, the file, and the user's choices."""
        report(f"recording {self._what}{self._url} into {plain(str(request.file))}")

    def heard_nothing(self, hint: str) -> None:
        """Report a name that may be wrong.

        Recording goes on.
        """
        report(f"nothing has come yet: {plain(hint, 400)}")

    def progressed(self, progress: RecordProgress, elapsed_s: float) -> None:
        """Report the totals and the rate since the last report."""
        passed_s = elapsed_s - self._last_s
        if passed_s < self._every_s - 0.5:
            return
        rate = (progress.messages - self._last_messages) / passed_s
        self._last_s = elapsed_s
        self._last_messages = progress.messages
        line = (
            f"{progress.messages:,} messages, {rate:,.0f}/s, {size_text(progress.file_bytes)}, "
            f"{_lost(progress)}"
        )
        (report_progress if self._is_terminal else report)(line)

    def disconnected(self, reason: str) -> None:
        """Report a lost connection."""
        self._interrupt(f"connection lost: {plain(reason, 200)}; recording goes on when it is back")

    def reconnected(self, after_s: float) -> None:
        """Report the gap."""
        self._interrupt(f"connected again; nothing was recorded for {duration_text(after_s)}")

    def _interrupt(self, line: str) -> None:
        report(("\r\x1b[K" if self._is_terminal else "") + line)


def _lost(total: RecordProgress) -> str:
    """Return the losses: telemetry by sequence numbers, and messages left out here."""
    return f"lost {total.lost:,}" + (f", dropped {total.dropped:,}" if total.dropped else "")


def _summary(total: RecordProgress) -> str:
    if stderr_is_terminal():
        report("")
    parts = f" in {total.parts:,} files" if total.parts > 1 else ""
    gaps = total.interruptions
    gap = f", {gaps:,} interruption{'s' if gaps > 1 else ''}" if gaps else ""
    return (
        f"{total.messages:,} messages in {duration_text(total.length_s)},"
        f" {size_text(total.file_bytes)}{parts}, {_lost(total)}{gap}"
    )
