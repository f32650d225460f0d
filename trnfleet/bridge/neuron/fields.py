"""Fields of a `neuron-monitor` document; a missing, failed or malformed one is None.

It knows the places of values in a document; their meaning for a chip is in `values`.
"""

from __future__ import annotations

import math
import re
import statistics
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic_core import from_json

from trnfleet.errors import WireError
from trnfleet.wire.limits import DEFAULT_LIMITS
from trnfleet.wire.values import LONGEST_PERIOD_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MOST_RUNTIMES = 1_024
MOST_COUNT = 2**40
"""Upper bound of a count in a period, so that counters cannot overflow."""

FAILED = (
    "completed_with_err",
    "completed_with_num_err",
    "timed_out",
    "incorrect_input",
    "failed_to_queue",
)
"""Keys of `execution_summary` that are no success."""
CAUSES = ("numerical", "transient", "model", "runtime", "hardware")
"""Keys of `error_summary` that count failures of a period."""
MEMORY_PARTS = ("constants", "model_code", "model_shared_scratchpad", "runtime_memory", "tensors")
"""Keys of a core's device memory."""
UTILISATION = "neuroncore_utilization"
FLOPS = ("flops", "effective_flops")
"""Keys of a core's rate of operations: the documentation's, and that of releases before it."""
_PAIRED = re.compile(r"v\d{1,2}d")
"""Key of the physical cores of a logical one, by the version of the core, such as `v3d`."""


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
    def is_placed(self) -> bool:
        """Whether it is known on which cores it may be at all."""
        return self.cores is not None or self.memory is not None

    @property
    def places(self) -> list[int]:
        """The logical cores that it is taken to use: those where it has memory or work, else all that it lists.

        A process that may use all cores of a host lists all of them, though it has loaded its model on one.
        """
        cores, memory = self.cores or {}, self.memory or {}
        used = {core for core, size in memory.items() if size} | {
            core for core, facts in cores.items() if has_work(facts)
        }
        return sorted(used or (memory if self.cores is None else cores))


def parse_document(document: bytes) -> dict[str, Any]:
    """Return a document.

    Raises:
        WireError: it is not JSON, or not a document.
    """
    data = parse_json(document)
    if not is_document(data):
        raise WireError(
            "not a document of neuron-monitor: neither neuron_runtime_data nor system_data"
        )
    found: dict[str, Any] = data
    return found


def is_document(data: Any) -> bool:
    """Return whether parsed JSON is a document of neuron-monitor."""
    return isinstance(data, dict) and not data.keys().isdisjoint(
        {"neuron_runtime_data", "system_data"}
    )


def parse_json(text: bytes) -> Any:
    """Return what a text holds.

    Raises:
        WireError: it is not JSON.
    """
    try:
        return from_json(text, allow_inf_nan=False, cache_strings="keys")
    except (ValueError, RecursionError) as error:
        raise WireError(f"not JSON: {error}") from error


def period_of(data: Mapping[str, Any]) -> float | None:
    """Return the seconds that a document covers: `vcpu_usage`'s, else the median of those of groups; None where it has none.

    Other groups may have a longer one of their own. Those of runtimes count only where there are no others: a process that
    has just begun has one of milliseconds.
    """
    system = object_of(data, "system_data")
    blocks = _blocks(data) or ()
    for groups in (
        [system.get("vcpu_usage")],
        system.values(),
        [group for block in blocks for group in object_of(block, "report").values()],
    ):
        periods = _periods(groups)
        if periods:
            return statistics.median_low(periods)
    return None


def _periods(groups: Iterable[Any]) -> list[float]:
    return [
        period
        for group in groups
        if isinstance(group, dict)
        and (period := number_of(group.get("period")))
        and period <= LONGEST_PERIOD_S
    ]


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

    `execution_summary` and `error_summary` count the same failures by outcome and by cause: outcomes are taken where there
    are any. The cause `generic` is a running total, also of what is no failure, and is never taken.
    """
    summary, errors = object_of(stats, "execution_summary"), object_of(stats, "error_summary")
    known = [count for key in FAILED if (count := count_of(summary.get(key))) is not None] or [
        count for cause in CAUSES if (count := count_of(errors.get(cause))) is not None
    ]
    return count_of(summary.get("completed")), sum(known) if known else None


def has_work(facts: dict[str, Any]) -> bool:
    """Return whether a core's counters say that it did something."""
    values = [facts.get(key) for key in (UTILISATION, *FLOPS)]
    values += [
        half.get(UTILISATION) for half in halves_of(facts).values() if isinstance(half, dict)
    ]
    return any(number_of(value) for value in values)


def halves_of(facts: dict[str, Any]) -> dict[str, Any]:
    """Return what a logical core's counters say of its physical cores, by their names; empty where they say nothing."""
    return next((object_of(facts, key) for key in facts if _PAIRED.fullmatch(key)), {})


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
