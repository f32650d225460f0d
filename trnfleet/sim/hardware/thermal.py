"""Temperatures of chips, and their remaining speed under heat and power limits.

Owns the cooling of each instance type and tray place, each chip's fixed offset, and the power and
inlet reached by every instance's temperatures, without noise. Chips and throttling share them, so
that both see the same temperatures. Throttling covers the whole fleet, since a job is as slow as
its slowest chip, in any shard. A chip's withheld peak and the resulting temperature are solved
together, so that windows of any length settle without oscillating.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.metrics import BY_NAME
from trnfleet.domain.power import Racks
from trnfleet.errors import ConfigError
from trnfleet.sim.hardware.columns import CHUNK_INSTANCES, noise_chips
from trnfleet.sim.hardware.variation import part_words, power_deviations
from trnfleet.sim.rng import Rng, Stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from trnfleet.domain.fleet import FleetFile
    from trnfleet.domain.hardware.catalogue import CoolingKind
    from trnfleet.domain.layout import Layout

LEAST_PACE = 0.2
"""Smallest share of peak of a chip, however hot or limited: assumed, a lowest clock."""
PEAK_MEMORY_S = 300.0
"""Window of the peak demand with which a power limit is compared: assumed. Much longer than a step,
so that the limit of a training job's compute phase outlasts its collectives."""
OFFSET_C = 1.0
"""Fixed differences between chips (paste, sensor), plus or minus degC: assumed."""
TRAY_CHIPS = 2
"""Chips of a tray, one behind the other in the air. Published for trn2 (eight trays of two chips,
SemiAnalysis), assumed for the other types. An instance's chips fill their trays in order."""
FRONT = 0.78
REAR = 1.02
"""Rise over the inlet by tray place, as shares of the type's rise: assumed. The rear chip gets air
warmed by the front one: 9 degC at the mean power of a training job on Trainium2; 5 to 15 are usual
from the front of a tray to its back. The type's figure is the rear chip's, since it throttles
first."""
HOT_SHARES = (0.85, 0.55, 0.3)
"""Power shares, above the background, at which an instance's hottest chip is determined. At full
power it is a leaky part, at less one with a bad contact."""
HOT_MARGIN_C = 3.0
"""Largest excess of any chip over the first of these. Twice the largest offset, plus a margin."""


COOLED_C = BY_NAME["temperature_c"].scale / 2.0
"""Excess of a mended chip below which it is like its peers, degC: what rounding hides."""


class Cooling:
    """The cooling of every instance type of a fleet."""

    def __init__(self, layout: Layout, kind: CoolingKind) -> None:
        """Look the types up in the hardware catalogue."""
        of_types = [instance_type.chip.cooling(kind) for instance_type in layout.types]
        self.chip_c_per_w = [
            cooling.thermal_resistance_c_per_w.value * place_shares(kind.chips)
            for cooling, kind in zip(of_types, layout.types, strict=True)
        ]
        """For each type, the rise over the inlet per watt of an instance's chips."""
        self._time_constant_s = [cooling.thermal_time_constant_s.value for cooling in of_types]

    def approach(self, elapsed_s: float) -> NDArray[np.float64]:
        """Return a chip's progress to its settled temperature in `elapsed_s`, 0 to 1.

        Shape (types,). Exact for constant power of any length.
        """
        return np.array(
            [-math.expm1(-elapsed_s / constant_s) for constant_s in self._time_constant_s]
        )


def place_shares(chips: int) -> NDArray[np.float64]:
    """Return, for each chip of an instance, its place's share of the type's rise."""
    return np.where(np.arange(chips) % TRAY_CHIPS == 0, FRONT, REAR)


def offset_lanes(layout: Layout, rng: Rng, own: range) -> NDArray[np.uint16]:
    """Return the draws of chip offsets: shape (instances of `own`, lanes).

    Lanes beyond an instance's chips are unused.
    """
    most = noise_chips(layout)
    if not own:
        return np.zeros((0, most), np.uint16)
    reader = rng.lanes(Stream.THERMAL_OFFSET, 0, most * 2, own.start)
    lanes: NDArray[np.uint16] = reader.read(len(own), np.uint16)
    chips = np.diff(layout.chip_start[own.start : own.stop + 1])
    lanes[np.arange(most) >= chips[:, None]] = 0
    return lanes


def chip_offsets_c(layout: Layout, rng: Rng, own: range) -> NDArray[np.float32]:
    """Return each chip's fixed offset, degC.

    An even spread, from the seed and the chip's place in the fleet. Shape (chip rows of the
    instances `own`,).
    """
    chips = np.diff(layout.chip_start[own.start : own.stop + 1])
    lanes = offset_lanes(layout, rng, own)
    return _degrees(lanes[np.arange(lanes.shape[1]) < chips[:, None]])


class ThrottledChips(NamedTuple):
    """Chips that withhold peak."""

    rows: NDArray[np.int64]
    """Chip rows, ascending."""
    pct: NDArray[np.float64]
    """Share of peak that each withholds, %."""


NOTHING = ThrottledChips(np.zeros(0, np.int64), np.zeros(0))


class PoorCooling(NamedTuple):
    """Chips that are cooled less well than their type."""

    rows: NDArray[np.int64]
    """Chip rows, ascending."""
    factor: NDArray[np.float64]
    """Rise of each over the inlet, as a multiple of the usual one."""

    def at(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Return which of some chip rows are among them, and the factors of these."""
        place = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        is_poor = self.rows[place] == rows
        return is_poor, self.factor[place[is_poor]]


WELL_COOLED = PoorCooling(np.zeros(0, np.int64), np.zeros(0))


class Throttling:
    """Temperatures and limits of a whole fleet; arrays of shape (instances,)."""

    def __init__(self, layout: Layout, fleet: FleetFile, rng: Rng) -> None:
        """Begin cold: the first window settles the temperatures.

        Args:
            layout: The fleet's hierarchy.
            fleet: Says how it is cooled, and what a rack may draw.
            rng: The run's randomness, for the chips' fixed offsets.

        Raises:
            ConfigError: a rack draws more than its limit even when idle.
        """
        self._layout = layout
        self._cooled = Cooling(layout, fleet.cooling)
        self._inlet_c = fleet.inlet_c
        self._type = layout.instance_type
        types = layout.types

        def of_types(values: list[float]) -> NDArray[np.float64]:
            return np.array(values, np.float64)[self._type]

        self._background_w = of_types(
            [instance_type.chip.power_background_w.value for instance_type in types]
        )
        self._most_w = of_types([instance_type.chip.power_max_w.value for instance_type in types])
        self._dynamic_w = self._most_w - self._background_w
        start_c = of_types([instance_type.chip.throttle_start_c.value for instance_type in types])
        limit_c = of_types([instance_type.chip.throttle_limit_c.value for instance_type in types])
        self._start_c = start_c
        self._slope_per_c = (1.0 - LEAST_PACE) / (limit_c - start_c)
        whole = range(len(layout.instances))
        self._offset_c = chip_offsets_c(layout, rng, whole)
        self._power_factor = power_deviations(part_words(layout, rng, whole)) + np.float32(1.0)
        """Of each chip's power above the background over its cohort's mean."""
        self._find_extremes()
        self._chips = np.diff(layout.chip_start).astype(np.float64)
        self._racks: Racks | None = None
        self._rack_cap_w = math.inf
        if fleet.rack_power_cap_w is not None:
            self._rack_cap_w = fleet.rack_power_cap_w
            self._racks = Racks.of(layout)
            self._rack_of_instance = self._racks.of_instance
            host_idle_w = of_types(
                [instance_type.host_power_idle_w.value for instance_type in types]
            )
            self._check_idle(self._racks, self._chips * self._background_w + host_idle_w)
        self._host_w = of_types([instance_type.host_power_max_w.value for instance_type in types])
        self._lag_w = np.zeros(len(self._type))
        """Power of an instance's mean chip after the cooling's lag; its temperatures follow this.
        """
        self._lag_c = np.full(len(self._type), self._inlet_c)
        """The same of its inlet."""
        self._demand_w = np.zeros(len(self._type))
        self._peak_w = np.zeros(len(self._type))
        self._is_cold = True
        self._approach_of = math.nan
        self._last_approach = np.zeros(0)
        self.pace = np.ones(len(self._type))
        """Share of peak of each instance's slowest chip."""
        self._paced_for: tuple[float, NDArray[np.floating], NDArray[np.floating]] | None = None
        """Length, inlets and caps of the window for `pace`."""
        self._withholding: tuple[NDArray[np.float64], ...] | None = None
        self._throttled = NOTHING
        self._poor = WELL_COOLED
        """Poorly cooled chips, and mended ones that are still too hot; these have a factor of 1."""
        self._excess_c = np.zeros(0)
        """How much hotter each is than its type would be."""
        self._ending_c = self._excess_c
        """The same at the end of the window for `pace`."""

    def set_cooling(self, poor: PoorCooling) -> None:
        """Set the chips that are cooled less well from now on."""
        rows = np.union1d(poor.rows, self._poor.rows[self._excess_c > COOLED_C])
        factor = np.ones(len(rows))
        factor[np.searchsorted(rows, poor.rows)] = poor.factor
        excess_c = np.zeros(len(rows))
        was_poor = np.isin(rows, self._poor.rows)
        excess_c[was_poor] = self._excess_c[np.searchsorted(self._poor.rows, rows[was_poor])]
        if not np.array_equal(rows, self._poor.rows) or (factor != self._poor.factor).any():
            self._paced_for = None
        self._poor = PoorCooling(rows, factor)
        self._excess_c = excess_c

    def _find_extremes(self) -> None:
        """Find the mean and the hottest chip of each instance, and the greatest power factor."""
        count = len(self._type)
        self._mean_factor, self._most_factor = np.ones(count), np.ones(count)
        self._hot = np.zeros((len(HOT_SHARES), 3, count))
        """Hottest chip of each instance at each share: rise per watt, power factor, offset."""
        sizes = np.diff(self._layout.chip_start)
        for index, kind in enumerate(self._layout.types):
            own_c_per_w = self._cooled.chip_c_per_w[index]
            background_w = kind.chip.power_background_w.value
            most_w = kind.chip.power_max_w.value
            of_type = np.flatnonzero((self._type == index) & (sizes == kind.chips))
            for first in range(0, len(of_type), CHUNK_INSTANCES):
                instances = of_type[first : first + CHUNK_INSTANCES]
                rows = self._layout.chip_rows(instances).reshape(len(instances), kind.chips)
                factor = self._power_factor[rows].astype(np.float64)
                offset_c = self._offset_c[rows].astype(np.float64)
                every = np.arange(len(instances))
                for number, share in enumerate(HOT_SHARES):
                    dynamic_w = share * (most_w - background_w)
                    hot = (offset_c + own_c_per_w * (background_w + factor * dynamic_w)).argmax(
                        axis=1
                    )
                    chosen = (own_c_per_w[hot], factor[every, hot], offset_c[every, hot])
                    for place, values in enumerate(chosen):
                        self._hot[number, place, instances] = values
                self._most_factor[instances] = factor.max(axis=1)
                for column in range(kind.chips):
                    self._mean_factor[instances] += (factor[:, column] - 1.0) / kind.chips

    def chip_temperature_c(self, instances: NDArray[np.intp]) -> NDArray[np.float32]:
        """Return the chip temperatures of some instances after the last window, degC.

        Row after row, without noise.
        """
        dynamic_w = self._lag_w - self._background_w
        pieces = [
            self._chip_c(piece, self._lag_c, dynamic_w, self._excess_c)[1].reshape(-1)
            for piece in self._pieces(instances)
        ]
        return np.concatenate([np.zeros(0, np.float32), *pieces])

    def _approach(self, elapsed_s: float) -> NDArray[np.float64]:
        """Return an instance's progress to its settled temperature in `elapsed_s`.

        Cached, because windows are mostly alike.
        """
        if self._approach_of != elapsed_s:
            self._approach_of = elapsed_s
            self._last_approach = self._cooled.approach(elapsed_s)[self._type]
        return self._last_approach

    def _pieces(self, instances: NDArray[np.intp]) -> Iterator[NDArray[np.intp]]:
        """Yield instances in order, in cache-sized pieces of one type."""
        edges = np.flatnonzero(np.diff(self._type[instances])) + 1
        for same in np.split(instances, edges):
            for first in range(0, len(same), CHUNK_INSTANCES):
                yield same[first : first + CHUNK_INSTANCES]

    def _chip_c(
        self,
        instances: NDArray[np.intp],
        inlet_c: NDArray[np.float64],
        dynamic_w: NDArray[np.float64],
        excess_c: NDArray[np.float64],
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return the rows and temperatures of the chips of instances of one type.

        Shape (instances, chips).

        Args:
            instances: Their numbers.
            inlet_c: For each instance of the fleet its inlet, after the cooling's lag.
            dynamic_w: Its mean chip's power above the background, after the lag.
            excess_c: How much hotter each poorly cooled chip is.
        """
        c_per_w = self._cooled.chip_c_per_w[int(self._type[instances[0]])].astype(np.float32)
        rows = self._layout.chip_start[instances, None] + np.arange(len(c_per_w))

        def by_chip(values: NDArray[np.float64]) -> NDArray[np.float32]:
            return values[instances].astype(np.float32)[:, None]

        degrees: NDArray[np.float32] = self._power_factor[rows]
        degrees *= by_chip(dynamic_w)
        np.minimum(degrees, by_chip(self._dynamic_w), out=degrees)
        degrees += by_chip(self._background_w)
        degrees *= c_per_w
        degrees += self._offset_c[rows]
        degrees += by_chip(inlet_c)
        if len(self._poor.rows):
            is_poor, more_c = PoorCooling(self._poor.rows, excess_c).at(rows)
            degrees[is_poor] += more_c.astype(np.float32)
        return rows, degrees

    def advance(
        self,
        elapsed_s: float,
        power_w: NDArray[np.float64],
        inlet_delta_c: NDArray[np.floating],
        cap_share: NDArray[np.floating],
        host_power_w: NDArray[np.float64] | None = None,
        settled_w: NDArray[np.float64] | None = None,
    ) -> None:
        """Advance by a window, and limit the next as if it were like this one.

        Args:
            elapsed_s: Its length.
            power_w: Mean power of a chip of each instance, at the pace set, W.
            inlet_delta_c: Excess of an instance's inlet over the fleet's.
            cap_share: Allowed share of a chip's maximum power, 1 without a limit.
            host_power_w: Power of each host without its chips, for racks with a limit; its maximum
                by default.
            settled_w: Power for settling the temperatures in the first window, such as the mean
                over a job's cycle; by default that of the window.
        """
        dynamic_w = power_w - self._background_w
        # At full pace it would draw this much more, but never more than a chip can.
        self._demand_w = np.minimum(dynamic_w / self.pace, self._dynamic_w)
        fading = math.exp(-elapsed_s / PEAK_MEMORY_S)
        self._peak_w = np.maximum(self._peak_w * fading, self._demand_w)
        if host_power_w is not None:
            self._host_w = host_power_w
        if self._is_cold:
            # Settled under its own law: a chip that would throttle at once begins throttled.
            demand_w = self._demand_w
            if settled_w is not None:
                self._demand_w = np.clip(settled_w - self._background_w, 0.0, self._dynamic_w)
            self._find_pace(math.inf, inlet_delta_c, cap_share)
            self._excess_c = self._ending_c
            self._lag_w = self._background_w + self._demand_w * self.pace
            self._lag_c = self._inlet_c + inlet_delta_c
            self._demand_w = demand_w
            self._is_cold = False
        else:
            approach = self._approach(elapsed_s)
            self._excess_c = self._excess_after(dynamic_w, approach)
            self._lag_w = self._lag_w + (power_w - self._lag_w) * approach
            self._lag_c = self._lag_c + (self._inlet_c + inlet_delta_c - self._lag_c) * approach
        self._find_pace(elapsed_s, inlet_delta_c, cap_share)

    def limit(
        self, elapsed_s: float, inlet_delta_c: NDArray[np.floating], cap_share: NDArray[np.floating]
    ) -> None:
        """Set `pace` and `throttled` for the next window, with the demand of the last.

        `advance` does so for a window like its own. Call this if the next window has another
        length, or if inlets or limits change with it.

        Args:
            elapsed_s: Its length.
            inlet_delta_c: As for `advance`.
            cap_share: As for `advance`.
        """
        # Mostly it is a window like the last, for which `advance` did so.
        if self._paced_for is not None:
            paced_s, *paced = self._paced_for
            if paced_s == elapsed_s and all(map(np.array_equal, paced, (inlet_delta_c, cap_share))):
                return
        self._find_pace(elapsed_s, inlet_delta_c, cap_share)

    def _find_pace(
        self, elapsed_s: float, inlet_delta_c: NDArray[np.floating], cap_share: NDArray[np.floating]
    ) -> None:
        """Set `pace` for a window, and with it `throttled`; arguments as for `limit`."""
        # The caller changes its arrays in place.
        self._paced_for = elapsed_s, inlet_delta_c.copy(), cap_share.copy()
        approach = self._approach(elapsed_s)
        left_w = self._lag_w - self._background_w
        inlet_c = self._lag_c + (self._inlet_c + inlet_delta_c - self._lag_c) * approach
        allowed = self._allowed(cap_share)
        c_per_w, factor, offset_c = self._hot[0]
        most_w = factor * np.maximum(left_w, self._demand_w) + self._background_w
        hot = np.flatnonzero(inlet_c + offset_c + c_per_w * most_w > self._start_c - HOT_MARGIN_C)
        self.pace = np.ones(len(self._type))
        for extreme in self._hot[:, :, hot]:
            self.pace[hot] = np.minimum(
                self.pace[hot], self._settled_pace(hot, extreme, inlet_c, left_w, approach)
            )
        if len(self._poor.rows):
            owners = self._layout.instance_of_chip[self._poor.rows].astype(np.intp)
            chips = np.stack(self._poor_chips(owners))
            excess = self._poor.factor, self._excess_c
            pace = self._settled_pace(owners, chips, inlet_c, left_w, approach, *excess)
            np.minimum.at(self.pace, owners, pace)
        self.pace = np.minimum(self.pace, allowed)
        self._ending_c = self._excess_after(self._demand_w * self.pace, approach)
        if not (self.pace < 1.0).any():
            self._withholding = None
            self._throttled = NOTHING
            return
        dynamic_w = left_w * (1.0 - approach) + approach * self._demand_w * self.pace
        self._withholding = inlet_c, dynamic_w, allowed

    @property
    def throttled(self) -> ThrottledChips:
        """Chips that withhold peak, computed on demand."""
        if self._withholding is not None:
            self._throttled = self._chips_that_withhold(*self._withholding)
            self._withholding = None
        return self._throttled

    def _settled_pace(
        self,
        instances: NDArray[np.intp],
        chip: NDArray[np.float64],
        inlet_c: NDArray[np.float64],
        left_w: NDArray[np.float64],
        approach: NDArray[np.float64],
        times: NDArray[np.float64] | float = 1.0,
        excess_c: NDArray[np.float64] | float = 0.0,
    ) -> NDArray[np.float64]:
        """Return the pace allowed by one chip of each of some instances.

        Solved together with the resulting temperature.

        Args:
            instances: Their numbers.
            chip: Its rise per watt, power factor and offset; shape (3, these instances).
            inlet_c: Inlet of each instance of the fleet at the window's end, after the cooling's
                lag.
            left_w: The mean chip's power above the background at its begin, after the lag.
            approach: Share of the way to new values.
            times: Rise of each chip as a multiple of its type's.
            excess_c: How much hotter than its type each was at the begin.
        """
        c_per_w, factor, offset_c = chip
        near = approach[instances]
        worse = near * c_per_w * (times - 1.0)
        most_w = self._dynamic_w[instances]
        start_c = self._start_c[instances]
        slope = self._slope_per_c[instances]
        # The temperature at the window's end is `base` at pace 0 and rises by `gain` to pace 1, as
        # far as the chip's maximum.
        still_c = inlet_c[instances] + offset_c + (c_per_w + worse) * self._background_w[instances]
        still_c = still_c + excess_c * (1.0 - near)
        base_c = still_c + c_per_w * factor * left_w[instances] * (1.0 - near)
        gain_c = (near * c_per_w + worse) * factor * self._demand_w[instances]
        # pace = 1 - slope x (base + gain x pace - start), solved for the pace.
        pace = (1.0 + slope * (start_c - base_c)) / (1.0 + slope * gain_c)
        at_most = 1.0 - slope * (still_c + (c_per_w + worse) * most_w - start_c)
        left: NDArray[np.float64] = np.clip(np.maximum(pace, at_most), LEAST_PACE, 1.0)
        return left

    def _poor_chips(self, instances: NDArray[np.intp]) -> tuple[NDArray[np.float64], ...]:
        """Return usual rise per watt, power factor and offset of each poorly cooled chip."""
        rows = self._poor.rows
        places = (rows - self._layout.chip_start[instances]).tolist()
        c_per_w = [
            self._cooled.chip_c_per_w[kind][place]
            for kind, place in zip(self._type[instances].tolist(), places, strict=True)
        ]
        return (
            np.array(c_per_w, np.float64),
            self._power_factor[rows].astype(np.float64),
            self._offset_c[rows].astype(np.float64),
        )

    def _excess_after(
        self, dynamic_w: NDArray[np.float64], approach: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return how much hotter each poorly cooled chip is after a window.

        Args:
            dynamic_w: For each instance, its mean chip's power above the background.
            approach: Share of the way to new values.
        """
        if not len(self._poor.rows):
            return self._excess_c
        instances = self._layout.instance_of_chip[self._poor.rows].astype(np.intp)
        c_per_w, factor, _ = self._poor_chips(instances)
        watts = self._background_w[instances] + np.minimum(
            factor * dynamic_w[instances], self._dynamic_w[instances]
        )
        settled_c = (self._poor.factor - 1.0) * c_per_w * watts
        return self._excess_c + (settled_c - self._excess_c) * approach[instances]

    def _allowed(self, cap_share: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return the pace under power limits; the background cannot be limited.

        A cap applies to each chip, so the highest draw decides. A rack's limit applies to the sum.
        """
        allowed = np.ones(len(self._type))
        if (cap_share < 1.0).any():
            room_w = np.where(
                cap_share < 1.0, cap_share * self._most_w - self._background_w, np.inf
            )
            allowed = _share(room_w, self._peak_w * self._most_factor)
        if self._racks is not None:
            still_w = self._racks.total(self._chips * self._background_w + self._host_w)
            of_rack = _share(
                self._rack_cap_w - still_w,
                self._racks.total(self._chips * self._mean_factor * self._peak_w),
            )
            allowed = np.minimum(allowed, of_rack[self._rack_of_instance])
        return allowed

    def _chips_that_withhold(
        self,
        inlet_c: NDArray[np.float64],
        dynamic_w: NDArray[np.float64],
        allowed: NDArray[np.float64],
    ) -> ThrottledChips:
        """Return the chips that withhold peak, by own temperature or instance limit.

        Args:
            inlet_c: Inlet of each instance, after the cooling's lag.
            dynamic_w: Its mean chip's power above the background, after the lag.
            allowed: The pace under power limits.
        """
        instances = np.flatnonzero(self.pace < 1.0)
        pieces = [
            self._withheld(piece, inlet_c, dynamic_w, allowed) for piece in self._pieces(instances)
        ]
        return ThrottledChips(*(np.concatenate(parts) for parts in zip(*pieces, strict=True)))

    def _withheld(
        self,
        instances: NDArray[np.intp],
        inlet_c: NDArray[np.float64],
        dynamic_w: NDArray[np.float64],
        allowed: NDArray[np.float64],
    ) -> ThrottledChips:
        rows, above_c = self._chip_c(instances, inlet_c, dynamic_w, self._ending_c)
        index = int(instances[0])
        above_c -= np.float32(self._start_c[index])
        above_c *= np.float32(self._slope_per_c[index])
        own = np.clip(
            np.float32(1.0) - above_c, np.float32(LEAST_PACE), np.float32(1.0), out=above_c
        )
        np.minimum(own, allowed[instances].astype(np.float32)[:, None], out=own)
        withhold = own < np.float32(1.0)
        pct = (1.0 - own[withhold].astype(np.float64)) * 100.0
        return ThrottledChips(rows[withhold], pct)

    def _check_idle(self, racks: Racks, idle_w: NDArray[np.float64]) -> None:
        totals_w = racks.total(idle_w)
        most = int(totals_w.argmax())
        if totals_w[most] > self._rack_cap_w:
            raise ConfigError(
                f"rack_power_cap_w = {self._rack_cap_w:g}: {racks.label(most)} draws"
                f" {totals_w[most]:,.0f} W even when idle; set it higher"
            )


def _share(room_w: NDArray[np.float64], wanted_w: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the pace at which the wanted power fits the room; 1 without demand."""
    share = np.divide(room_w, wanted_w, out=np.ones_like(wanted_w), where=wanted_w > 0.0)
    return np.clip(share, LEAST_PACE, 1.0)


def _degrees(lanes: NDArray[np.uint16]) -> NDArray[np.float32]:
    degrees: NDArray[np.float32] = (lanes.astype(np.float32) - np.float32(32_767.5)) * np.float32(
        OFFSET_C / 32_767.5
    )
    return degrees
