"""The series of a rule test: its values by step and its store places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.domain.alerts.rule_tests import code_of, expand_address
from trnfleet.domain.alerts.series import Mark
from trnfleet.domain.alerts.signals import LANES, Scope
from trnfleet.domain.metrics import BY_NAME
from trnfleet.domain.metrics import Scope as MetricScope
from trnfleet.errors import nearest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.domain.alerts.rule_tests import SeriesCase
    from trnfleet.domain.alerts.series import Sample
    from trnfleet.domain.layout import Layout, Node
    from trnfleet.monitor.store.store import Store


class Playback:
    """The samples of a series at each step."""

    __slots__ = ("_interval_ns", "_newest", "_samples", "_stale_after_ns")

    def __init__(self, samples: tuple[Sample, ...], interval_ns: int, stale_after_ns: int) -> None:
        self._samples = samples
        self._interval_ns = interval_ns
        self._stale_after_ns = stale_after_ns
        newest = -1
        self._newest = list[int]()
        for step, sample in enumerate(samples):
            newest = newest if sample is Mark.GAP else step
            self._newest.append(newest)

    def is_new(self, step: int) -> bool:
        """Return whether a step has a sample."""
        return step < len(self._samples) and not isinstance(self._samples[step], Mark)

    def value(self, step: int) -> float | str | None:
        """Return the value at a step.

        None if there is none or it is too old.
        """
        newest = self._newest[min(step, len(self._newest) - 1)] if self._newest else -1
        if newest < 0 or (step - newest) * self._interval_ns > self._stale_after_ns:
            return None
        sample = self._samples[newest]
        return None if isinstance(sample, Mark) else sample


class SeriesRows:
    """One series and its places in the store."""

    def __init__(self, series: SeriesCase, playback: Playback, layout: Layout) -> None:
        """Find the places.

        Raises:
            ValueError: a target is unknown, or a value is outside its metric's range.
        """
        self.figure = series.figure
        self.playback = playback
        self._codes: dict[float | str, int] = {}
        chips: list[int] = []
        lanes: list[int] = []
        instances: list[int] = []
        for target in expand_address(series.target):
            path, _, direction = target.partition(":")
            node = layout.find(path)
            if node is None:
                raise ValueError(
                    f"{target!r} is not there; name its instance in [[tests.instances]]"
                )
            covered = layout.chip_range(node)
            chips += covered
            lane = -1
            if direction:
                lane = _link_lane(layout, node, direction)
            elif path.count("/") + 1 == Level.CORE:
                core = path.rpartition("/")[2]
                if core not in LANES[Scope.CORE]:
                    raise ValueError(f"{target!r} is no core: {nearest(core, LANES[Scope.CORE])}")
                lane = LANES[Scope.CORE].index(core)
            lanes += [lane] * len(covered)
            if path.count("/") + 1 <= Level.INSTANCE:
                instances += layout.instance_range(node)
        self.chips = np.array(chips, np.int64)
        self._lanes = np.array(lanes, np.int64)
        metric = "links_up" if self.figure == "link_up" else self.figure
        self._metric = BY_NAME[metric]
        of_host = self._metric.scope is MetricScope.INSTANCE
        self._places = np.array(instances, np.int64) if of_host else self.chips
        for sample in series.values:
            if not isinstance(sample, Mark):
                self._codes[sample] = self._code(sample)

    def write(self, store: Store, value: float | str | None, live: NDArray[np.bool_]) -> None:
        """Write a value into the store.

        Without a value, live places become not available. The others stay as last known.
        """
        column = store.columns[self._metric.name]
        places = self._places
        if value is None:
            if self.figure == "link_up":
                return
            if self._metric.scope is MetricScope.INSTANCE:
                starts = store.layout.chip_start
                dead = [row for row in places.tolist() if live[starts[row] : starts[row + 1]].any()]
                column[np.array(dead, np.int64)] = self._metric.top
            else:
                still = live[places]
                self._put(column, places[still], self._lanes[still], self._metric.top)
            return
        code = self._codes[value]
        if self.figure == "link_up":
            bits = (1 << self._lanes).astype(np.uint8)
            # Several links of one chip may be in one series.
            (np.bitwise_or if code else np.bitwise_and).at(column, places, bits if code else ~bits)
        else:
            self._put(column, places, self._lanes, code)

    def _put(
        self, column: NDArray[Any], places: NDArray[np.int64], lanes: NDArray[np.int64], code: int
    ) -> None:
        if not self._metric.is_vector:
            column[places] = code
            return
        whole = lanes[: len(places)] < 0
        column[places[whole], :] = code
        column[places[~whole], lanes[~whole]] = code

    def _code(self, sample: float | str) -> int:
        if self.figure == "link_up":
            if sample not in {0.0, 1.0}:
                raise ValueError(f"link_up {sample!r} is neither 0 nor 1")
            return int(sample == 1.0)
        return code_of(self.figure, sample)


def _link_lane(layout: Layout, node: Node, name: str) -> int:
    """Return the number of a link lane of a chip.

    Raises:
        ValueError: its type has no lane of that name.
    """
    names = layout.lane_names_of(int(layout.instance_of_chip[node.number]))
    if name not in names:
        raise ValueError(f"{layout.path(node)}:{name} is no link: {nearest(name, names)}")
    return names.index(name)
