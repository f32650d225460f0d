"""Documents of `neuron-monitor` for tests, their parsed form, and the resulting messages."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

from support.paths import FIXTURES
from trnfleet.bridge.neuron.host_reader import HostReader
from trnfleet.bridge.neuron.telemetry import HostTelemetry, boot_of, default_path
from trnfleet.domain.hardware.catalogue import INSTANCE_TYPES
from trnfleet.domain.metrics import BY_NAME

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from trnfleet.wire.ports import Envelope

DOCUMENTS = FIXTURES / "neuron-monitor"
START_NS = 1_767_571_200_000_000_000
TRN1 = INSTANCE_TYPES["trn1.2xlarge"]


def documents(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DOCUMENTS / f"{name}.ndjson").read_text().splitlines()]


TRN2_DOCUMENTS = documents("trn2.48xlarge-lnc2")
TRN1_DOCUMENTS = documents("trn1.2xlarge")


def feed(reader: HostReader, *told: bytes | dict[str, Any]) -> dict[str, NDArray[np.float64]]:
    """Let documents be read and return the values after the last."""
    for document in told:
        reader.read(document if isinstance(document, bytes) else json.dumps(document).encode())
    return {name: BY_NAME[name].decode(codes) for name, codes in reader.columns.items()}


def trn2(number: int = 1) -> dict[str, Any]:
    return copy.deepcopy(TRN2_DOCUMENTS[number])


def trn1(number: int = 1) -> dict[str, Any]:
    return copy.deepcopy(TRN1_DOCUMENTS[number])


def report(document: dict[str, Any], runtime: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = document["neuron_runtime_data"][runtime]["report"]
    return found


def envelopes_of(name: str, encoding: Any) -> tuple[HostReader, list[Envelope]]:
    reader = HostReader()
    telemetry: HostTelemetry | None = None
    made: list[Envelope] = []
    for number, document in enumerate(documents(name)):
        feed(reader, document)
        path = default_path(reader)
        boot = boot_of(path, START_NS)
        telemetry = telemetry or HostTelemetry(
            reader, "lab", path, boot=boot, period_s=1.0, encoding=encoding
        )
        made += telemetry.envelopes(START_NS + number * 1_000_000_000)
    return reader, made
