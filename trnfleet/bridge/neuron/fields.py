"""Fields of a `neuron-monitor` document; a missing, failed or malformed one is None.

It knows the places of values in a document; their meaning for a chip is in `values`.
"""

from __future__ import annotations

import functools
import math
import re
import statistics
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic_core import from_json

from trnfleet.errors import WireError
from trnfleet.wire.limits import DEFAULT_LIMITS
from trnfleet.wire.structs import shown
from trnfleet.wire.values import PERIODS_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MOST_COUNT = 2**40
"""Upper bound of a period's count, so that counters cannot overflow."""

FAILED = (
    "completed_with_err",
    "completed_with_num_err",
    "timed_out",
    "incorrect_input",
    "failed_to_queue",
)
"""Keys of `execution_summary` that are no success."""
NRT_STATUS = {
    "completed_with_err": (1004, "EXEC_COMPLETED_WITH_ERR"),
    "completed_with_num_err": (1003, "EXEC_COMPLETED_WITH_NUM_ERR"),
    "timed_out": (5, "TIMEOUT"),
    "incorrect_input": (1002, "EXEC_BAD_INPUT"),
    "hw_err_collectives": (1200, "EXEC_HW_ERR_COLLECTIVES"),
    "hw_err_hbm_ue": (1201, "EXEC_HW_ERR_HBM_UE"),
    "hw_err_nc_ue": (1202, "EXEC_HW_ERR_NC_UE"),
    "hw_err_dma_abort": (1203, "EXEC_HW_ERR_DMA_ABORT"),
    "hw_err_repairable_hbm_ue": (1205, "EXEC_HW_ERR_REPAIRABLE_HBM_UE"),
}
"""Code and name of NRT_STATUS by key of `execution_summary`. Published: the SDK's nrt_status.h;
the causes in hardware are Neuron Observer's only."""
HARDWARE_ERRORS = tuple(key for key in NRT_STATUS if key.startswith("hw_err_"))
CAUSES = ("numerical", "transient", "model", "runtime", "hardware")
"""Keys of `error_summary` with failures of a period."""
MEMORY_PARTS = ("constants", "model_code", "model_shared_scratchpad", "runtime_memory", "tensors")
"""Keys of a core's device memory."""
UTILISATION = "neuroncore_utilization"
FLOPS = ("flops", "effective_flops")
"""Keys of a core's rate of operations: the documentation's, and that of releases before it."""
_NUMBERS = frozenset({int, float})
_PAIRED = re.compile(r"v\d{1,2}d")
"""Key of a logical core's physical cores, by the core's version, such as `v3d`."""


class Doubts:
    """Impossible values of a document, treated as not available.

    All are counted; the first is described in words.
    """

    def __init__(self) -> None:
        self.count = 0
        self.first = ""

    def add(self, reason: str) -> None:
        """Count one."""
        self.count += 1
        self.first = self.first or reason

    def number(self, value: object, key: str, most: float = math.inf) -> float | None:
        """Return a valid measurement up to `most`.

        Return None, and count it, if it is present but invalid.
        """
        number = number_of(value)
        if number is not None and number <= most:
            return number
        if is_told(value):
            limit = "" if math.isinf(most) else f" to {most:g}"
            self.add(f"{key} must be a number from 0{limit}{shown(value)}")
        return None


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

    failures: Mapping[str, int] = MappingProxyType({})
    """Executions of the period by key of `NRT_STATUS`, without 0."""
    busy: frozenset[int] = frozenset()
    """Cores whose counters are not all 0, or not all numbers."""
    places: tuple[int, ...] = ()
    """Logical cores assumed in use: those with memory or work, else all listed. A process that may
    use all cores of a host lists all of them, though it has loaded its model on one."""
    tag: str = ""
    """`NEURON_PROCESS_TAG`; empty without one, because the default is the pid."""

    @property
    def is_placed(self) -> bool:
        """Whether its possible cores are known at all."""
        return self.cores is not None or self.memory is not None


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
    members: dict[str, Any] = data
    return members


def is_document(data: Any) -> bool:
    """Return whether parsed JSON is a document of neuron-monitor."""
    return isinstance(data, dict) and not data.keys().isdisjoint(
        {"neuron_runtime_data", "system_data"}
    )


def parse_json(text: bytes) -> Any:
    """Parse a JSON text.

    Raises:
        WireError: it is not JSON.
    """
    try:
        return from_json(text, allow_inf_nan=False, cache_strings="keys")
    except (ValueError, RecursionError) as error:
        raise WireError(f"not JSON: {error}") from error


def period_of(data: Mapping[str, Any]) -> float | None:
    """Return the seconds covered by a document; None if unknown.

    The period of `vcpu_usage`, else the median of the groups' periods. Other groups may have a
    longer period. Runtimes' periods count only without any others: a process that has just begun
    has one of milliseconds.
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
        and period <= PERIODS_S[1]
    ]


def read_period(document: bytes) -> float | None:
    """Return the seconds covered by a document; None if unknown.

    Raises:
        WireError: it is not JSON, or not a document.
    """
    return period_of(parse_document(document))


def runtimes_of(data: Mapping[str, Any], doubts: Doubts) -> list[Runtime] | None:
    """Return the runtimes; None where the document has no list of them."""
    blocks = _blocks(data)
    return None if blocks is None else [_runtime(block, doubts) for block in blocks]


def _blocks(data: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    blocks = data.get("neuron_runtime_data")
    if not isinstance(blocks, list):
        return None
    return [block if isinstance(block, dict) else {} for block in blocks]


def _runtime(block: dict[str, Any], doubts: Doubts) -> Runtime:
    report = {} if _is_error(block) else object_of(block, "report")
    tag = text_of(block.get("neuron_runtime_tag"))
    counters, memory, stats = (
        group_of(report, name) for name in ("neuroncore_counters", "memory_used", "execution_stats")
    )
    listed = None if counters is None else counters.get("neuroncores_in_use")
    cores = _by_core(listed) if isinstance(listed, dict) else None
    sizes = _core_memory(memory, doubts)
    busy = [core for core, facts in (cores or {}).items() if not _is_idle(facts)]
    used = {core for core in busy if has_work((cores or {})[core])}
    used.update(core for core, size in (sizes or {}).items() if size)
    completed, failed = _summed(stats or {}, doubts)
    outcomes = object_of(stats or {}, "execution_summary")
    latency = object_of(object_of(stats or {}, "latency_stats"), "total_latency")
    return Runtime(
        cores,
        sizes,
        completed,
        failed,
        doubts.number(latency.get("p50"), "total_latency.p50"),
        doubts.number(latency.get("p99"), "total_latency.p99"),
        {key: count for key in NRT_STATUS if (count := count_of(outcomes.get(key)))},
        frozenset(busy),
        tuple(sorted(used or (sizes or {} if cores is None else cores))),
        "" if tag == str(block.get("pid", tag if tag.isdecimal() else "")) else tag,
    )


def _summed(stats: dict[str, Any], doubts: Doubts) -> tuple[int | None, int | None]:
    """Return the completed and failed executions of a period.

    `execution_summary` and `error_summary` count the same failures by outcome and by cause:
    outcomes are used if present. The cause `generic` is a running total that includes other events,
    and is never used.
    """
    summary = object_of(stats, "execution_summary")
    errors = object_of(stats, "error_summary")
    failed = _counts(summary, FAILED, doubts) or _counts(errors, CAUSES, doubts)
    completed = _counts(summary, ("completed",), doubts)
    return completed[0] if completed else None, (
        None if not failed or None in failed else sum(filter(None, failed))
    )


def _counts(parent: dict[str, Any], keys: Iterable[str], doubts: Doubts) -> list[int | None]:
    """Return the counts under some keys, absent ones skipped; None for invalid counts."""
    counts: list[int | None] = []
    for key in keys:
        value = parent.get(key)
        if value is not None:
            counts.append(count_of(value))
            if counts[-1] is None and is_told(value):
                doubts.add(f"{key} must be a whole number from 0 to {MOST_COUNT:g}{shown(value)}")
    return counts


def _is_idle(facts: dict[str, Any]) -> bool:
    """Return whether all counters are 0, physical cores' too; most of a large host's are."""
    for value in facts.values():
        if value.__class__ is dict:
            if not value or not _is_idle(value):
                return False
        elif value or value.__class__ not in _NUMBERS:
            return False
    return True


def has_work(facts: dict[str, Any]) -> bool:
    """Return whether a core's counters show activity."""
    if any(number_of(facts.get(key)) for key in (UTILISATION, *FLOPS)):
        return True
    halves = [half for half in halves_of(facts).values() if isinstance(half, dict)]
    return any(number_of(half.get(UTILISATION)) for half in halves)


def halves_of(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the counters of a logical core's physical cores, by name.

    Empty if its counters have none.
    """
    return next((object_of(facts, key) for key in facts if _PAIRED.fullmatch(key)), {})


def _core_memory(group: dict[str, Any] | None, doubts: Doubts) -> dict[int, float] | None:
    used = object_of(group or {}, "neuron_runtime_used_bytes")
    by_core = object_of(used, "usage_breakdown").get("neuroncore_memory_usage")
    if not isinstance(by_core, dict):
        return None
    result: dict[int, float] = {}
    for core, parts in _by_core(by_core).items():
        values = [value for value in parts.values() if value is not None]
        is_sound = _NUMBERS.issuperset(map(type, values)) and min(values, default=0) >= 0
        if not is_sound or number_of(sum(values)) is None:
            values = [
                or_nan(doubts.number(value, f"{part} of core {core}"))
                for part, value in parts.items()
                if value is not None
            ]
        if values:
            result[core] = sum(values)
    return result


def _by_core(by_core: dict[str, Any]) -> dict[int, dict[str, Any]]:
    return {
        number: facts if isinstance(facts, dict) else {}
        for core, facts in by_core.items()
        if (number := _core_number(core)) is not None
    }


@functools.lru_cache
def _core_number(core: str) -> int | None:
    return int(core) if core.isascii() and core.isdecimal() and len(core) < 6 else None


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
    """Return a valid measurement: finite and not negative."""
    return (
        float(value)
        if isinstance(value, (int, float)) and value.__class__ is not bool and 0 <= value < 1e18
        else None
    )


def count_of(value: object) -> int | None:
    """Return a valid count: a whole number."""
    number = number_of(value)
    return None if number is None or number > MOST_COUNT or not number.is_integer() else int(number)


def is_told(value: object) -> bool:
    """Return whether a document has a value.

    NaN, impossible in JSON, marks a value missing in an exporter's text and counted as such.
    """
    return value is not None and value == value  # noqa: PLR0124  NaN is the one value unlike itself


def or_nan(value: float | None) -> float:
    """Return a number, NaN where it is not known."""
    return math.nan if value is None else value


def text_of(value: object) -> str:
    """Return a text, cut to a length no name has; empty for other types."""
    return value[: DEFAULT_LIMITS.text_chars] if isinstance(value, str) else ""
