"""`trnfleet convert`: other people's files to recordings and back; and opening whatever file somebody has."""

from __future__ import annotations

import contextlib
import dataclasses
import heapq
import secrets
import shutil
import sys
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO

import click

from trnfleet.cli.options import FleetName, log_options, set_up_logs
from trnfleet.cli.running import Instant
from trnfleet.clock import datetime_ns
from trnfleet.errors import ConfigError, nearest
from trnfleet.text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from trnfleet.cli.foreign import Input, Kind
    from trnfleet.record.read.recording import Recording

STDIO = "-"
KINDS = ("mcap", "mosquitto", "neuron-monitor")
ENDINGS = {".mcap": "mcap", ".ndjson": "mosquitto", ".jsonl": "mosquitto", ".json": "mosquitto"}
"""What is written by default to a file of that ending."""
_WIDTH = 400


@click.command("convert")
@click.argument("source", metavar="IN")
@click.argument("target", metavar="OUT")
@click.option(
    "--from", "source_kind", type=click.Choice(KINDS), help="What IN is; by default what its content tells."
)
@click.option(
    "--to",
    "target_kind",
    type=click.Choice(KINDS),
    help="What OUT becomes; by default mcap for OUT.mcap, else mosquitto lines.",
)
@click.option(
    "--name",
    type=FleetName(),
    help="Fleet that a neuron-monitor host is put in (by default neuron), or is taken from where there are several.",
)
@click.option(
    "--as",
    "address",
    metavar="ADDRESS",
    help="Address of a neuron-monitor host; by default uc1/standalone/ and its EC2 id.",
)
@click.option(
    "--instance",
    metavar="ADDRESS",
    help="Which instance becomes neuron-monitor documents, where there are several.",
)
@click.option(
    "--start",
    type=Instant(),
    help="When a neuron-monitor file begins; by default the file's date less its length.",
)
@click.option(
    "--format",
    "encoding",
    type=click.Choice(["json", "cbor"]),
    help="How a neuron-monitor host's telemetry is written; by default cbor to mcap, json to lines.",
)
@click.option("--overwrite", is_flag=True, help="Replace OUT where it exists.")
@log_options
def command(
    source: str,
    target: str,
    source_kind: str | None,
    target_kind: str | None,
    name: str | None,
    address: str | None,
    instance: str | None,
    start: datetime | None,
    encoding: str | None,
    overwrite: bool,
    log_format: str,
    log_level: str,
) -> None:
    """Convert between recordings (mcap), lines of mosquitto_sub -F '%j' and neuron-monitor's NDJSON.

    IN and OUT may be - for stdin and stdout; stdin is read to its end first. What makes no sense is left out, and counted
    on stderr with the first reason. Lines keep whole what is text; other payloads (frames) get a payload_base64, which
    mosquitto's own tools do not know.

    A recording as OUT of a recording is what can be read of IN, as a finished file.

    \b
    Examples:
      trnfleet convert torn.mcap whole.mcap
      trnfleet convert night.ndjson night.mcap
      trnfleet convert night.mcap - | jq -r .topic | sort | uniq -c
      trnfleet convert host.ndjson host.mcap --as uc1/standalone/trn2-0007 --start 2026-01-05T09:00:00Z
      trnfleet convert night.mcap host.ndjson --to neuron-monitor --instance uc1/us-0001/trn2u-0001-0
    """
    from trnfleet.cli.foreign import Kind  # noqa: PLC0415  --help stays quick

    set_up_logs(log_format, log_level)
    with contextlib.ExitStack() as stack:
        path = _spooled(stack) if source == STDIO else Path(source)
        to = Kind(target_kind or ENDINGS.get(Path(target).suffix, "mosquitto"))
        kind = Kind(source_kind) if source_kind else _detect(path, source)
        if kind is to and kind is not Kind.MCAP:
            raise ConfigError(f"{source} is {kind} already: name another with --to; {nearest('', KINDS)}")
        if name is not None and Kind.NEURON not in (kind, to):
            raise ConfigError(f"--name is for neuron-monitor alone, and neither IN nor OUT is: {kind}, {to}")
        _refuse_others(kind, to, address=address, start=start, encoding=encoding, instance=instance)
        start_ns = None if start is None else datetime_ns(start)
        given = _open(path, kind, to, name=name, address=address, start_ns=start_ns, encoding=encoding)
        stack.callback(given.close)
        shown = "stdin" if source == STDIO else source
        _convert(given, to, shown, target, name=name, instance=instance, overwrite=overwrite)


def open_any(paths: Sequence[Path], *, name: str | None = None) -> Recording:
    """Open recordings, or whatever other files hold messages, as one recording.

    Other files are converted to a recording in a temporary folder, which goes when the recording is no longer used;
    several of them are merged by time. What is left out of them is said on stderr.

    Args:
        paths: Parts of a recording, or other files.
        name: Fleet of neuron-monitor's hosts.

    Raises:
        ConfigError: a file cannot be read, or recordings and others are mixed.
    """
    from trnfleet.cli.foreign import Kind  # noqa: PLC0415  --help stays quick
    from trnfleet.record.read.recording import Recording  # noqa: PLC0415  --help stays quick

    kinds = [_detect(path, str(path)) for path in paths]
    if all(kind is Kind.MCAP for kind in kinds):
        return Recording.open(paths)
    if Kind.MCAP in kinds:
        other = next(path for path, kind in zip(paths, kinds, strict=True) if kind is not Kind.MCAP)
        raise ConfigError(
            f"{other}: it is no recording as the others are: convert it first (trnfleet convert)"
        )
    folder = tempfile.mkdtemp(prefix="trnfleet-")
    try:
        inputs = [
            _open(path, kind, Kind.MCAP, name=name, address=None, start_ns=None, encoding=None)
            for path, kind in zip(paths, kinds, strict=True)
        ]
        file = Path(folder) / "converted.mcap"
        _check(_write_mcap(inputs, file), inputs[0], str(paths[0]))
        for path, given in zip(paths, inputs, strict=True):
            if given.told.count or kinds[0] is Kind.NEURON:
                _say(given, str(path), "as a recording", given.told.taken)
        recording = Recording.open([file])
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(recording, shutil.rmtree, folder, ignore_errors=True)
    return recording


def _spooled(stack: contextlib.ExitStack) -> Path:
    """Return a file with all of stdin."""
    path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trnfleet-"))) / "stdin"
    given: TextIO | None = sys.stdin
    if given is None:
        raise ConfigError("stdin is closed: there is nothing to read")
    with path.open("wb") as file:
        shutil.copyfileobj(given.buffer, file)
    return path


def _detect(path: Path, shown: str) -> Kind:
    from trnfleet.cli.foreign import detect  # noqa: PLC0415  --help stays quick

    try:
        return detect(path)
    except ConfigError as error:
        raise ConfigError(str(error).replace(str(path), "stdin" if shown == STDIO else shown, 1)) from error


def _refuse_others(kind: Kind, to: Kind, **given: object) -> None:
    """Refuse options that mean nothing for what is converted."""
    from trnfleet.cli.foreign import Kind  # noqa: PLC0415  --help stays quick

    flags = {"address": "--as", "start": "--start", "encoding": "--format", "instance": "--instance"}
    for option, value in given.items():
        is_of_target = option == "instance"
        if value is not None and (to if is_of_target else kind) is not Kind.NEURON:
            side = "OUT" if is_of_target else "IN"
            raise ConfigError(
                f"{flags[option]} is for neuron-monitor alone, and {side} is {to if is_of_target else kind}"
            )


def _open(
    path: Path,
    kind: Kind,
    to: Kind,
    *,
    name: str | None,
    address: str | None,
    start_ns: int | None,
    encoding: str | None,
) -> Input:
    from trnfleet.bridge.neuron.telemetry import check_path  # noqa: PLC0415  --help stays quick
    from trnfleet.cli.foreign import Kind, LinesInput, McapInput, NeuronInput  # noqa: PLC0415

    if kind is Kind.MCAP:
        return McapInput(path)
    if not path.is_file():
        raise ConfigError(f"{path}: there is no such file")
    if kind is Kind.MOSQUITTO:
        return LinesInput(path)
    is_frame = (encoding or ("cbor" if to is Kind.MCAP else "json")) == "cbor"
    return NeuronInput(
        path,
        fleet=name,
        address=None if address is None else check_path(address),
        start_ns=start_ns,
        encoding="cbor" if is_frame else "json",
    )


def _convert(
    given: Input,
    to: Kind,
    source: str,
    target: str,
    *,
    name: str | None,
    instance: str | None,
    overwrite: bool,
) -> None:
    """Write what was asked for, under its name only once it is whole; say on stderr how many there were."""
    from trnfleet.cli.foreign import Kind  # noqa: PLC0415  --help stays quick
    from trnfleet.cli.recording import reader_may_leave, stdout_bytes  # noqa: PLC0415  --help stays quick

    if target == STDIO:
        if to is Kind.MCAP:
            raise ConfigError("a recording is not written to stdout: name a file, as in night.mcap")
        with reader_may_leave():
            output = stdout_bytes()
            written = _write_text(given, to, output, name, instance)
            output.flush()
            _say(given, source, "stdout", written)
        return
    from trnfleet.cli.recordsink import find_former  # noqa: PLC0415  --help stays quick
    from trnfleet.record.write.writer import RecordingError  # noqa: PLC0415  --help stays quick

    path = Path(target)
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        find_former(path, is_split=False, overwrite=overwrite)
        try:
            if to is Kind.MCAP:
                written = _write_mcap([given], partial)
            else:
                with partial.open("xb") as file:
                    written = _write_text(given, to, file, name, instance)
            _check(written, given, source)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"{target}: {error.strerror or error}") from error
    except RecordingError as error:
        raise ConfigError(f"{target}: {error.reason}") from error
    except ConfigError as error:
        raise ConfigError(str(error).replace(str(partial), target, 1)) from error
    _say(given, source, target, written)


def _check(written: int, given: Input, source: str) -> None:
    """Refuse a file out of which nothing came."""
    if not written:
        first = f" (first {given.told.first})" if given.told.first else ""
        raise ConfigError(f"{source}: nothing in it can be converted{first}")


def _say(given: Input, source: str, target: str, written: int) -> None:
    """Say on stderr what was taken, left out and written."""
    from trnfleet.cli.foreign import NOUNS, NeuronInput  # noqa: PLC0415  --help stays quick

    if isinstance(given, NeuronInput):
        click.echo(plain(f"{source}: {given.begin_text()}", _WIDTH), err=True)
    account = given.told.text(NOUNS[given.kind])
    click.echo(plain(f"{source}: {account}; {target}: {written:,} written", _WIDTH), err=True)


def _write_mcap(inputs: Sequence[Input], path: Path) -> int:
    """Write a recording of all messages, merged by time; return how many they are."""
    from trnfleet.record.write.writer import RecordingWriter  # noqa: PLC0415  --help stays quick

    abouts = [given.about for given in inputs]
    about = dataclasses.replace(
        abouts[0],
        fleets=tuple(sorted({fleet for each in abouts for fleet in each.fleets})),
        started=min(each.started for each in abouts),
    )
    writer = RecordingWriter(path, about)
    try:
        for stored in heapq.merge(*(given.messages() for given in inputs), key=lambda each: each.time_ns):
            writer.write(stored.time_ns, stored.envelope)
    finally:
        writer.close()
    return writer.messages


def _write_text(given: Input, to: Kind, output: BinaryIO, name: str | None, instance: str | None) -> int:
    """Write lines, or documents; return how many they are."""
    from trnfleet.cli.foreign import Kind  # noqa: PLC0415  --help stays quick
    from trnfleet.record.format.lines import encode_line  # noqa: PLC0415  --help stays quick

    if to is Kind.NEURON:
        from trnfleet.cli.documents import write_documents  # noqa: PLC0415  --help stays quick

        return write_documents(given, output, name, instance)
    count = 0
    for stored in given.messages():
        output.write(encode_line(stored))
        count += 1
    return count
