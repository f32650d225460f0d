"""Utilisation of a host's cores over time, from `neuron-monitor` documents.

It is the input of a job of kind `trace`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from trnfleet.bridge.neuron.fields import (
    UTILISATION,
    Doubts,
    number_of,
    parse_document,
    period_of,
    runtimes_of,
)
from trnfleet.bridge.neuron.host_reader import DEFAULT_PERIOD_S
from trnfleet.bridge.neuron.stream import MOST_DOCUMENT_BYTES, read_documents
from trnfleet.domain.metrics import MOST_PCT
from trnfleet.errors import WireError
from trnfleet.wire.ndjson import TextFile

if TYPE_CHECKING:
    from collections.abc import Iterator


class Utilisation(NamedTuple):
    """The utilisation in a document."""

    line: int
    """On which it begins, counted from 1."""
    period_s: float
    percent: float
    """Mean of the cores in use, each the sum over its runtimes."""
    problem: str = ""
    """Reason why the document cannot be used; the other figures then mean nothing."""


def read_utilisation(stream: BinaryIO) -> Iterator[Utilisation]:
    """Yield the utilisation of each document of a host, including unusable ones."""
    period_s = DEFAULT_PERIOD_S
    for line, document, _ in read_documents(TextFile(stream)):
        if document is None:
            yield Utilisation(line, period_s, 0.0, f"longer than {MOST_DOCUMENT_BYTES} bytes")
            continue
        try:
            data = parse_document(document)
            percent = _percent(data)
        except WireError as error:
            yield Utilisation(line, period_s, 0.0, str(error))
            continue
        period_s = period_of(data) or period_s
        yield Utilisation(line, period_s, percent)


def _percent(data: dict[str, object]) -> float:
    """Return the mean utilisation of the cores in use; 0 without any.

    Raises:
        WireError: it has no runtimes, or more than all of the time.
    """
    runtimes = runtimes_of(data, Doubts())
    if runtimes is None:
        raise WireError("no neuron_runtime_data")
    shares: defaultdict[int, list[float]] = defaultdict(list)
    for runtime in runtimes:
        if runtime.cores is None:
            raise WireError(f"no {UTILISATION} in neuroncore_counters")
        for core in runtime.places:
            percent = number_of(runtime.cores.get(core, {UTILISATION: 0.0}).get(UTILISATION))
            if percent is None:
                raise WireError(f"no {UTILISATION} in neuroncore_counters")
            if percent > MOST_PCT:
                raise WireError(f"utilization {percent:g} %")
            shares[core].append(percent)
    sums = [min(math.fsum(percents), 100.0) for percents in shares.values()]
    return math.fsum(sums) / len(sums) if sums else 0.0
