"""The programs neuron-monitor and neuron-ls: where they are, what they are given, what they say."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import threading
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from trnfleet.bridge.neuron.devices import DeviceList, parse_device_list
from trnfleet.bridge.neuron.fields import parse_document
from trnfleet.bridge.neuron.stream import read_documents
from trnfleet.errors import ConfigError, WireError
from trnfleet.text import plain

if TYPE_CHECKING:
    from pathlib import Path

ANSWER_S = 10.0
"""Longest wait for neuron-ls, and for the first document (assumed)."""
_FOLDER = "/opt/aws/neuron/bin"
"""Folder of the Neuron tools' packages, which need not be in PATH (published)."""
_LIST_OPTIONS = (("--output-format", "json"), ("-j",))
"""The second is gone from Neuron 2.34 on, and the first is unknown before it (published)."""
_GROUPS = (
    "neuroncore_counters",
    "execution_stats",
    "memory_used",
    "neuron_runtime_vcpu_usage",
)


def find_program(name: str) -> str:
    """Return the path of a Neuron program.

    Raises:
        ConfigError: it is not installed.
    """
    path = shutil.which(name) or shutil.which(name, path=_FOLDER)
    if path is None:
        raise ConfigError(
            f"{name} is neither in PATH nor in {_FOLDER}: install the package aws-neuronx-tools"
        )
    return os.path.abspath(path)  # noqa: PTH100  no link is followed


def monitor_configuration(period_s: float) -> str:
    """Return a configuration of neuron-monitor with all groups, in whole seconds."""
    return json.dumps(
        {
            "period": f"{max(1, round(period_s))}s",
            "neuron_runtimes": [
                {"tag_filter": ".*", "metrics": [{"type": name} for name in _GROUPS]}
            ],
            "system_metrics": [
                {"type": name} for name in ("vcpu_usage", "memory_info", "neuron_hw_counters")
            ],
        }
    )


def first_document(folder: Path) -> dict[str, Any]:
    """Run neuron-monitor until its first document, and return that.

    Args:
        folder: For its configuration.

    Raises:
        ConfigError: it is not there, or writes no document in time.
    """
    program = find_program("neuron-monitor")
    configuration = folder / "neuron-monitor.json"
    configuration.write_text(monitor_configuration(1.0), encoding="utf-8")
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(  # noqa: S603  a program of the host, with arguments of ours
            [program, "-c", str(configuration)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        timer = threading.Timer(ANSWER_S, process.kill)
        timer.start()
        with process:
            document = next(iter(read_documents(cast("BinaryIO", process.stdout))), None)
            process.kill()
        timer.cancel()
        errors.seek(0)
        reason = last_line(errors.read())
    if document is None:
        raise ConfigError(reason or f"no document within {ANSWER_S:g} s")
    try:
        return parse_document(document.text or b"")
    except WireError as error:
        raise ConfigError(str(error)) from error


def list_devices() -> DeviceList:
    """Return the devices that neuron-ls lists.

    Raises:
        ConfigError: it is not there, fails, or prints something else.
    """
    program = find_program("neuron-ls")
    reason = ""
    for options in _LIST_OPTIONS:
        try:
            ended = subprocess.run(  # noqa: S603  a program of the host, with arguments of ours
                [program, *options],
                capture_output=True,
                timeout=ANSWER_S,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            raise ConfigError(f"neuron-ls: no answer within {ANSWER_S:g} s") from None
        except OSError as error:
            raise ConfigError(f"neuron-ls: {error.strerror or error}") from error
        if ended.returncode == 0:
            try:
                return parse_device_list(ended.stdout)
            except WireError as error:
                raise ConfigError(f"neuron-ls: {error}") from error
        reason = last_line(ended.stderr) or f"exit status {ended.returncode}"
    raise ConfigError(f"neuron-ls: {reason}")


def last_line(text: bytes) -> str:
    """Return the last line of a program's output that is not blank, in printable characters."""
    lines = [line for line in text.splitlines() if line.strip()]
    return plain(lines[-1].decode("utf-8", "replace").strip(), 200) if lines else ""
