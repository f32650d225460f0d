"""Fields of a `neuron-monitor` document; a missing, failed or malformed one is None.

It knows the places of values in a document; their meaning for a chip is in `values`.
"""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic_core import from_json

from trnfleet.errors import WireError
from trnfleet.wire.limits import DEFAULT_LIMITS
from trnfleet.wire.values import LONGEST_PERIOD_S

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_RUNTIMES = 1_024
MOST_COUNT = 2**40
"""Upper bound of a count in a period, so that counters cannot overflow."""

FAILED = ("completed_with_err", "completed_with_num_err", "timed_out", "incorrect_input", "failed_to_queue")
"""Keys of `execution_summary` that are no success."""


class Runtime(NamedTuple):
    """One runtime's process, as far as a document describes it."""

    cores: dict[int, dict[str, Any]] | None
    """Entries of `neuroncores_in_use`, by logical core; None where they are not known."""
    memory: dict[int, float] | None
    """Bytes of device memory by logical core; None where they are not known."""
    completed: int | None
    failed: int | None
    p50_s: float | None
    p99_s: float | None

    @property
    def places(self) -> list[int]:
        """The logical cores that it is known to use."""
        return sorted(self.cores if self.cores is not None else self.memory or ())


def parse_document(document: bytes) -> dict[str, Any]:
    """Return a document.

    Raises:
        WireError: it is not JSON, or not a document.
    """
    try:
        data = from_json(document, allow_inf_nan=False, cache_strings="keys")
    except (ValueError, RecursionError) as error:
        raise WireError(f"not JSON: {error}") from error
    if not isinstance(data, dict) or not data.keys() & {"neuron_runtime_data", "system_data"}:
        raise WireError("not a document of neuron-monitor: neither neuron_runtime_data nor system_data")
    return data


def period_of(data: Mapping[str, Any]) -> float | None:
    """Return the seconds that a document covers: the median of its groups' periods; None where it has none."""
    groups: list[Any] = [*object_of(data, "system_data").values()]
    for block in _blocks(data) or ():
        groups += object_of(block, "report").values()
    periods = [
        period
        for group in groups
        if isinstance(group, dict)
        and (period := number_of(group.get("period")))
        and period <= LONGEST_PERIOD_S
    ]
    return statistics.median(periods) if periods else None


def read_period(document: bytes) -> float | None:
    """Return the seconds that a document covers, or None where it does not say.

    Raises:
        WireError: it is not JSON, or not a document.
    """
    return period_of(parse_document(document))


def runtimes_of(data: Mapping[str, Any]) -> list[Runtime] | None:
    """Return the runtimes; None where the document has no list of them."""
    blocks = _blocks(data)
    return None if blocks is None else [_runtime(each) for each in blocks]


def _blocks(data: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    blocks = data.get("neuron_runtime_data")
    if not isinstance(blocks, list):
        return None
    return [each if isinstance(each, dict) else {} for each in blocks[:MOST_RUNTIMES]]


def _runtime(block: dict[str, Any]) -> Runtime:
    report = {} if _is_error(block) else object_of(block, "report")
    counters, memory, stats = (
        group_of(report, name) for name in ("neuroncore_counters", "memory_used", "execution_stats")
    )
    cores = None if counters is None else counters.get("neuroncores_in_use")
    completed, failed = _summed(stats or {})
    latency = object_of(object_of(stats or {}, "latency_stats"), "total_latency")
    return Runtime(
        _by_core(cores) if isinstance(cores, dict) else None,
        _core_memory(memory),
        completed,
        failed,
        number_of(latency.get("p50")),
        number_of(latency.get("p99")),
    )


def _summed(stats: dict[str, Any]) -> tuple[int | None, int | None]:
    """Return the executions of a period: completed, and failed.

    `execution_summary` and `error_summary` count the same failures by outcome and by cause; the higher count is taken.
    """
    summary, errors = object_of(stats, "execution_summary"), object_of(stats, "error_summary")
    outcomes = [count for key in FAILED if (count := count_of(summary.get(key))) is not None]
    causes = [count for value in errors.values() if (count := count_of(value)) is not None]
    failed = max(sum(outcomes), sum(causes)) if outcomes or causes else None
    return count_of(summary.get("completed")), failed


def _core_memory(group: dict[str, Any] | None) -> dict[int, float] | None:
    used = object_of(group or {}, "neuron_runtime_used_bytes")
    by_core = object_of(used, "usage_breakdown").get("neuroncore_memory_usage")
    if not isinstance(by_core, dict):
        return None
    result: dict[int, float] = {}
    for core, parts in _by_core(by_core).items():
        sizes = [size for value in parts.values() if (size := number_of(value)) is not None]
        if sizes:
            result[core] = sum(sizes)
    return result


def _by_core(by_core: dict[str, Any]) -> dict[int, dict[str, Any]]:
    return {
        int(core): facts if isinstance(facts, dict) else {}
        for core, facts in by_core.items()
        if core.isascii() and core.isdecimal() and len(core) < 6
    }


def group_of(parent: dict[str, Any], name: str) -> dict[str, Any] | None:
    """Return a group of metrics, or None where it is missing or has an error."""
    group = parent.get(name)
    return group if isinstance(group, dict) and not _is_error(group) else None


def _is_error(group: dict[str, Any]) -> bool:
    return bool(group.get("error"))


def object_of(parent: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return an object, empty where it is not there or something else."""
    value = parent.get(name)
    return value if isinstance(value, dict) else {}


def number_of(value: object) -> float | None:
    """Return a number that can be a measurement: finite and not negative."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e18:
        return None
    return float(value)


def count_of(value: object) -> int | None:
    """Return a whole number that can be a count."""
    number = number_of(value)
    return None if number is None or number > MOST_COUNT or not number.is_integer() else int(number)


def or_nan(value: float | None) -> float:
    """Return a number, NaN where it is not known."""
    return math.nan if value is None else value


def text_of(value: object) -> str:
    """Return a text, cut to a length that is none of a name's; empty where it is something else."""
    return value[: DEFAULT_LIMITS.text_chars] if isinstance(value, str) else ""
