"""`trnfleet record`: all that a broker delivers, into a file that survives crashes."""

from __future__ import annotations

import asyncio
import dataclasses
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from trnfleet.cli.options import (
    Duration,
    FleetName,
    TopicFilter,
    broker_options,
    find_password,
    log_options,
    set_up_logs,
    setting,
)
from trnfleet.cli.recording import Size, fleets_in, reader_may_leave, size_text, stderr_is_terminal, tell
from trnfleet.clock import NS_PER_S, SystemClock, format_rfc3339
from trnfleet.domain.quantities import duration as duration_text
from trnfleet.errors import TrnfleetError
from trnfleet.tasks import Ending, background, run_until
from trnfleet.text import plain
from trnfleet.wire.topics import VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.cli.recordsink import Sink
    from trnfleet.clock import Clock
    from trnfleet.transport.mqtt import MqttSource
    from trnfleet.transport.url import BrokerUrl, Password
    from trnfleet.wire.ports import Envelope

CONNECT_LIMIT_S = 10.0
FIRST_S = 1.0
"""How long the first messages are waited for: they tell which fleets there are."""
TELL_S = 1.0
"""Distance of the progress lines on a terminal."""
TELL_ELSEWHERE_S = 10.0
"""Distance of the progress lines in a log."""
QUEUE_MESSAGES = 400_000
QUEUE_BYTES = 256 * 2**20
"""A recorder must not lose anything in a pause of some seconds: more than others let wait."""
LEAST_SPLIT = 2**20


class Asked(NamedTuple):
    """What the options ask for."""

    file: str
    broker: BrokerUrl
    password: Password | None
    root: str
    filters: tuple[str, ...]
    duration_s: float | None
    split_bytes: int | None
    split_s: float | None
    keep_s: float | None
    is_ndjson: bool


@click.command("record")
@click.argument("file", metavar="FILE")
@broker_options(required=True)
@setting(
    "--filter",
    "filters",
    type=TopicFilter(),
    multiple=True,
    metavar="TOPIC",
    help="Record what falls under this topic filter; repeatable. By default everything under the root.",
)
@setting("--name", type=FleetName(), help="Record only this fleet.")
@setting("--duration", type=Duration(), help="End after this time; by default at ctrl+c.")
@setting("--split", type=Size(LEAST_SPLIT), help="Begin another file at this size, such as 1GiB.")
@setting("--split-every", type=Duration(), help="Begin another file after this time, such as 1h.")
@setting("--keep", type=Duration(), help="With splits: delete files of this recording older than this.")
@setting(
    "--format",
    "encoding",
    type=click.Choice(["mcap", "ndjson"]),
    default="mcap",
    help="ndjson: lines as mosquitto_sub -F '%j' writes them; FILE may be - then.",
)
@click.option("--overwrite", is_flag=True, help="Replace FILE if it is there.")
@log_options
def command(
    file: str,
    broker: BrokerUrl,
    password_file: str | None,
    root: str,
    filters: tuple[str, ...],
    name: str | None,
    duration: float | None,
    split: int | None,
    split_every: float | None,
    keep: float | None,
    encoding: str,
    overwrite: bool,
    log_format: str,
    log_level: str,
) -> None:
    """Record what a broker delivers into FILE until ctrl+c or --duration.

    The file is complete up to the last half second at any time, even after a crash. With --split or --split-every FILE
    night.mcap becomes night-0001.mcap, night-0002.mcap and so on, each of which can be read alone.

    \b
    Examples:
      trnfleet record night.mcap --broker mqtt://127.0.0.1:1883
      trnfleet record night.mcap --broker mqtt://127.0.0.1:1883 --split 1GiB --keep 24h
      trnfleet record - --format ndjson --broker mqtt://127.0.0.1:1883 | grep '"event"'
    """
    set_up_logs(log_format, log_level)
    is_ndjson = encoding == "ndjson"
    if is_ndjson and (split or split_every or keep):
        raise click.UsageError("--split, --split-every and --keep go with --format mcap")
    if keep and not (split or split_every):
        raise click.UsageError("--keep goes with --split or --split-every: whole files are deleted")
    if file == "-" and not is_ndjson:
        raise click.UsageError("FILE - goes with --format ndjson: a recording must be a file")
    if filters and name:
        raise click.UsageError("--name and --filter do not go together: the filters say what is recorded")
    asked = Asked(
        file,
        broker,
        find_password(password_file),
        root,
        filters or (f"{root}/{VERSION}/{name}/#" if name else f"{root}/#",),
        duration,
        split,
        split_every,
        keep,
        is_ndjson,
    )
    from trnfleet.cli.recordsink import find_former  # noqa: PLC0415  --help stays quick

    former = find_former(Path(file), is_split=bool(split or split_every), overwrite=overwrite)
    with reader_may_leave():
        asyncio.run(_record(asked, former))


async def _record(asked: Asked, former: Sequence[Path]) -> None:
    from trnfleet.cli.recordsink import make_sink, remove_former  # noqa: PLC0415  --help stays quick
    from trnfleet.record.format.metadata import About  # noqa: PLC0415  --help stays quick
    from trnfleet.transport.inbox import InboxLimits  # noqa: PLC0415  --help stays quick
    from trnfleet.transport.mqtt import MqttSource  # noqa: PLC0415  --help stays quick

    clock, ending = SystemClock(), Ending()
    source = MqttSource(
        asked.broker,
        # Telemetry is published at QoS 0 and comes so; what is published at QoS 1 must not be lost.
        [(each, 1) for each in asked.filters],
        password=asked.password,
        clock=clock,
        limits=InboxLimits(messages=QUEUE_MESSAGES, size_bytes=QUEUE_BYTES),
    )
    sink: Sink | None = None
    with ending.on_signals():
        async with background(source=source.run()):
            await source.wait_connected(CONNECT_LIMIT_S)
            first = await _first(source)
            about = About(
                id=secrets.token_hex(8),
                fleets=fleets_in((envelope.topic for envelope in first), asked.root),
                root=asked.root,
                broker=str(dataclasses.replace(asked.broker, user=None)),
                filters=asked.filters,
                started=format_rfc3339(clock.wall_ns()),
            )
            # Not before there is something to record: what is there would be gone for nothing.
            remove_former(former)
            sink = make_sink(
                Path(asked.file),
                about,
                clock,
                is_ndjson=asked.is_ndjson,
                split_bytes=asked.split_bytes,
                split_ns=_ns(asked.split_s),
                keep_ns=_ns(asked.keep_s),
            )
            tell(f"recording {', '.join(asked.filters)} of {asked.broker} into {plain(asked.file)}")
            try:
                sink.start()
                sink.take(first)
                await run_until(ending, _until(asked, source, sink, clock))
            finally:
                sink.close()
    _tell_end(asked, source, sink)


def _ns(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * NS_PER_S)


async def _first(source: MqttSource) -> list[Envelope]:
    """Return the first messages, or none where the broker is silent."""
    try:
        return await asyncio.wait_for(source.take(), FIRST_S)
    except TimeoutError:
        return []


async def _until(asked: Asked, source: MqttSource, sink: Sink, clock: Clock) -> None:
    """Record until the time is over or writing fails."""

    async def take() -> None:
        while True:
            sink.take(await source.take())

    async def at_duration() -> None:
        if asked.duration_s is not None:
            await clock.sleep(asked.duration_s)
        else:
            await asyncio.Event().wait()

    async with background(take=take(), progress=_tell(source, sink, clock)):
        ends = {asyncio.ensure_future(at_duration()), asyncio.ensure_future(sink.failed())}
        try:
            done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
        finally:
            for each in ends:
                each.cancel()


async def _tell(source: MqttSource, sink: Sink, clock: Clock) -> None:
    """Say on stderr how it goes, and when the connection goes and comes."""
    is_terminal = stderr_is_terminal()
    every_s = TELL_S if is_terminal else TELL_ELSEWHERE_S
    told_s, before, was_connected, lost_s = clock.monotonic_s(), 0, True, 0.0
    while True:
        await clock.sleep(TELL_S)
        now_s, status = clock.monotonic_s(), source.status
        if status.connected != was_connected:
            was_connected = status.connected
            if was_connected:
                say = f"connected again; nothing was recorded for {duration_text(now_s - lost_s)}"
            else:
                lost_s = status.changed_s
                say = f"connection lost: {plain(status.last_error, 200)}; recording goes on when it is back"
            tell(("\r\x1b[K" if is_terminal else "") + say)
        if now_s - told_s < every_s - TELL_S / 2:
            continue
        messages = sink.status.messages
        rate = (messages - before) / (now_s - told_s)
        told_s, before = now_s, messages
        lost = source.status.dropped + source.status.oversize + sink.status.lost
        line = f"{messages:,} messages, {rate:,.0f}/s, {size_text(sink.status.file_bytes)}, lost {lost:,}"
        tell(f"\r\x1b[K{line}" if is_terminal else line, nl=not is_terminal)


def _tell_end(asked: Asked, source: MqttSource, sink: Sink) -> None:
    """Say what was recorded, or why recording ended."""
    if stderr_is_terminal():
        tell("")
    link, status = source.status, sink.status
    lost = link.dropped + link.oversize + status.lost
    parts = f" in {status.parts:,} files" if status.parts > 1 else ""
    gaps = max(0, link.connects - 1)
    gap = f", {gaps:,} interruption{'s' if gaps > 1 else ''}" if gaps else ""
    summary = (
        f"{status.messages:,} messages in {duration_text(status.length_s)}, {size_text(status.file_bytes)}{parts}, "
        f"lost {lost:,}{gap}"
    )
    if status.failed:
        from trnfleet.record.write.part import DELETED  # noqa: PLC0415  --help stays quick

        readable = "" if status.failed == DELETED else "; it can be read"
        raise TrnfleetError(
            f"{asked.file}: recording ended: {plain(status.failed, 200)}; until then {summary}{readable}"
        )
    tell(f"recorded {summary}")
