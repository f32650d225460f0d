"""Temperatures of chips, and the speed that heat and power limits leave them.

Owns the cooling constants of each instance type, each chip's fixed offset, and the temperature of every instance's mean
chip, without noise; chips and throttling share them, so that both see the same temperature. Throttling covers the whole
fleet, since a job is as slow as its slowest chip, in whatever shard that is. What a chip withholds is solved together with
the temperature that follows from it, so that windows of any length settle without oscillating.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.power import Racks
from trnfleet.errors import ConfigError
from trnfleet.sim.hardware.columns import CHUNK_INSTANCES, noise_chips
from trnfleet.sim.rng import Stream

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.domain.fleet import FleetFile
    from trnfleet.domain.hardware.catalogue import CoolingKind
    from trnfleet.domain.layout import Layout
    from trnfleet.sim.rng import Rng

LEAST_PACE = 0.2
"""Share of peak that is left to a chip however hot or limited it is: assumed, a lowest clock."""
PEAK_MEMORY_S = 300.0
"""Window of the peak demand with which a power limit is compared: assumed. Much longer than a step, so that the limit of a
training job's compute phase outlasts its collectives."""
OFFSET_C = 1.5
"""Fixed differences between chips (airflow, paste, sensor), plus or minus degC: assumed."""


class Cooling:
    """The cooling of every instance type of a fleet."""

    def __init__(self, layout: Layout, kind: CoolingKind) -> None:
        """Look the types up in the hardware catalogue."""
        of_types = [each.chip.cooling(kind) for each in layout.types]
        self.resistance_c_per_w = np.array([each.thermal_resistance_c_per_w.value for each in of_types])
        """Rise over the inlet for a watt; shape (types,)."""
        self._time_constant_s = [each.thermal_time_constant_s.value for each in of_types]

    def approach(self, elapsed_s: float) -> NDArray[np.float64]:
        """Return how much of the way to its settled temperature a chip goes in `elapsed_s`, 0 to 1; shape (types,).

        Exact for constant power, however long it lasts.
        """
        return np.array([-math.expm1(-elapsed_s / constant_s) for constant_s in self._time_constant_s])


def offset_lanes(layout: Layout, rng: Rng, own: range) -> NDArray[np.uint16]:
    """Return the draws that chips' offsets come from: shape (instances of `own`, lanes), those beyond its chips unused."""
    most = noise_chips(layout)
    if not own:
        return np.zeros((0, most), np.uint16)
    reader = rng.lanes(Stream.THERMAL_OFFSET, 0, most * 2, own.start)
    lanes: NDArray[np.uint16] = reader.take(len(own), np.uint16)
    chips = np.diff(layout.chip_start[own.start : own.stop + 1])
    lanes[np.arange(most) >= chips[:, None]] = 0
    return lanes


def chip_offsets_c(layout: Layout, rng: Rng, own: range) -> NDArray[np.float32]:
    """Return each chip's fixed offset, degC: an even spread, from the seed and the chip's place in the fleet.

    Shape (chip rows of the instances `own`,).
    """
    chips = np.diff(layout.chip_start[own.start : own.stop + 1])
    lanes = offset_lanes(layout, rng, own)
    return _degrees(lanes[np.arange(lanes.shape[1]) < chips[:, None]])


def most_offset_c(layout: Layout, rng: Rng) -> NDArray[np.float64]:
    """Return the offset of the hottest chip of each instance, degC; shape (instances,)."""
    lanes = offset_lanes(layout, rng, range(len(layout.instances)))
    return _degrees(lanes.max(axis=1)).astype(np.float64)


class Throttled(NamedTuple):
    """Chips that withhold peak."""

    rows: NDArray[np.int64]
    """Chip rows, ascending."""
    pct: NDArray[np.float64]
    """Share of peak that each withholds, %."""


NOTHING = Throttled(np.zeros(0, np.int64), np.zeros(0))


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

        self._background_w = of_types([each.chip.power_background_w.value for each in types])
        self._most_w = of_types([each.chip.power_max_w.value for each in types])
        self._dynamic_w = self._most_w - self._background_w
        self._resistance = self._cooled.resistance_c_per_w[self._type]
        start_c = of_types([each.chip.throttle_start_c.value for each in types])
        limit_c = of_types([each.chip.throttle_limit_c.value for each in types])
        self._start_c = start_c
        self._slope_per_c = (1.0 - LEAST_PACE) / (limit_c - start_c)
        self._offset_c = chip_offsets_c(layout, rng, range(len(layout.instances)))
        self.hottest_offset_c = most_offset_c(layout, rng)
        """Of the hottest chip of each instance over the mean one, degC."""
        self._chips = np.diff(layout.chip_start).astype(np.float64)
        self._host_most_w = of_types([each.host_power_max_w.value for each in types])
        self._racks: Racks | None = None
        self._rack_cap_w = math.inf
        if fleet.rack_power_cap_w is not None:
            self._rack_cap_w = fleet.rack_power_cap_w
            self._racks = Racks.of(layout)
            self._rack_of_instance = self._racks.of_instance
            host_idle_w = of_types([each.host_power_idle_w.value for each in types])
            self._check_idle(self._racks, self._chips * self._background_w + host_idle_w)
        self._host_w = self._host_most_w
        self.temperature_c = np.zeros(len(self._type))
        """Of the mean chip, degC, at the end of the last window."""
        self._demand_w = np.zeros(len(self._type))
        self._peak_w = np.zeros(len(self._type))
        self._is_cold = True
        self.pace = np.ones(len(self._type))
        """Share of peak that the slowest chip of each instance has."""
        self.throttled = NOTHING
        """The chips that withhold peak."""

    def advance(
        self,
        elapsed_s: float,
        power_w: NDArray[np.float64],
        inlet_delta_c: NDArray[np.floating],
        cap_share: NDArray[np.floating],
        host_power_w: NDArray[np.float64] | None = None,
    ) -> None:
        """Move on by a window, and limit the next as if it were like this one.

        Args:
            elapsed_s: Its length.
            power_w: Power of a chip of each instance over it, at the pace that was set, W.
            inlet_delta_c: How much warmer an instance's inlet is than the fleet's.
            cap_share: Share of a chip's maximum power that it may draw, 1 where nothing limits it.
            host_power_w: Power of each host without its chips, for racks with a limit; its maximum by default.
        """
        dynamic_w = power_w - self._background_w
        # At full pace it would draw this much more, but never more than a chip can.
        self._demand_w = np.minimum(dynamic_w / self.pace, self._dynamic_w)
        fading = math.exp(-elapsed_s / PEAK_MEMORY_S)
        self._peak_w = np.maximum(self._peak_w * fading, self._demand_w)
        if host_power_w is not None:
            self._host_w = host_power_w
        if self._is_cold:
            # Settled under its own law: what would throttle at once begins throttled.
            self.limit(math.inf, inlet_delta_c, cap_share)
            settled_w = self._background_w + self._demand_w * self.pace
            self.temperature_c = self._settled_c(settled_w, inlet_delta_c)
            self._is_cold = False
        else:
            approach = self._cooled.approach(elapsed_s)[self._type]
            self.temperature_c += (self._settled_c(power_w, inlet_delta_c) - self.temperature_c) * approach
        self.limit(elapsed_s, inlet_delta_c, cap_share)

    def limit(
        self, elapsed_s: float, inlet_delta_c: NDArray[np.floating], cap_share: NDArray[np.floating]
    ) -> None:
        """Set `pace` and `throttled` for a window that is about to begin, with the demand of the last.

        `advance` does so for a window like its own; a caller that knows that the next one is of another length, or that
        inlets or limits change with it, calls this.

        Args:
            elapsed_s: Its length.
            inlet_delta_c: As for `advance`.
            cap_share: As for `advance`.
        """
        approach = self._cooled.approach(elapsed_s)[self._type]
        still_w = self._background_w
        # The mean chip's temperature at the window's end is `base` at pace 0 and rises by `gain` to pace 1.
        base_c = (
            self.temperature_c + (self._settled_c(still_w, inlet_delta_c) - self.temperature_c) * approach
        )
        gain_c = approach * self._resistance * self._demand_w
        hottest_c = base_c + self.hottest_offset_c
        allowed = self._allowed(cap_share)
        if not (hottest_c + gain_c > self._start_c).any() and not (allowed < 1.0).any():
            self.pace = np.ones(len(self._type))
            self.throttled = NOTHING
            return
        # pace = 1 - slope x (hottest + gain x pace - start), solved for the pace.
        thermal = (1.0 + self._slope_per_c * (self._start_c - hottest_c)) / (1.0 + self._slope_per_c * gain_c)
        thermal = np.clip(thermal, LEAST_PACE, 1.0)
        self.pace = np.minimum(thermal, allowed)
        self.throttled = self._chips_that_withhold(base_c + gain_c * self.pace, allowed)

    def _settled_c(
        self, power_w: NDArray[np.float64], inlet_delta_c: NDArray[np.floating]
    ) -> NDArray[np.float64]:
        return self._inlet_c + inlet_delta_c + self._resistance * power_w

    def _allowed(self, cap_share: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return the pace that limits of power leave; the background cannot be limited."""
        room_w = np.where(cap_share < 1.0, cap_share * self._most_w - self._background_w, np.inf)
        allowed = _share(room_w, self._peak_w)
        if self._racks is not None:
            still_w = self._racks.total(self._chips * self._background_w + self._host_w)
            of_rack = _share(self._rack_cap_w - still_w, self._racks.total(self._chips * self._peak_w))
            allowed = np.minimum(allowed, of_rack[self._rack_of_instance])
        return allowed

    def _chips_that_withhold(
        self, temperature_c: NDArray[np.float64], allowed: NDArray[np.float64]
    ) -> Throttled:
        """Return the chips whose own temperature, or whose instance's limit, makes them withhold peak."""
        instances = np.flatnonzero(self.pace < 1.0)
        if not len(instances):
            return NOTHING
        pieces = [
            self._withheld(instances[first : first + CHUNK_INSTANCES], temperature_c, allowed)
            for first in range(0, len(instances), CHUNK_INSTANCES)
        ]
        return Throttled(*(np.concatenate(parts) for parts in zip(*pieces, strict=True)))

    def _withheld(
        self, instances: NDArray[np.intp], temperature_c: NDArray[np.float64], allowed: NDArray[np.float64]
    ) -> Throttled:
        rows = self._layout.chip_rows(instances)
        owner = np.repeat(
            instances, self._layout.chip_start[instances + 1] - self._layout.chip_start[instances]
        )
        above_c = temperature_c[owner] + self._offset_c[rows] - self._start_c[owner]
        own = np.clip(1.0 - self._slope_per_c[owner] * above_c, LEAST_PACE, 1.0)
        pct = (1.0 - np.minimum(own, allowed[owner])) * 100.0
        withhold = pct > 0.0
        return Throttled(rows[withhold], pct[withhold])

    def _check_idle(self, racks: Racks, idle_w: NDArray[np.float64]) -> None:
        totals_w = racks.total(idle_w)
        most = int(totals_w.argmax())
        if totals_w[most] > self._rack_cap_w:
            raise ConfigError(
                f"rack_power_cap_w = {self._rack_cap_w:g}: {racks.label(most)} draws {totals_w[most]:,.0f} W even when "
                "idle; set it higher"
            )


def _share(room_w: NDArray[np.float64], wanted_w: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the pace at which the wanted power fits the room; 1 where none is wanted."""
    share = np.divide(room_w, wanted_w, out=np.ones_like(wanted_w), where=wanted_w > 0.0)
    return np.clip(share, LEAST_PACE, 1.0)


def _degrees(lanes: NDArray[np.uint16]) -> NDArray[np.float32]:
    degrees: NDArray[np.float32] = (lanes.astype(np.float32) - np.float32(32_767.5)) * np.float32(
        OFFSET_C / 32_767.5
    )
    return degrees
