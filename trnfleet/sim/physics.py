"""What chips do with their jobs' work: utilisation, bytes, FLOP/s, power and heat, as wire codes in place.

Values are computed once a cohort, then handed out to chips by index, in chunks that fit the cache, with a few integer
and float32 operations a lane. Only operations whose bits agree on every machine are used.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from trnfleet.domain.metrics import BY_NAME
from trnfleet.sim.chunks import LANES, cut
from trnfleet.sim.noise import Stream
from trnfleet.sim.phases import HBM_CEILING, LINK_CEILING, QUANTITIES
from trnfleet.sim.quantise import noisy, table, to_codes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.domain.layout import Layout
    from trnfleet.sim.chunks import Chunk, Columns
    from trnfleet.sim.degradation import Patches
    from trnfleet.sim.noise import LaneReader, Noise
    from trnfleet.sim.placement import Cohorts
    from trnfleet.sim.workloads import JobTick

POWER_TENSOR, POWER_HBM, POWER_LINK, POWER_OTHER = 0.62, 0.22, 0.08, 0.06
"""Weights of activity in a chip's power: assumed, with the background's 0.02 they make 1."""
POWER_BACKGROUND = 0.02
"""What the background takes of that range; the signal has it backed out, as the driver says (neuron_power.c)."""
POWER_IDLE = 0.0008
"""Reading of an idle chip: 0.00 to 0.02 measured on inf2 and trn1 (sysfs power/utilization)."""
OFFSET_C = 1.5
"""Fixed differences between chips (airflow, paste, sensor), plus or minus degC: assumed."""

_UNIT_CHIPS = 16

_NOISE: dict[str, tuple[Stream, int, type[np.uint8 | np.uint16]]] = {
    "nc_util_pct": (Stream.NC_UTIL, 128, np.uint8),
    "engine_util_pct": (Stream.ENGINE_UTIL, 64, np.uint8),
    "tflops": (Stream.TFLOPS, 32, np.uint16),
    "hbm_read_bytes_per_s": (Stream.HBM_READ, 32, np.uint16),
    "hbm_write_bytes_per_s": (Stream.HBM_WRITE, 32, np.uint16),
    "power_util_pct": (Stream.POWER, 32, np.uint16),
    "link_tx_bytes_per_s": (Stream.LINK, 192, np.uint16),
}
"""Metrics with noise of their own: stream, bytes an instance (16 chips), type of a lane."""


class ChipPhysics:
    """Writes the chip columns of every tick."""

    def __init__(
        self, layout: Layout, cohorts: Cohorts, columns: Columns, noise: Noise, inlet_c: float
    ) -> None:
        """Bind to the columns, and give every chip its fixed offset of temperature."""
        self._layout = layout
        self._cohorts = cohorts
        self._noise = noise
        self._chunks = list(cut(layout, columns))
        types = [layout.types[index] for index in cohorts.type_index]

        def of_chip(*names: str) -> list[NDArray[np.float64]]:
            return [np.array([getattr(kind.chip, name).value for kind in types]) for name in names]

        self._peak_flops, self._hbm_peak, self._hbm_bytes, self._link_peak = of_chip(
            "bf16_dense_flops", "hbm_bytes_per_s", "hbm_bytes", "link_bytes_per_s"
        )
        self._z_peak = np.array(
            [kind.chip.z_link_bytes_per_s.value if kind.chip.z_link_bytes_per_s else 0.0 for kind in types]
        )
        mask = np.array([kind.links_mask for kind in types])
        self._no_link = (mask[:, None] >> np.arange(LANES) & 1) == 0
        self._links = np.maximum((~self._no_link).sum(axis=1), 1)
        cores = np.array([kind.chip.neuroncores for kind in types])
        self._no_core = np.arange(BY_NAME["nc_util_pct"].width) >= cores[:, None]
        self._temperature_c = np.zeros(layout.chips, np.float32)
        self._rest_c = self._offsets() + np.float32(inlet_c)
        self._is_cold = True
        most = max((chunk.rows.stop - chunk.rows.start for chunk in self._chunks), default=0)
        self._scratch = {
            np.dtype(kind): np.empty(most * 8, kind) for kind in (np.uint8, np.uint16, np.float32)
        }

    def fill(
        self, tick: int, elapsed_s: float, jobs: JobTick, pace: NDArray[np.float64], patches: Patches
    ) -> None:
        """Write a tick's chip columns.

        Args:
            tick: Its number, which the noise goes by.
            elapsed_s: Length of its window.
            jobs: What the jobs do.
            pace: For each cohort, the pace of its replica.
            patches: Links that differ from their cohort's.
        """
        tables, executions, hbm_used = self._tables(jobs, pace)
        readers = {name: self._noise.lanes(stream, tick, size) for name, (stream, size, _) in _NOISE.items()}
        begins = np.searchsorted(patches.lanes, [chunk.rows.start * LANES for chunk in self._chunks])
        ends = np.append(begins[1:], len(patches.lanes))
        for chunk, begin, end in zip(self._chunks, begins.tolist(), ends.tolist(), strict=True):
            cohort = self._cohorts.of_instance[chunk.instances]
            for name, (base, mask) in tables.items():
                noise = self._noisy(chunk, name, cohort, base, mask, readers[name])
                if name == "hbm_write_bytes_per_s":
                    self._hbm_used(chunk, cohort, hbm_used, noise)
            if begin < end:
                _patch(chunk, patches, slice(begin, end))
            if chunk.gather is not None:
                self._receive(chunk)
            chunk.views["exec_completed"][:] = executions[cohort][:, None]
            self._heat(chunk, elapsed_s)
        self._is_cold = False

    def _tables(
        self, jobs: JobTick, pace: NDArray[np.float64]
    ) -> tuple[dict[str, tuple[NDArray[Any], NDArray[Any]]], NDArray[np.uint64], NDArray[np.uint16]]:
        """Return base and mask of each noisy metric (cohorts, lanes of 16 chips), executions and HBM use."""
        job = self._cohorts.job
        activity = jobs.average[job] * pace[:, None]

        def mean(name: str) -> NDArray[np.float64]:
            return activity[:, QUANTITIES[name]]

        engines = np.stack([mean(name) for name in ("tensor", "vector", "scalar", "gpsimd")], axis=1)
        hbm_limit = HBM_CEILING * self._hbm_peak
        read = np.minimum(
            mean("hbm_read") * self._hbm_peak + jobs.hbm_read_bytes_per_s[job] * pace, hbm_limit
        )
        write = np.minimum(mean("hbm_write") * self._hbm_peak, hbm_limit - read)
        north_south, west_east = mean("columns") * self._link_peak, mean("rows") * self._link_peak
        z_ring = mean("z") * self._z_peak
        links = np.stack(
            [north_south, north_south, west_east, west_east, z_ring * self._cohorts.z_prev, z_ring * self._cohorts.z_next],
            axis=1,
        )  # fmt: skip  # one line is the order of the directions
        links[self._no_link] = 0.0
        peaks = np.stack([self._link_peak] * 4 + [self._z_peak] * 2, axis=1)
        link_share = (links / np.where(peaks > 0, peaks, 1.0)).sum(axis=1) / self._links
        power = (
            POWER_TENSOR * mean("tensor")
            + POWER_HBM * (read + write) / self._hbm_peak
            + POWER_LINK * link_share
            + POWER_OTHER * (mean("vector") + mean("scalar") + mean("gpsimd")) / 3.0
        ) / (1.0 - POWER_BACKGROUND)
        flops = (jobs.peak_flops_share[job] * self._peak_flops + jobs.flops[job]) * pace
        column = self._column
        tables = {
            "nc_util_pct": column(
                "nc_util_pct", _repeat(mean("nc"), 8) * 100.0, 100.0, missing=self._no_core
            ),
            "engine_util_pct": column("engine_util_pct", engines * 100.0, 100.0),
            "tflops": column("tflops", flops[:, None] / 1e12, self._peak_flops[:, None] / 1e12),
            "hbm_read_bytes_per_s": column("hbm_read_bytes_per_s", read[:, None], hbm_limit[:, None]),
            "hbm_write_bytes_per_s": column("hbm_write_bytes_per_s", write[:, None], hbm_limit[:, None]),
            "power_util_pct": column(
                "power_util_pct", np.minimum(power + POWER_IDLE, 1.0)[:, None] * 100.0, 100.0, least=15
            ),
            "link_tx_bytes_per_s": column(
                "link_tx_bytes_per_s", links, peaks * LINK_CEILING, missing=self._no_link
            ),
        }
        used = to_codes(BY_NAME["hbm_used_bytes"], jobs.hbm_used[job] * self._hbm_bytes)
        return tables, jobs.executions[job], used.astype(np.uint16)

    def _column(
        self,
        name: str,
        values: NDArray[np.float64],
        limit: NDArray[np.float64] | float,
        *,
        missing: NDArray[np.bool_] | None = None,
        least: int = 0,
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        metric = BY_NAME[name]
        highest = np.minimum(to_codes(metric, np.asarray(limit)), metric.top - 1)
        base, mask = noisy(to_codes(metric, values), highest, least=least)
        return (
            table(metric, base, missing, fill=metric.top, copies=_UNIT_CHIPS),
            table(metric, mask, missing, fill=0, copies=_UNIT_CHIPS),
        )

    def _noisy(
        self,
        chunk: Chunk,
        name: str,
        cohort: NDArray[np.intp],
        base: NDArray[Any],
        mask: NDArray[Any],
        reader: LaneReader,
    ) -> NDArray[Any]:
        """Write base + (noise & mask) into a column's rows; return the noise."""
        view = chunk.views[name]
        rows, width = view.shape
        noise = reader.take(rows, _NOISE[name][2])[:, :width]
        bits = self._scratch[view.dtype][: rows * width].reshape(rows, width)
        np.take(base[:, :width], cohort, axis=0, out=view, mode="clip")
        np.take(mask[:, :width], cohort, axis=0, out=bits, mode="clip")
        np.bitwise_and(bits, noise, out=bits)
        np.add(view, bits, out=view)
        return noise

    def _hbm_used(
        self, chunk: Chunk, cohort: NDArray[np.intp], used: NDArray[np.uint16], noise: NDArray[np.uint16]
    ) -> None:
        """Write HBM in use: the job's, and up to seven steps of 4 MiB from bits of the noise that nothing else uses."""
        view = chunk.views["hbm_used_bytes"]
        np.right_shift(noise, np.uint16(13), out=view)
        np.add(view, used[cohort][:, None], out=view)

    def _receive(self, chunk: Chunk) -> None:
        """Give each end of a link what the other end sends."""
        sent, received = chunk.views["link_tx_bytes_per_s"], chunk.views["link_rx_bytes_per_s"]
        shape = (len(sent) // chunk.group, -1)
        assert chunk.gather is not None  # noqa: S101  for the type checker; the caller asks before
        np.take(sent.reshape(shape), chunk.gather, axis=1, out=received.reshape(shape), mode="clip")

    def _heat(self, chunk: Chunk, elapsed_s: float) -> None:
        """Write power in watts, and temperature after `elapsed_s` of it: exact for any length of constant power."""
        kind = self._layout.types[chunk.type_index].chip
        background_w, most_w = kind.power_background_w.value, kind.power_max_w.value
        util, power, shown = (chunk.views[name] for name in ("power_util_pct", "power_w", "temperature_c"))
        count = chunk.rows.stop - chunk.rows.start
        watts = self._scratch[np.dtype(np.float32)][:count].reshape(util.shape)
        np.copyto(watts, util, casting="same_kind")
        watts *= np.float32((most_w - background_w) * BY_NAME["power_util_pct"].scale / 100.0)
        watts += np.float32(background_w)
        codes = self._scratch[np.dtype(np.float32)][count : 2 * count].reshape(util.shape)
        np.multiply(watts, np.float32(BY_NAME["power_w"].steps_per_unit), out=codes)
        codes += np.float32(0.5)
        np.copyto(power, codes, casting="unsafe")
        temperature = self._temperature_c[chunk.rows].reshape(util.shape)
        watts *= np.float32(kind.thermal_resistance_c_per_w.value)
        watts += self._rest_c[chunk.rows].reshape(util.shape)
        watts -= temperature
        if not self._is_cold:
            watts *= np.float32(-math.expm1(-elapsed_s / kind.thermal_time_constant_s.value))
        temperature += watts
        np.multiply(temperature, np.float32(BY_NAME["temperature_c"].steps_per_unit), out=codes)
        codes += np.float32(0.5)
        np.copyto(shown, codes, casting="unsafe")

    def _offsets(self) -> NDArray[np.float32]:
        """Return each chip's fixed offset, degC: an even spread, from the seed and the chip's place in the fleet."""
        reader = self._noise.lanes(Stream.THERMAL_OFFSET, 0, _UNIT_CHIPS * 2)
        offsets = np.empty(self._layout.chips, np.float32)
        for chunk in self._chunks:
            count = chunk.instances.stop - chunk.instances.start
            lanes = reader.take(count, np.uint16)[:, : chunk.chips].astype(np.float32)
            offsets[chunk.rows] = (lanes.ravel() - np.float32(32_767.5)) * np.float32(OFFSET_C / 32_767.5)
        return offsets


def _patch(chunk: Chunk, patches: Patches, part: slice) -> None:
    """Change what single links send."""
    sent = chunk.views["link_tx_bytes_per_s"].reshape(-1)
    lanes = patches.lanes[part] - chunk.rows.start * LANES
    changed = np.minimum(np.floor(sent[lanes] * patches.factor[part] + 0.5), patches.limit[part])
    sent[lanes] = changed.astype(sent.dtype)


def _repeat(values: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    return np.repeat(values[:, None], count, axis=1)
