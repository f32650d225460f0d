"""The schedule of a run's faults: incidents from fleet file, scenario, rates and requests.

Targets are resolved here, and drawn from the seed if they are random. The timeline handles an
incident from its begin on.
"""

from __future__ import annotations

import heapq
import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.domain.durations import DAY_S
from trnfleet.domain.faults.fault import Fault, FaultScope, check_use
from trnfleet.domain.faults.table import FAULTS, find_fault
from trnfleet.domain.fleet import (
    FleetFile,
    Inference,
    Job,
    Link,
    Rates,
    Straggler,
    chip_at,
    find_lane,
)
from trnfleet.domain.layout import Layout, Node
from trnfleet.domain.targets import Target, lanes_of, resolve
from trnfleet.errors import ConfigError, nearest
from trnfleet.sim.faults.incident import Incident, make_incident
from trnfleet.sim.rng import Rng, Stream, bell, next_word, part_of, share_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from trnfleet.domain.scenario import FaultEntry, LoadEntry, Scenario
    from trnfleet.sim.placement import Placement


STRETCH_S = 10.0
"""Seconds of a stretch of time, drawn as one."""
MOST_IN_STRETCH = 4
"""Most events of one fault in a stretch. At the highest mean allowed, more have a chance below 1 in
250."""
HIGHEST_MEAN = 1.0
"""Highest mean number of events of one fault in a stretch. A higher acceleration is refused."""
LENGTH_SD = 1.2
"""Standard deviation of the logarithm of a random fault's duration: assumed. One sixth last a third
of the median or less, one sixth three times as long. Published: tens of seconds to ten hours
(FALCON, arXiv 2410.12588)."""
MEND_SD = 0.6
"""The same of repairs, reloads, reboots and replacements: assumed."""
REPEAT = 0.2
"""Chance that a random fault comes again on the same target if its recovery changes no hardware:
assumed. The first ones are rarer by as much, so that the total is the table's."""
REPEAT_S = 7_200.0
"""Median time until then: assumed; with `LENGTH_SD`."""
WEAKNESS_STEPS = 2**16
"""Steps of the whole numbers in which the instances' weakness is summed up."""
STRETCHES = 64
"""Stretches that are drawn in one go."""
_WORDS = 1 + 2 * MOST_IN_STRETCH


class RandomFault(NamedTuple):
    """A fault drawn at its rate."""

    time_s: float
    fault: Fault
    word: int
    """Random word of 64 bits; selects the target."""


class RandomFaults:
    """The random faults of a fleet, drawn stretch after stretch."""

    def __init__(self, rng: Rng, rates: Rates | None, chips: int) -> None:
        """Prepare a process for each chosen fault with a rate in the table.

        Raises:
            ConfigError: the acceleration gives more faults than a stretch can hold.
        """
        self._rng = rng
        self._next = 0
        self._drawn = -1
        self._words: NDArray[np.uint64] = np.zeros(0, np.uint64)
        self._processes: list[tuple[Fault, list[float]]] = []
        self._parts: list[int] = []
        if rates is None or rates.acceleration == 0:
            return
        for fault in FAULTS.values():
            chosen = (
                not rates.only or fault.name in rates.only
            ) and fault.name not in rates.without
            if (
                not chosen
                or fault.rate_per_device_day is None
                or fault.scope is FaultScope.PUBLISHER
            ):
                continue
            mean = fault.rate_per_device_day * chips * rates.acceleration * STRETCH_S / DAY_S
            mean *= 1.0 - REPEAT if fault.can_repeat else 1.0
            if mean > HIGHEST_MEAN:
                most = rates.acceleration * HIGHEST_MEAN / mean
                raise ConfigError(
                    f"rates.acceleration = {rates.acceleration:g}: {fault.name} would come"
                    f" {mean:.3g} times in {STRETCH_S:g} s on {chips:,} chips; at most {most:.3g}"
                )
            self._processes.append((fault, _steps(mean)))
            self._parts.append(part_of(fault.name))
        self._least = np.array([steps[0] for _, steps in self._processes])

    def until(self, end_s: float) -> list[RandomFault]:
        """Return the faults of undrawn stretches beginning before `end_s`, in order of time."""
        if not self._processes:
            return []
        drawn: list[RandomFault] = []
        while self._next * STRETCH_S < end_s:
            block, first = divmod(self._next, STRETCHES)
            # At least one: the end may be rounded to just below a stretch's begin.
            begun = math.ceil(end_s / STRETCH_S) - block * STRETCHES
            last = min(STRETCHES, max(first + 1, begun))
            words = self._block(block)[first:last]
            chance = (words[:, :, 0] >> np.uint64(11)).astype(np.float64) * 2.0**-53
            for stretch, place in np.argwhere(chance >= self._least).tolist():
                fault, steps = self._processes[place]
                own: list[int] = words[stretch, place].tolist()
                for event in range(sum(float(chance[stretch, place]) >= step for step in steps)):
                    inside = (own[1 + 2 * event] >> 11) * 2.0**-53
                    drawn.append(
                        RandomFault(
                            (self._next + stretch + inside) * STRETCH_S, fault, own[2 + 2 * event]
                        )
                    )
            self._next = block * STRETCHES + last
        return sorted(drawn, key=lambda fault: fault.time_s)

    def _block(self, number: int) -> NDArray[np.uint64]:
        """Return the words of a block of stretches: shape (stretches, processes, words)."""
        if number != self._drawn:
            self._drawn = number
            count = STRETCHES * _WORDS
            words = [self._rng.words(Stream.WEAR, number, count, part) for part in self._parts]
            self._words = np.stack([block.reshape(STRETCHES, _WORDS) for block in words], axis=1)
        return self._words


def _steps(mean: float) -> list[float]:
    """Return the thresholds of a uniform draw for 1, 2, ... events."""
    steps = []
    below = 0.0
    term = math.exp(-mean)
    for events in range(1, MOST_IN_STRETCH + 1):
        below += term
        steps.append(below)
        term *= mean / events
    return steps


_FIRST_REQUEST = 2**32 + 1
"""Number of the first request's draw; a scenario's entries have the numbers below it."""


class LoadChange(NamedTuple):
    """A period with a multiplied load of an inference job, from a scenario."""

    job: int
    begins_s: float
    ends_s: float
    factor: float


class FaultSchedule:
    """Future incidents and load changes of a run."""

    def __init__(
        self,
        layout: Layout,
        fleet: FleetFile,
        placement: Placement,
        rng: Rng,
        scenario: Scenario | None,
    ) -> None:
        """Resolve the entries of both files.

        Raises:
            ConfigError: an address, link or job does not exist, a fault cannot hit it, or two
                entries of the fleet file are active on the same thing at a time; the message names
                the nearest.
        """
        self._layout = layout
        self._placement = placement
        self._rng = rng
        self._requests = itertools.count(_FIRST_REQUEST)
        self.of_fleet_file = _from_fleet_file(layout, placement, fleet)
        """The stragglers and links of the fleet file."""
        self._repeats = [] if scenario is None else list(self._entries(scenario))
        self.loads = [] if scenario is None else list(_loads(scenario.loads, fleet.jobs))
        if scenario is None or (scenario.rates is None and scenario.keeps_faults):
            rates = fleet.rates_for(layout.chips)
        else:
            rates = scenario.rates
        self._random = RandomFaults(rng, rates, layout.chips)
        # Gamma of shape 1 for each instance, in whole numbers, so that sums are exact.
        evenly = 1.0 - rng.uniform(Stream.WEAKNESS, 0, len(layout.instances))
        weakness = np.floor(-np.log(evenly) * WEAKNESS_STEPS).astype(np.int64) + 1
        self._weakness = np.cumsum(weakness * np.diff(layout.chip_start))
        """Running sum of the instances' weakness; random faults choose by it."""
        self._again: list[tuple[float, int, Fault, Target]] = []
        """Repeats to come: time, random word, fault and target."""

    def until(self, end_s: float) -> Iterator[Incident]:
        """Yield the incidents that begin up to `end_s`, each once.

        Entries of the scenario come first, then random faults.
        """
        for repeat in self._repeats:
            while repeat.left and repeat.next_s <= end_s:
                yield from repeat.incidents(self._layout, self._placement)
        for drawn in self._random.until(end_s):
            target = self._target(drawn)
            if target is not None:
                heapq.heappush(self._again, (drawn.time_s, drawn.word, drawn.fault, target))
        while self._again and self._again[0][0] <= end_s:
            time_s, word, fault, target = heapq.heappop(self._again)
            yield self._of_chance(fault, target, time_s, word)

    def _of_chance(self, fault: Fault, target: Target, begins_s: float, word: int) -> Incident:
        """Return a random fault with drawn strength and length; it may come again."""
        words = next_word(np.full(5, word, np.uint64), np.arange(5))
        strength, length, mending, later = bell(words[:4]).tolist()
        magnitude = None
        if fault.drawn is not None:
            median, sd = fault.drawn
            magnitude = min(max(median * math.exp(sd * strength), fault.least), fault.most)
        stages = fault.stages._replace(mend_s=fault.stages.mend_s * math.exp(MEND_SD * mending))
        incident = make_incident(
            self._layout,
            self._placement,
            fault,
            target,
            begins_s,
            lasts_s=fault.lasts_s * math.exp(LENGTH_SD * length) if fault.ends_by_itself else None,
            magnitude=magnitude,
            stages=stages,
        )
        if fault.can_repeat and float(share_of(words[4])) < REPEAT:
            again_s = incident.over_s + REPEAT_S * math.exp(LENGTH_SD * later)
            heapq.heappush(self._again, (again_s, int(words[4]), fault, target))
        return incident

    def request(
        self,
        fault: str,
        target: str,
        now_s: float,
        *,
        lasts_s: float | None,
        magnitude: float | None,
    ) -> list[Incident]:
        """Return the incidents, at least one, of a fault that a command begins at `now_s`.

        Raises:
            ConfigError: fault or target is unknown, or they do not go together; the message names
                the nearest.
        """
        row = find_fault(fault)
        if row.is_transport:
            raise ConfigError(
                f"{fault} is a fault of the publisher's connection, which this simulator cannot"
                " reach"
            )
        check_use(row, lasts_s, magnitude)
        targets = resolve(self._layout, row, target, self._draw(next(self._requests)))
        return [
            make_incident(
                self._layout,
                self._placement,
                row,
                place,
                now_s,
                lasts_s=lasts_s,
                magnitude=magnitude,
            )
            for place in targets
        ]

    def _entries(self, scenario: Scenario) -> Iterator[_Repeat]:
        for number, (entry, begin_s) in enumerate(
            zip(scenario.faults, scenario.begins(), strict=True)
        ):
            fault = find_fault(entry.fault)
            if fault.is_transport:
                continue
            try:
                targets = resolve(self._layout, fault, entry.target, self._draw(number))
            except ConfigError as error:
                raise ConfigError(f"faults[{number}].target: {error}") from error
            if fault.needs_job and not any(
                make_incident(self._layout, self._placement, fault, target, begin_s).jobs
                for target in targets
            ):
                raise ConfigError(
                    f"faults[{number}].target = {entry.target!r}: {fault.name} needs a job, and"
                    " none runs there"
                )
            yield _Repeat(entry, fault, targets, begin_s)

    def _target(self, drawn: RandomFault) -> Target | None:
        """Return the target of a random fault; None if the fleet has no such target."""
        layout = self._layout
        fault = drawn.fault
        # An instance by its weakness, and one of its chips.
        place = (drawn.word >> 11) * 2.0**-53 * int(self._weakness[-1])
        weakest = Node(Level.INSTANCE, int(np.searchsorted(self._weakness, place, side="right")))
        first, last = layout.chip_start[weakest.number : weakest.number + 2].tolist()
        chip = Node(Level.CHIP, first + drawn.word % (last - first))
        instance = weakest
        if fault.scope is FaultScope.CHIP:
            return Target(chip)
        if fault.scope is FaultScope.LINK:
            mask = int(layout.chip_links_mask[chip.number])
            ways = [
                lane
                for lane in lanes_of(layout.type_of(instance.number), fault.links)
                if mask >> lane & 1
            ]
            return Target(chip, ways[drawn.word // layout.chips % len(ways)]) if ways else None
        if fault.scope is FaultScope.ULTRASERVER:
            group = layout.parent(instance)
            return None if layout.is_standalone[group.number] else Target(group)
        return Target(instance)

    def _draw(self, index: int) -> Callable[[int, int], list[int]]:
        """Return a function that draws different numbers below a limit.

        The numbers follow from the seed and `index`.
        """
        parts = itertools.count()

        def draw(count: int, limit: int) -> list[int]:
            chosen: dict[int, None] = {}
            for part in parts:
                words = self._rng.words(Stream.FAULT_TARGET, index, 4 * count + 16, part)
                for word in words.tolist():
                    chosen[word % limit] = None
                    if len(chosen) == count:
                        return sorted(chosen)
            raise AssertionError("there is always another part")

        return draw


class _Repeat:
    """A scenario entry and its remaining times."""

    def __init__(
        self, entry: FaultEntry, fault: Fault, targets: list[Target], begin_s: float
    ) -> None:
        self._entry = entry
        self._fault = fault
        self._targets = targets
        self.next_s = begin_s
        self.left: float = 1 if entry.every is None else entry.times or math.inf

    def incidents(self, layout: Layout, placement: Placement) -> Iterator[Incident]:
        """Yield the incidents of the next time."""
        begins_s = self.next_s
        entry = self._entry
        self.left -= 1
        self.next_s += entry.every or 0.0
        for target in self._targets:
            yield make_incident(
                layout,
                placement,
                self._fault,
                target,
                begins_s,
                lasts_s=entry.lasts_s,
                magnitude=entry.magnitude,
            )


def _loads(entries: Sequence[LoadEntry], jobs: Sequence[Job]) -> Iterator[LoadChange]:
    """Yield a scenario's changes of load.

    Raises:
        ConfigError: a job is unknown, or none whose load can change; the message names the key.
    """
    names = [job.name for job in jobs]
    for number, load in enumerate(entries):
        if load.job not in names:
            raise ConfigError(f"loads[{number}].job = {load.job!r}: {nearest(load.job, names)}")
        job = names.index(load.job)
        if not isinstance(jobs[job], Inference):
            raise ConfigError(
                f"loads[{number}].job = {load.job!r}: not an inference job; only their load can"
                " change"
            )
        yield LoadChange(job, load.at, load.at + load.lasts_s, load.factor)


def _from_fleet_file(layout: Layout, placement: Placement, fleet: FleetFile) -> list[Incident]:
    """Return the stragglers and links of a fleet file; slow ones write no log lines.

    A link that is down is the fault of that name, with its recovery.

    Raises:
        ConfigError: an address or a link does not exist, or two entries are active on the same
            thing at a time.
    """
    stragglers = []
    for number, straggler in enumerate(fleet.stragglers):
        key = f"stragglers[{number}]"
        chip = _chip(layout, f"{key}.chip", straggler.chip)
        stragglers.append(
            make_incident(
                layout,
                placement,
                FAULTS["straggler"],
                Target(Node(Level.CHIP, chip)),
                straggler.from_s,
                lasts_s=_until(key, straggler) - straggler.from_s,
                magnitude=straggler.slower_pct,
                is_logged=False,
            )
        )
    links = []
    for number, link in enumerate(fleet.links):
        key = f"links[{number}]"
        chip = _chip(layout, f"{key}.chip", link.chip)
        try:
            direction = find_lane(layout, chip, link.direction)
        except ValueError as error:
            raise ConfigError(f"{key}.direction = {link.direction!r}: {error}") from error
        target = Target(Node(Level.CHIP, chip), direction)
        lasts_s = _until(key, link) - link.from_s
        if link.capacity > 0:
            incident = make_incident(
                layout,
                placement,
                FAULTS["link_degraded"],
                target,
                link.from_s,
                lasts_s=lasts_s,
                magnitude=link.capacity,
                is_logged=False,
            )
        else:
            kind = layout.type_of(int(layout.instance_of_chip[chip]))
            down = FAULTS["z_link_down" if kind.is_between(direction) else "link_down"]
            whole_s = lasts_s if math.isfinite(lasts_s) else None
            incident = make_incident(layout, placement, down, target, link.from_s, lasts_s=whole_s)
        links.append(incident)
    _check_overlaps(layout, stragglers, "stragglers")
    _check_overlaps(layout, links, "links")
    return stragglers + links


def _chip(layout: Layout, key: str, path: str) -> int:
    try:
        return chip_at(layout, path, key)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _until(key: str, given: Straggler | Link) -> float:
    if given.until_s is None:
        return math.inf
    if given.until_s <= given.from_s:
        raise ConfigError(
            f"{key}.until_s = {given.until_s:g}: must be after from_s, {given.from_s:g}"
        )
    return given.until_s


def _check_overlaps(layout: Layout, incidents: list[Incident], key: str) -> None:
    """Raise if two entries affect the same chip or link at the same time.

    A link is the same from either end.

    Raises:
        ConfigError: the message names both entries.
    """
    last: dict[tuple[int, ...], tuple[int, float]] = {}
    for number, incident in sorted(enumerate(incidents), key=lambda pair: pair[1].begins_s):
        where = incident.rows if not incident.links else tuple(sorted(incident.links[0].lanes))
        other, until_s = last.get(where, (-1, 0.0))
        if other >= 0 and incident.begins_s < until_s:
            path = layout.path(incident.target.node)
            raise ConfigError(
                f"{key}[{number}].from_s = {incident.begins_s:g}: {key}[{other}] is active on {path} at"  # noqa: E501
                " that time"
            )
        last[where] = (number, incident.over_s)
