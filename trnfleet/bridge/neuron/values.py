"""Values of the metric table from a `neuron-monitor` document.

Owns the meaning: the cores of a chip, idle and unknown values, and the conversion of periods'
counts into counters.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trnfleet.bridge.neuron.fields import (
    FLOPS,
    NRT_STATUS,
    UTILISATION,
    Doubts,
    Runtime,
    count_of,
    group_of,
    halves_of,
    is_told,
    number_of,
    object_of,
    or_nan,
    runtimes_of,
)
from trnfleet.domain.metrics import BY_NAME, MOST_PCT
from trnfleet.domain.quantities import counted
from trnfleet.wire.structs import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from trnfleet.domain.hardware.catalogue import InstanceType

ECC = ("mem_ecc_corrected", "mem_ecc_uncorrected", "sram_ecc_corrected", "sram_ecc_uncorrected")
ECC_READ = (*ECC, "mem_ecc_repairable_uncorrected")
POWER = {"power_utilization": "power_util_pct", "power_utilization_max": "power_util_max_pct"}
"""Metrics of a chip's power, by key of its device."""
EFA = tuple(name for name in BY_NAME if name.startswith("efa_") and not name.endswith("_per_s"))
"""Counters of the host's adapters."""
BUSY = ("user", "nice", "system", "irq", "soft_irq")
"""Keys of a vCPU's usage that are time in use; waiting for I/O is not."""


class Core(NamedTuple):
    """A logical core's place."""

    chip: int
    number: int
    """In its chip."""


CoreFacts = tuple[int, Core, dict[str, Any]]
"""A logical core as the host numbers it, its place, and a process's counters of it."""


class Chips(NamedTuple):
    """Assignment of logical cores and devices, as the host numbers them, to chips."""

    kind: InstanceType
    lnc: int
    devices: Mapping[int, int]
    """Chip of each device visible to the host; others are unknown."""
    cores: Mapping[int, Core]
    """Place of each logical core."""
    is_numbered: bool = True
    """Whether device numbers equal chip numbers, the default without other facts from neuron-ls."""
    is_certain: bool = True
    """Whether everything in the document has a place. If not, unnamed chips are not taken as idle.
    """

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
            listed: Logical cores of each device where these are known; else they are numbered
                device by device.
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
        """Return the chip of each existing core."""
        return [self.cores[core].chip for core in cores if core in self.cores]

    def empty(self, *, is_known: bool) -> NDArray[np.float64]:
        """Return a value per chip, before any are set.

        0 if the chip is seen and missing values mean 0, else not available.
        """
        return np.where(self.seen & (is_known and self.is_certain), 0.0, math.nan)


class NeuronCounters:
    """A host's counters, accumulated from each period's counts."""

    def __init__(self, chips: int) -> None:
        """Start all counters at 0."""
        self._ecc: dict[tuple[int, str], tuple[int, int]] = {}
        """Last value and counter by chip and kind."""
        self._completed = np.zeros(chips, np.int64)
        self._failed = np.zeros(chips, np.int64)
        self.tagged: dict[str, set[int]] = {}
        """Chips of each process tag, in the last document."""
        self.failures: tuple[FailedExecutions, ...] = ()
        """Of the last document."""
        self._adapters = dict.fromkeys(EFA, 0)
        self._turn = 0
        """Place of the next execution of an uneven remainder."""

    def count_ecc(self, chip: int, name: str, value: int) -> int:
        """Return the counter after `value` was read.

        It rises by the difference, or by all of `value` if that fell.
        """
        last, counter = self._ecc.get((chip, name), (0, 0))
        counter += value - last if value >= last else value
        self._ecc[chip, name] = (value, counter)
        return counter

    def count_adapters(self, name: str, grown: int) -> int:
        """Return the counter of all adapters after it grew."""
        self._adapters[name] += grown
        return self._adapters[name]

    def count_executions(self, chips: list[int], completed: int, failed: int) -> None:
        """Distribute a period's executions among `chips`, named once per core."""
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


def placed(
    data: dict[str, Any], runtimes: list[Runtime] | None, chips: Chips, doubts: Doubts
) -> Chips:
    """Return the places of the host's devices named by a document.

    A document with devices or cores beyond its own visible ones contradicts itself. Named ones are
    then placed by number, and all others are unknown.
    """
    per_chip = chips.kind.chip.neuroncores // chips.lnc
    cores: set[int] = set()
    for runtime in runtimes or ():
        cores.update(runtime.cores or (), runtime.memory or ())
    devices = {number for number, _ in _devices(data)}
    if cores <= chips.cores.keys() and devices <= chips.devices.keys():
        return chips
    stray = sorted(cores - chips.cores.keys())
    what = f"core {stray[0]}" if stray else f"device {min(devices - chips.devices.keys())}"
    doubts.add(
        f"it names {what}, and says that the host sees {counted(len(chips.devices), 'device')}"
    )
    if not chips.is_numbered:
        return chips._replace(is_certain=False)
    named = devices | {core // per_chip for core in cores}
    known = {number: number for number in sorted(named) if number < chips.kind.chips}
    return Chips.of_devices(chips.kind, chips.lnc, known)._replace(is_certain=False)


def values_of(
    data: dict[str, Any], chips: Chips, counters: NeuronCounters, doubts: Doubts
) -> dict[str, NDArray[np.float64]]:
    """Return values by metric in its unit, NaN if not available.

    Unknown metrics are left out.

    Args:
        data: The document.
        chips: The host's chips.
        counters: Continued with the document's counts.
        doubts: Receives the document's impossible values.
    """
    runtimes = runtimes_of(data, doubts)
    chips = placed(data, runtimes, chips, doubts)
    values = _ecc(data, chips, counters, doubts)
    counters.tagged = {}
    for runtime in runtimes or ():
        if runtime.tag and (claimed := chips.of_all(runtime.places)):
            counters.tagged.setdefault(runtime.tag, set()).update(claimed)
    counters.failures = tuple(_failures(runtimes or (), chips))
    if runtimes is not None:
        cores = list(_cores(runtimes, chips))
        values |= {
            "nc_util_pct": _utilisation(runtimes, cores, chips, doubts),
            "tflops": _tflops(runtimes, cores, chips, doubts),
            "hbm_used_bytes": _memory(runtimes, chips),
            **_executions(runtimes, chips, counters),
        }
        for name, key in (("exec_latency_p50_s", "p50_s"), ("exec_latency_p99_s", "p99_s")):
            known = [value for runtime in runtimes if (value := getattr(runtime, key)) is not None]
            values[name] = np.array([max(known, default=math.nan)])
    system = object_of(data, "system_data")
    values["vcpu_util_pct"] = np.array([_vcpu(group_of(system, "vcpu_usage"), doubts)])
    memory = group_of(system, "memory_info") or {}
    used = doubts.number(memory.get("memory_used_bytes"), "memory_used_bytes")
    values["host_memory_used_bytes"] = np.array([or_nan(used)])
    efa = object_of(system, "efa")
    for name in EFA:
        grown = count_of(efa.get(name))
        if grown is not None:
            values[name] = np.array([counters.count_adapters(name, grown)], np.float64)
    return values


def _utilisation(
    runtimes: list[Runtime], cores: list[CoreFacts], chips: Chips, doubts: Doubts
) -> NDArray[np.float64]:
    """Return the busy share of time of each physical core, percent."""
    idle = chips.empty(is_known=all(runtime.cores is not None for runtime in runtimes))
    lanes = np.full((chips.kind.chips, BY_NAME["nc_util_pct"].width), math.nan)
    lanes[:, : chips.kind.chip.neuroncores] = idle[:, np.newaxis]
    shares: defaultdict[tuple[int, int], list[float]] = defaultdict(list)
    for name, (chip, number), facts in cores:
        for half, value in enumerate(_halves(facts, chips.lnc, f"of core {name}", doubts)):
            shares[chip, number * chips.lnc + half].append(or_nan(value))
    for place, values in shares.items():
        # Two runtimes take turns on a core, and a period's edges may add up to a little more than
        # all of it.
        lanes[place] = values[0] if len(values) == 1 else min(sum(values), 100.0)
    return lanes


def _halves(facts: dict[str, Any], lnc: int, whose: str, doubts: Doubts) -> list[float | None]:
    """Return the busy time of each physical core of a logical one.

    Its own, or the logical one's if missing.
    """
    physical = halves_of(facts)
    if lnc == 1 or not physical:
        return [doubts.number(facts.get(UTILISATION), f"{UTILISATION} {whose}", MOST_PCT)] * lnc
    halves: list[float | None] = [None] * lnc
    for name, half in physical.items():
        number = name.rpartition(".")[2]
        if isinstance(half, dict) and number.isascii() and number.isdecimal() and len(number) < 6:
            value = doubts.number(half.get(UTILISATION), f"{UTILISATION} of {name}", MOST_PCT)
            halves[int(number) % lnc] = value
    return halves


def _tflops(
    runtimes: list[Runtime], cores: list[CoreFacts], chips: Chips, doubts: Doubts
) -> NDArray[np.float64]:
    result = chips.empty(is_known=all(runtime.cores is not None for runtime in runtimes))
    sums: dict[int, float] = {}
    for name, (chip, _), facts in cores:
        key = FLOPS[1] if facts.get(FLOPS[0]) is None else FLOPS[0]
        flops = doubts.number(facts.get(key), f"{key} of core {name}")
        sums[chip] = sums.get(chip, 0.0) + or_nan(flops) / 1e12
    for chip, value in sums.items():
        result[chip] = value
    return result


def _memory(runtimes: list[Runtime], chips: Chips) -> NDArray[np.float64]:
    """Return the bytes of device memory in use.

    A chip's are known if any runtime lists some for it. They are unknown if a runtime uses the chip
    and none lists any.
    """
    used = chips.empty(is_known=all(runtime.is_placed for runtime in runtimes))
    sums: dict[int, float] = {}
    unknown: set[int] = set()
    for runtime in runtimes:
        unknown.update(chips.of_all(runtime.places))
        for core, size in (runtime.memory or {}).items():
            place = chips.cores.get(core)
            if place is not None:
                sums[place.chip] = sums.get(place.chip, 0.0) + size
    used[list(unknown - sums.keys())] = math.nan
    for chip, value in sums.items():
        used[chip] = value
    return used


def _executions(
    runtimes: list[Runtime], chips: Chips, counters: NeuronCounters
) -> dict[str, NDArray[np.float64]]:
    """Continue the counters; unknown for chips with a runtime that does not count.

    A runtime without known cores may be on any chip without another runtime.
    """
    unknown: tuple[set[int], set[int]] = (set(), set())
    used: set[int] = set()
    is_anywhere = [False, False]
    for runtime in runtimes:
        cores = chips.of_all(runtime.places)
        used.update(chips.of_all(runtime.cores or ()), chips.of_all(runtime.memory or ()))
        for number, count in enumerate((runtime.completed, runtime.failed)):
            if count is None:
                unknown[number].update(cores)
                is_anywhere[number] = is_anywhere[number] or not runtime.is_placed
        if cores:
            counters.count_executions(cores, runtime.completed or 0, runtime.failed or 0)
    completed, failed = counters.executions
    for number, column in enumerate((completed, failed)):
        if is_anywhere[number]:
            unknown[number].update(set(chips.devices.values()) - used)
        column[~chips.seen] = math.nan
        column[list(unknown[number])] = math.nan
    return {"exec_completed": completed, "exec_errors": failed}


def _devices(data: dict[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number and entry of each device with counters."""
    group = group_of(object_of(data, "system_data"), "neuron_hw_counters") or {}
    devices = group.get("neuron_devices")
    for device in devices if isinstance(devices, list) else ():
        number = device.get("neuron_device_index") if isinstance(device, dict) else None
        if type(number) is int and number >= 0:
            yield number, device


def _ecc(
    data: dict[str, Any], chips: Chips, counters: NeuronCounters, doubts: Doubts
) -> dict[str, NDArray[np.float64]]:
    values = {name: np.full(chips.kind.chips, math.nan) for name in ECC_READ}
    for number, device in _devices(data):
        chip = chips.devices.get(number)
        for name in ECC_READ if chip is not None else ():
            value = count_of(device.get(name))
            if value is not None and chip is not None:
                values[name][chip] = counters.count_ecc(chip, name, value)
            elif is_told(device.get(name)):
                doubts.add(f"{name} of device {number} must be a count{shown(device[name])}")
        for key in POWER.keys() & device.keys() if chip is not None else ():
            column = values.setdefault(POWER[key], np.full(chips.kind.chips, math.nan))
            share = doubts.number(device[key], f"{key} of device {number}", MOST_PCT)
            column[chip] = or_nan(share)
    return values


class FailedExecutions(NamedTuple):
    """Failed executions of one status in a document."""

    nrt: int
    name: str
    executions: int
    chip: int | None
    """None for several, or an unknown one."""


def _failures(runtimes: Iterable[Runtime], chips: Chips) -> Iterator[FailedExecutions]:
    """Yield the failures of a document, at most one a status."""
    counts: Counter[str] = Counter()
    places: defaultdict[str, set[int | None]] = defaultdict(set)
    for runtime in runtimes:
        for key, count in runtime.failures.items():
            counts[key] += count
            places[key].update(chips.of_all(runtime.places) or (None,))
    for key, count in counts.items():
        chip = next(iter(places[key])) if len(places[key]) == 1 else None
        yield FailedExecutions(*NRT_STATUS[key], count, chip)


def _vcpu(group: dict[str, Any] | None, doubts: Doubts) -> float:
    usage = object_of(group or {}, "average_usage")
    told = {key: usage[key] for key in BUSY if usage.get(key) is not None}
    busy = [doubts.number(value, f"average_usage.{key}", MOST_PCT) for key, value in told.items()]
    if None in busy:
        return math.nan
    # Before its first interval neuron-monitor has no values, or zeros throughout.
    if usage.get("user") is None or not any(number_of(value) for value in usage.values()):
        return math.nan
    return min(sum(value for value in busy if value is not None), 100.0)


def _cores(runtimes: list[Runtime], chips: Chips) -> Iterator[CoreFacts]:
    """Yield the counters of each process's cores; cores with only 0 come once.

    Most are: each process lists every core.
    """
    idle: set[tuple[int, int]] = set()
    for runtime in runtimes:
        for core, facts in (runtime.cores or {}).items():
            if core not in runtime.busy:
                if (core, len(facts)) in idle:
                    continue
                idle.add((core, len(facts)))
            place = chips.cores.get(core)
            if place is not None:
                yield core, place, facts
