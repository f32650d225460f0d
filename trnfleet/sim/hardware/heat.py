"""Heat: what a chip's temperature settles at, how fast it gets there, and how chips differ.

Owns the constants per instance that chips and throttling share, so that both see the same temperature.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from trnfleet.sim.rng import Stream

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.domain.hardware.catalogue import CoolingKind
    from trnfleet.domain.layout import Layout
    from trnfleet.sim.rng import Noise

OFFSET_C = 1.5
"""Fixed differences between chips (airflow, paste, sensor), plus or minus degC: assumed."""
_UNIT_CHIPS = 16


class Cooled:
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


def offset_lanes(layout: Layout, noise: Noise, own: range) -> NDArray[np.uint16]:
    """Return the draws that chips' offsets come from: shape (instances of `own`, 16), lanes beyond its chips unused."""
    if not own:
        return np.zeros((0, _UNIT_CHIPS), np.uint16)
    reader = noise.lanes(Stream.THERMAL_OFFSET, 0, _UNIT_CHIPS * 2, own.start)
    lanes: NDArray[np.uint16] = reader.take(len(own), np.uint16)
    chips = np.diff(layout.chip_start[own.start : own.stop + 1])
    lanes[np.arange(_UNIT_CHIPS) >= chips[:, None]] = 0
    return lanes


def chip_offsets_c(layout: Layout, noise: Noise, own: range) -> NDArray[np.float32]:
    """Return each chip's fixed offset, degC: an even spread, from the seed and the chip's place in the fleet.

    Shape (chip rows of the instances `own`,).
    """
    chips = np.diff(layout.chip_start[own.start : own.stop + 1])
    lanes = offset_lanes(layout, noise, own)
    return _degrees(lanes[np.arange(_UNIT_CHIPS) < chips[:, None]])


def most_offset_c(layout: Layout, noise: Noise) -> NDArray[np.float64]:
    """Return the offset of the hottest chip of each instance, degC; shape (instances,)."""
    lanes = offset_lanes(layout, noise, range(len(layout.instances)))
    return _degrees(lanes.max(axis=1)).astype(np.float64)


def _degrees(lanes: NDArray[np.uint16]) -> NDArray[np.float32]:
    degrees: NDArray[np.float32] = (lanes.astype(np.float32) - np.float32(32_767.5)) * np.float32(
        OFFSET_C / 32_767.5
    )
    return degrees
