"""Values of the metric table from a `neuron-monitor` document.

Owns the meaning: which cores a chip has, what is idle and what is not known, and how counts of periods become counters.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trnfleet.bridge.neuron.fields import (
    FLOPS,
    UTILISATION,
    count_of,
    group_of,
    halves_of,
    number_of,
    object_of,
    or_nan,
    runtimes_of,
)
from trnfleet.domain.metrics import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from trnfleet.bridge.neuron.fields import Runtime
    from trnfleet.domain.hardware.catalogue import InstanceType

ECC = ("mem_ecc_corrected", "mem_ecc_uncorrected", "sram_ecc_corrected", "sram_ecc_uncorrected")
BUSY = ("user", "nice", "system", "irq", "soft_irq")
"""Keys of a vCPU's usage that are time in use; waiting for I/O is not."""


class Core(NamedTuple):
    """A logical core's place."""

    chip: int
    number: int
    """In its chip."""


class Chips(NamedTuple):
    """Assignment of logical cores and devices, as the host numbers them, to chips."""

    kind: InstanceType
    lnc: int
    devices: Mapping[int, int]
    """Chip of each device that the host sees; the others are not known."""
    cores: Mapping[int, Core]
    """Place of each logical core."""

    @classmethod
    def of_devices(
        cls,
        kind: InstanceType,
        lnc: int,
        devices: Mapping[int, int],
        listed: Mapping[int, tuple[int, ...]] | None = None,
    ) -> Chips:
        """Number the cores of devices.

        Args:
            kind: The instance's type.
            lnc: Physical cores of a logical one.
            devices: Chip of each device.
            listed: Logical cores of each device where these are known; else they are numbered device by device.
        """
        per_chip = kind.chip.neuroncores // lnc
        cores: dict[int, Core] = {}
        for device, chip in devices.items():
            names = (listed or {}).get(device, ())
            if len(names) != per_chip:
                names = tuple(range(device * per_chip, (device + 1) * per_chip))
            cores.update((name, Core(chip, number)) for number, name in enumerate(names))
        return cls(kind, lnc, devices, cores)

    @property
    def seen(self) -> NDArray[np.bool_]:
        """Mask of the chips that the host sees."""
        mask = np.zeros(self.kind.chips, np.bool_)
        mask[list(self.devices.values())] = True
        return mask

    def of_all(self, cores: Iterable[int]) -> list[int]:
        """Return the chip of each core that there is."""
        return [self.cores[core].chip for core in cores if core in self.cores]

    def empty(self, *, is_known: bool) -> NDArray[np.float64]:
        """Return a value a chip: 0 where the chip is seen and missing values are 0, else not available."""
        return np.where(self.seen & is_known, 0.0, math.nan)


class Counters:
    """A host's counters, accumulated from each period's counts."""

    def __init__(self, chips: int) -> None:
        """Start all counters at 0."""
        self._ecc: dict[tuple[int, str], tuple[int, int]] = {}
        """Last value and counter by chip and kind."""
        self._completed = np.zeros(chips, np.int64)
        self._failed = np.zeros(chips, np.int64)
        self._turn = 0
        """Place of the next execution that cannot be shared out evenly."""

    def count_ecc(self, chip: int, name: str, value: int) -> int:
        """Return the counter after `value` was read: it goes up by what the value did, or by all of it where it fell."""
        last, counter = self._ecc.get((chip, name), (0, 0))
        counter += value - last if value >= last else value
        self._ecc[chip, name] = (value, counter)
        return counter

    def count_executions(self, chips: list[int], completed: int, failed: int) -> None:
        """Share a period's executions out among `chips`, in which a chip is named once for each core."""
        weights = sorted(Counter(chips).items())
        start = self._turn
        for counters, count in ((self._completed, completed), (self._failed, failed)):
            rest = count
            for chip, weight in weights:
                share = count * weight // len(chips)
                counters[chip] += share
                rest -= share
            for number in range(rest):
                counters[weights[(start + number) % len(weights)][0]] += 1
            if counters is self._completed:
                self._turn = (start + rest) % len(weights)

    @property
    def executions(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Counters of executions by chip: completed, and ended in an error."""
        return self._completed.astype(np.float64), self._failed.astype(np.float64)


def values_of(
    data: dict[str, Any], chips: Chips, counters: Counters
) -> dict[str, NDArray[np.float64]]:
    """Return values by metric in its unit, NaN where not available; metrics that are not known are left out.

    Args:
        data: The document.
        chips: The host's chips.
        counters: Go on with the document's counts.
    """
    runtimes = runtimes_of(data)
    values = _ecc(data, chips, counters)
    if runtimes is not None:
        values |= {
            "nc_util_pct": _utilisation(runtimes, chips),
            "tflops": _tflops(runtimes, chips),
            "hbm_used_bytes": _memory(runtimes, chips),
            **_executions(runtimes, chips, counters),
        }
        for name, key in (("exec_latency_p50_s", "p50_s"), ("exec_latency_p99_s", "p99_s")):
            known = [value for each in runtimes if (value := getattr(each, key)) is not None]
            values[name] = np.array([max(known, default=math.nan)])
    system = object_of(data, "system_data")
    values["vcpu_util_pct"] = np.array([_vcpu(group_of(system, "vcpu_usage"))])
    memory = group_of(system, "memory_info") or {}
    values["host_memory_used_bytes"] = np.array(
        [or_nan(number_of(memory.get("memory_used_bytes")))]
    )
    return values


def _utilisation(runtimes: list[Runtime], chips: Chips) -> NDArray[np.float64]:
    """Return the share of time in which each physical core was busy, in percent."""
    idle = chips.empty(is_known=all(each.cores is not None for each in runtimes))
    lanes = np.full((chips.kind.chips, BY_NAME["nc_util_pct"].width), math.nan)
    lanes[:, : chips.kind.chip.neuroncores] = idle[:, np.newaxis]
    shares: defaultdict[tuple[int, int], list[float]] = defaultdict(list)
    for (chip, number), facts in _cores(runtimes, chips):
        for half, value in enumerate(_halves(facts, chips.lnc)):
            shares[chip, number * chips.lnc + half].append(or_nan(value))
    for place, values in shares.items():
        # Two runtimes take turns on a core, and a period's edges may add up to a little more than all of it.
        lanes[place] = values[0] if len(values) == 1 else np.minimum(sum(values), 100.0)
    return lanes


def _halves(facts: dict[str, Any], lnc: int) -> list[float | None]:
    """Return the busy time of each physical core of a logical one: its own, or the logical one's where it has none."""
    physical = halves_of(facts)
    if lnc == 1 or not physical:
        return [number_of(facts.get(UTILISATION))] * lnc
    halves: list[float | None] = [None] * lnc
    for name, half in physical.items():
        number = name.rpartition(".")[2]
        if isinstance(half, dict) and number.isascii() and number.isdecimal() and len(number) < 6:
            halves[int(number) % lnc] = number_of(half.get(UTILISATION))
    return halves


def _tflops(runtimes: list[Runtime], chips: Chips) -> NDArray[np.float64]:
    result = chips.empty(is_known=all(each.cores is not None for each in runtimes))
    sums: dict[int, float] = {}
    for (chip, _), facts in _cores(runtimes, chips):
        flops = next(
            (rate for key in FLOPS if (rate := number_of(facts.get(key))) is not None), None
        )
        sums[chip] = sums.get(chip, 0.0) + or_nan(flops) / 1e12
    for chip, value in sums.items():
        result[chip] = value
    return result


def _memory(runtimes: list[Runtime], chips: Chips) -> NDArray[np.float64]:
    """Return the bytes of device memory in use.

    A chip's are known where any runtime lists some for it; not where one uses the chip and none does.
    """
    used = chips.empty(is_known=all(each.is_placed for each in runtimes))
    told: set[int] = set()
    unknown: set[int] = set()
    for each in runtimes:
        unknown.update(chips.of_all(each.places))
        for core, size in (each.memory or {}).items():
            for chip in chips.of_all([core]):
                used[chip] = size + (used[chip] if chip in told else 0.0)
                told.add(chip)
    used[list(unknown - told)] = math.nan
    return used


def _executions(
    runtimes: list[Runtime], chips: Chips, counters: Counters
) -> dict[str, NDArray[np.float64]]:
    """Go on with the counters; those of chips whose runtime does not count are not known, each for itself.

    A runtime of which nothing is known may be on any chip that no other is on.
    """
    unknown: tuple[set[int], set[int]] = (set(), set())
    used: set[int] = set()
    is_anywhere = [False, False]
    for each in runtimes:
        cores = chips.of_all(each.places)
        used.update(chips.of_all(each.cores or ()), chips.of_all(each.memory or ()))
        for number, count in enumerate((each.completed, each.failed)):
            if count is None:
                unknown[number].update(cores)
                is_anywhere[number] = is_anywhere[number] or not each.is_placed
        if cores:
            counters.count_executions(cores, each.completed or 0, each.failed or 0)
    completed, failed = counters.executions
    for number, column in enumerate((completed, failed)):
        if is_anywhere[number]:
            unknown[number].update(set(chips.devices.values()) - used)
        column[~chips.seen] = math.nan
        column[list(unknown[number])] = math.nan
    return {"exec_completed": completed, "exec_errors": failed}


def _ecc(data: dict[str, Any], chips: Chips, counters: Counters) -> dict[str, NDArray[np.float64]]:
    values = {name: np.full(chips.kind.chips, math.nan) for name in ECC}
    group = group_of(object_of(data, "system_data"), "neuron_hw_counters") or {}
    devices = group.get("neuron_devices")
    for device in devices if isinstance(devices, list) else ():
        number = device.get("neuron_device_index") if isinstance(device, dict) else None
        chip = chips.devices.get(number) if type(number) is int else None
        if chip is not None:
            for name in ECC:
                value = count_of(device.get(name))
                if value is not None:
                    values[name][chip] = counters.count_ecc(chip, name, value)
    return values


def _vcpu(group: dict[str, Any] | None) -> float:
    usage = object_of(group or {}, "average_usage")
    busy = [number_of(usage.get(key)) for key in BUSY]
    # Before its first interval neuron-monitor has no values, or zeros throughout.
    if usage.get("user") is None or not any(number_of(value) for value in usage.values()):
        return math.nan
    return min(sum(value for value in busy if value is not None), 100.0)


def _cores(runtimes: list[Runtime], chips: Chips) -> Iterator[tuple[Core, dict[str, Any]]]:
    for each in runtimes:
        for core, facts in (each.cores or {}).items():
            place = chips.cores.get(core)
            if place is not None:
                yield place, facts
