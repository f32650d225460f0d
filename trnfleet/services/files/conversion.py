"""Conversion between recordings, mosquitto_sub lines, neuron-monitor documents and scrapes.

The scrapes are those of the neuron-monitor exporter.
"""

from __future__ import annotations

import contextlib
import dataclasses
import heapq
import secrets
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from trnfleet.bridge.neuron.devices import read_device_list
from trnfleet.bridge.neuron.sysfs import read_tree
from trnfleet.bridge.neuron.telemetry import check_path
from trnfleet.errors import ConfigError, TrnfleetError, write_failure
from trnfleet.files import temporary_folder
from trnfleet.record.format.lines import encode_line
from trnfleet.record.read.recording import Recording
from trnfleet.record.write.writer import RecordingError, RecordingWriter
from trnfleet.services.files.inputs import (
    HOST_KINDS,
    NOUNS,
    Input,
    Kind,
    LinesInput,
    McapInput,
    detect,
)
from trnfleet.services.files.neuron import (
    HostInput,
    NeuronInput,
    PrometheusInput,
    write_documents,
)
from trnfleet.services.files.outputs import find_former
from trnfleet.text import LONGEST_LINE, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def open_recordings(
    paths: Sequence[Path],
    report: Callable[[str], None],
    *,
    name: str | None = None,
    neuron_ls: Path | None = None,
    sysfs: Path | None = None,
    utilization: str | None = None,
) -> Recording:
    """Open recordings, or other message files, as one recording.

    Other files are converted to a recording in a temporary folder, removed after use; several of
    them are merged by time.

    Args:
        paths: Parts of a recording, or other files.
        report: Receives a line about what was left out of a file.
        name: Fleet of neuron-monitor's hosts.
        neuron_ls: What neuron-ls -j printed on the host, for files of neuron-monitor.
        sysfs: The Neuron driver's tree of the host, for files of neuron-monitor.
        utilization: Unit of Neuron Observer's utilization, if it is known.

    Raises:
        ConfigError: a file cannot be read, or recordings and others are mixed.
    """
    kinds = [detect(path) for path in paths]
    given_flags = {"--neuron-ls": neuron_ls, "--sysfs": sysfs, "--utilization": utilization}
    flag = next((flag for flag, value in given_flags.items() if value is not None), "")
    if flag and not set(kinds) <= set(HOST_KINDS):
        other = next(
            path for path, kind in zip(paths, kinds, strict=True) if kind not in HOST_KINDS
        )
        raise ConfigError(f"{flag} is for files of neuron-monitor; {other} is not one")
    if all(kind is Kind.MCAP for kind in kinds):
        return Recording.open(paths)
    if Kind.MCAP in kinds:
        other = next(path for path, kind in zip(paths, kinds, strict=True) if kind is not Kind.MCAP)
        raise ConfigError(
            f"{other}: not a recording, unlike the others: convert it first (trnfleet convert)"
        )
    stack = contextlib.ExitStack()
    folder = stack.enter_context(temporary_folder("trnfleet-convert-"))
    try:
        inputs = [
            open_input(
                path,
                kind,
                Kind.MCAP,
                name=name,
                neuron_ls=neuron_ls,
                sysfs=sysfs,
                utilization=utilization,
            )
            for path, kind in zip(paths, kinds, strict=True)
        ]
        file = folder / "converted.mcap"
        _refuse_empty(_write_mcap(inputs, file), inputs[0], str(paths[0]))
        for path, given in zip(paths, inputs, strict=True):
            if not given.skipped.is_sound or given.kind in HOST_KINDS:
                _report(given, str(path), "as a recording", given.skipped.taken, report)
        recording = Recording.open([file])
    except BaseException:
        stack.close()
        raise
    weakref.finalize(recording, stack.close)
    return recording


def open_input(
    path: Path,
    kind: Kind,
    to: Kind,
    *,
    name: str | None = None,
    address: str | None = None,
    start_ns: int | None = None,
    encoding: str | None = None,
    neuron_ls: Path | None = None,
    sysfs: Path | None = None,
    utilization: str | None = None,
) -> Input:
    """Open a file to convert.

    Args:
        path: The file.
        kind: Its kind.
        to: Kind of file to convert it to.
        name: Fleet of neuron-monitor's hosts.
        address: Address of a neuron-monitor host.
        start_ns: Begin of a neuron-monitor file.
        encoding: Encoding of a neuron-monitor host's telemetry; by default `cbor` in recordings,
            `json` in lines.
        neuron_ls: What neuron-ls -j printed on that host.
        sysfs: The Neuron driver's tree of that host.
        utilization: Unit of Neuron Observer's utilization, if it is known.

    Raises:
        ConfigError: the file is missing or invalid, or the address is.
    """
    if kind is Kind.MCAP:
        return McapInput(path)
    if not path.is_file():
        raise ConfigError(f"{path}: there is no such file")
    if kind is Kind.MOSQUITTO:
        return LinesInput(path)
    if kind is Kind.NEURON_LS:
        raise ConfigError(
            f"{path}: it is what neuron-ls -j prints, where devices are and no telemetry: name a"
            " file of neuron-monitor, and this one with --neuron-ls"
        )
    is_frame = (encoding or ("cbor" if to is Kind.MCAP else "json")) == "cbor"
    host_input = PrometheusInput if kind is Kind.PROMETHEUS else NeuronInput
    return host_input(
        path,
        fleet=name,
        address=None if address is None else check_path(address),
        start_ns=start_ns,
        encoding="cbor" if is_frame else "json",
        device_list=None if neuron_ls is None else read_device_list(neuron_ls),
        sysfs=None if sysfs is None else read_tree(sysfs),
        utilization=utilization,
    )


class Conversion:
    """Conversion of one file."""

    def __init__(
        self,
        given: Input,
        source: str,
        to: Kind,
        report: Callable[[str], None],
        *,
        name: str | None = None,
        instance: str | None = None,
    ) -> None:
        """Prepare a conversion.

        Args:
            given: The file to convert.
            source: Its name, for messages.
            to: Kind of file to write.
            report: Receives a line about what was written and left out.
            name: Fleet to take, where there are several.
            instance: Address of the instance to take for documents of neuron-monitor.
        """
        self._given = given
        self._source = source
        self._to = to
        self._report = report
        self._name = name
        self._instance = instance

    def write_stream(self, output: BinaryIO) -> None:
        """Write lines or documents to a stream.

        Raises:
            ConfigError: the input has nothing to convert, or nothing to write as asked.
        """
        written = self._write_text(output)
        _refuse_empty(written, self._given, self._source)
        output.flush()
        _report(self._given, self._source, "stdout", written, self._report)

    def write_file(self, target: str, *, overwrite: bool) -> None:
        """Write a file, under its name only once it is complete.

        Raises:
            ConfigError: the file exists or cannot be written, or the input has nothing to convert.
            TrnfleetError: the disk is full; nothing is left behind.
        """
        path = Path(target)
        partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
        try:
            find_former(path, is_split=False, overwrite=overwrite)
            try:
                if self._to is Kind.MCAP:
                    written = _write_mcap([self._given], partial)
                else:
                    with partial.open("xb") as file:
                        written = self._write_text(file)
                _refuse_empty(written, self._given, self._source)
                partial.replace(path)
            finally:
                partial.unlink(missing_ok=True)
        except OSError as error:
            raise write_failure(target, error) from error
        except RecordingError as error:
            raise TrnfleetError(f"{target}: {error.reason}") from error
        except TrnfleetError as error:
            raise type(error)(str(error).replace(str(partial), target, 1)) from error
        _report(self._given, self._source, target, written, self._report)

    def _write_text(self, output: BinaryIO) -> int:
        """Write lines, or documents; return their number."""
        if self._to is Kind.NEURON:
            return write_documents(self._given, output, self._name, self._instance)
        count = 0
        for stored in self._given.messages():
            output.write(encode_line(stored))
            count += 1
        return count


def _refuse_empty(written: int, given: Input, source: str) -> None:
    """Refuse an input without converted messages."""
    if not written:
        first = f" (first {given.skipped.first})" if given.skipped.first else ""
        raise ConfigError(f"{source}: nothing in it can be converted{first}")


def _report(
    given: Input, source: str, target: str, written: int, report: Callable[[str], None]
) -> None:
    if isinstance(given, HostInput):
        report(plain(f"{source}: {given.begin_text()}", LONGEST_LINE))
        if given.unread:
            report(plain(f"{source}: {given.unread_text()}", LONGEST_LINE))
    account = given.skipped.text(NOUNS[given.kind])
    report(plain(f"{source}: {account}; {target}: {written:,} written", LONGEST_LINE))


def _write_mcap(inputs: Sequence[Input], path: Path) -> int:
    """Write a recording of all messages, merged by time; return their number."""
    abouts = [given.about for given in inputs]
    about = dataclasses.replace(
        abouts[0],
        schema=max(about.schema for about in abouts),
        fleets=tuple(sorted({fleet for about in abouts for fleet in about.fleets})),
        started=min(about.started for about in abouts),
    )
    writer = RecordingWriter(path, about)
    try:
        for stored in heapq.merge(
            *(given.messages() for given in inputs), key=lambda stored: stored.time_ns
        ):
            writer.write(stored.time_ns, stored.envelope)
    finally:
        writer.close()
    return writer.messages
