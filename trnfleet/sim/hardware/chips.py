"""Chip columns: utilisation, bytes, FLOP/s, power and heat of the jobs' work, as wire codes in place.

Values are computed once a cohort, then handed out to chips by index, in chunks that fit the cache, with a few integer
and float32 operations a lane. Only operations whose bits agree on every machine are used.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trnfleet.domain.metrics import BY_NAME
from trnfleet.sim.hardware.columns import LANES, copies, cut, noise_chips, noisy, table, to_codes
from trnfleet.sim.hardware.power import ChipHardware
from trnfleet.sim.hardware.thermal import Cooling, chip_offsets_c
from trnfleet.sim.jobs.activity import HBM_CEILING, LINK_CEILING
from trnfleet.sim.rng import Stream

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.domain.fleet import FleetFile
    from trnfleet.domain.layout import Layout
    from trnfleet.sim.hardware.columns import Chunk, Columns
    from trnfleet.sim.hardware.links import Patches
    from trnfleet.sim.hardware.thermal import Throttled
    from trnfleet.sim.jobs.window import JobTick
    from trnfleet.sim.placement import Cohorts
    from trnfleet.sim.rng import LaneReader, Rng

_NOISE: dict[str, tuple[Stream, type[np.uint8 | np.uint16]]] = {
    "nc_util_pct": (Stream.NC_UTIL, np.uint8),
    "engine_util_pct": (Stream.ENGINE_UTIL, np.uint8),
    "tflops": (Stream.TFLOPS, np.uint16),
    "hbm_read_bytes_per_s": (Stream.HBM_READ, np.uint16),
    "hbm_write_bytes_per_s": (Stream.HBM_WRITE, np.uint16),
    "power_util_pct": (Stream.POWER, np.uint16),
    "link_tx_bytes_per_s": (Stream.LINK, np.uint16),
}
"""Metrics with noise of their own: stream, and the type of a lane, which is the metric's on the wire."""
_MOST_WIDTH = max(BY_NAME[name].width for name in _NOISE)


class _Tables(NamedTuple):
    """Codes of every cohort; shape (cohorts, ...)."""

    noisy: dict[str, tuple[NDArray[Any], NDArray[Any]]]
    """Base and mask of each metric with noise: lanes of a chip."""
    executions: NDArray[np.uint64]
    hbm_used: NDArray[np.uint16]


class _Group(NamedTuple):
    """Chunks whose instances divide into runs of the same number of chips of one cohort."""

    run: int
    """Chips of a run."""
    cohorts: NDArray[np.intp]
    """Cohorts of their chips."""


class _Place(NamedTuple):
    """A chunk's place in the tables of its group."""

    group: int
    runs: NDArray[np.intp]
    """For each run of chips, its cohort's place among the group's."""


class ChipPhysics:
    """Writes the chip columns of every tick."""

    def __init__(
        self,
        layout: Layout,
        cohorts: Cohorts,
        columns: Columns,
        rng: Rng,
        fleet: FleetFile,
        own: range | None = None,
    ) -> None:
        """Bind to the columns, and give every chip its fixed offset of temperature.

        Args:
            layout: The whole fleet.
            cohorts: Its instances, grouped.
            columns: Of the whole fleet.
            rng: The run's randomness.
            fleet: Says how the fleet is cooled.
            own: Instances whose rows are written: whole UltraServers; all by default.
        """
        own = range(len(layout.instances)) if own is None else own
        self._layout = layout
        self._rng = rng
        self._own = own
        self._rows = slice(int(layout.chip_start[own.start]), int(layout.chip_start[own.stop]))
        self._throttle = columns["throttle_pct"]
        self._cohorts = cohorts
        self._hardware = ChipHardware(layout, cohorts)
        self._chunks = list(cut(layout, columns, own))
        self._noise_chips = noise_chips(layout)
        self._cooled = Cooling(layout, fleet.cooling)
        self.temperature_c = np.zeros(self._rows.stop - self._rows.start, np.float32)
        """Of every chip whose rows are written, degC, before it is rounded to a code."""
        self.rest_c = chip_offsets_c(layout, rng, own) + np.float32(fleet.inlet_c)
        """Temperature of each of these chips without power, degC."""
        self._is_cold = True
        most = max((chunk.rows.stop - chunk.rows.start for chunk in self._chunks), default=0)
        self._scratch = {
            np.dtype(kind): np.empty(most * _MOST_WIDTH, kind) for kind in (np.uint8, np.uint16, np.float32)
        }
        self._groups, self._places = _places(self._chunks, cohorts.of_chip)

    def instance_power_w(self, jobs: JobTick) -> NDArray[np.float64]:
        """Return the mean power of the chips of each instance of the fleet, W, without noise."""
        hardware, hosts = self._hardware, self._cohorts.hosts
        share = hardware.power_share(hardware.load(jobs))
        watts: NDArray[np.float64] = hosts.mean(hardware.background_w + share * hardware.dynamic_w)
        return watts[hosts.of_instance]

    def fill(
        self,
        tick: int,
        elapsed_s: float,
        jobs: JobTick,
        patches: Patches,
        inlet_delta_c: NDArray[np.float32],
        throttled: Throttled,
    ) -> None:
        """Write a tick's chip columns.

        Args:
            tick: Its number, which keys the noise.
            elapsed_s: Length of its window.
            jobs: Work of the jobs.
            patches: Links that differ from their cohort's.
            inlet_delta_c: For each instance, how much warmer its inlet is than the fleet's.
            throttled: Chips that withhold peak because of heat or a limit of power.
        """
        tables = self._tables(jobs)
        shared = [self._expand(tables, group) for group in self._groups]
        first = self._own.start
        readers = {
            name: self._rng.lanes(stream, tick, self._noise_chips * BY_NAME[name].bytes_per_row, first)
            for name, (stream, _) in _NOISE.items()
        }
        approach = np.ones(len(self._layout.types)) if self._is_cold else self._cooled.approach(elapsed_s)
        edges = [chunk.rows.start * LANES for chunk in self._chunks] + [self._rows.stop * LANES]
        begins = np.searchsorted(patches.lanes, edges).tolist()
        for chunk, place, (begin, end) in zip(
            self._chunks, self._places, itertools.pairwise(begins), strict=True
        ):
            of_group, index = shared[place.group], place.runs
            for name, (base, mask) in of_group.noisy.items():
                noise = self._noisy(chunk, name, index, base, mask, readers[name])
                if name == "hbm_write_bytes_per_s":
                    self._hbm_used(chunk, index, of_group.hbm_used, noise)
            if len(chunk.unlinked):
                chunk.views["link_tx_bytes_per_s"][:, chunk.unlinked] = BY_NAME["link_tx_bytes_per_s"].top
            if begin < end:
                _patch(chunk, patches, slice(begin, end))
            if chunk.gather is not None:
                self._receive(chunk)
            _runs(chunk.views["exec_completed"], index)[:] = of_group.executions[index][:, None]
            chunk.views["throttle_pct"][:] = 0
            self._heat(chunk, float(approach[chunk.type_index]), inlet_delta_c[chunk.instances])
        self._withhold(throttled)
        self._is_cold = False

    def _expand(self, tables: _Tables, group: _Group) -> _Tables:
        """Return the tables of a group's cohorts, with the lanes of a run's chips."""
        chosen = group.cohorts
        return _Tables(
            {
                name: (copies(base[chosen], group.run), copies(mask[chosen], group.run))
                for name, (base, mask) in tables.noisy.items()
            },
            tables.executions[chosen],
            tables.hbm_used[chosen],
        )

    def _tables(self, jobs: JobTick) -> _Tables:
        hardware, row = self._hardware, self._cohorts.row
        load = hardware.load(jobs)
        engines = np.stack([load.mean(name) for name in ("tensor", "vector", "scalar", "gpsimd")], axis=1)
        hbm_limit = (HBM_CEILING * hardware.hbm_bytes_per_s)[:, None]
        flops = jobs.peak_flops_share[row] * hardware.flops + jobs.flops[row]
        column = self._column
        cores = BY_NAME["nc_util_pct"].width
        no_core = np.arange(cores) >= hardware.neuroncores[:, None]
        link_limit = hardware.link_bytes_per_s * LINK_CEILING
        tables = {
            "nc_util_pct": column(
                "nc_util_pct",
                np.repeat(load.mean("nc")[:, None], cores, axis=1) * 100.0,
                100.0,
                missing=no_core,
            ),
            "engine_util_pct": column("engine_util_pct", engines * 100.0, 100.0),
            "tflops": column("tflops", flops[:, None] / 1e12, hardware.most_flops[:, None] / 1e12),
            "hbm_read_bytes_per_s": column("hbm_read_bytes_per_s", load.hbm_read[:, None], hbm_limit),
            "hbm_write_bytes_per_s": column("hbm_write_bytes_per_s", load.hbm_write[:, None], hbm_limit),
            "power_util_pct": column(
                "power_util_pct", hardware.power_share(load)[:, None] * 100.0, 100.0, least=15
            ),
            "link_tx_bytes_per_s": column(
                "link_tx_bytes_per_s", load.links, link_limit, missing=hardware.no_link
            ),
        }
        used = to_codes(BY_NAME["hbm_used_bytes"], jobs.hbm_used[row] * hardware.hbm_bytes)
        return _Tables(tables, jobs.executions[row], used.astype(np.uint16))

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
            table(metric, base, missing, fill=metric.top),
            table(metric, mask, missing, fill=0),
        )

    def _noisy(
        self,
        chunk: Chunk,
        name: str,
        index: NDArray[np.intp],
        base: NDArray[Any],
        mask: NDArray[Any],
        reader: LaneReader,
    ) -> NDArray[Any]:
        """Write base + (noise & mask) into a column's rows; return the noise."""
        view = chunk.views[name]
        rows, width = view.shape
        noise = reader.take(rows, _NOISE[name][1])[:, :width]
        bits = self._scratch[view.dtype][: rows * width].reshape(rows, width)
        np.take(base, index, axis=0, out=_runs(view, index), mode="clip")
        np.take(mask, index, axis=0, out=_runs(bits, index), mode="clip")
        np.bitwise_and(bits, noise, out=bits)
        np.add(view, bits, out=view)
        return noise

    def _hbm_used(
        self, chunk: Chunk, index: NDArray[np.intp], used: NDArray[np.uint16], noise: NDArray[np.uint16]
    ) -> None:
        """Write HBM in use: the job's, and up to seven steps of 4 MiB from bits of the noise that nothing else uses."""
        view = chunk.views["hbm_used_bytes"]
        np.right_shift(noise, np.uint16(13), out=view)
        runs = _runs(view, index)
        np.add(runs, used[index][:, None], out=runs)

    def _receive(self, chunk: Chunk) -> None:
        """Give each end of a link what the other end sends."""
        sent, received = chunk.views["link_tx_bytes_per_s"], chunk.views["link_rx_bytes_per_s"]
        shape = (len(sent) // chunk.group, -1)
        assert chunk.gather is not None  # noqa: S101  for the type checker; the caller asks before
        np.take(sent.reshape(shape), chunk.gather, axis=1, out=received.reshape(shape), mode="clip")

    def _heat(self, chunk: Chunk, approach: float, inlet_delta_c: NDArray[np.float32]) -> None:
        """Write power in watts, and temperature after a window of it: exact for any length of constant power."""
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
        rows = slice(chunk.rows.start - self._rows.start, chunk.rows.stop - self._rows.start)
        temperature = self.temperature_c[rows].reshape(util.shape)
        watts *= np.float32(self._cooled.resistance_c_per_w[chunk.type_index])
        watts += self.rest_c[rows].reshape(util.shape)
        if inlet_delta_c.any():
            watts += inlet_delta_c[:, None]
        watts -= temperature
        if approach < 1.0:
            watts *= np.float32(approach)
        temperature += watts
        np.multiply(temperature, np.float32(BY_NAME["temperature_c"].steps_per_unit), out=codes)
        codes += np.float32(0.5)
        np.copyto(shown, codes, casting="unsafe")

    def _withhold(self, throttled: Throttled) -> None:
        """Show what single chips withhold."""
        edges = [chunk.rows.start for chunk in self._chunks] + [self._rows.stop]
        begins = np.searchsorted(throttled.rows, edges).tolist()
        for part in itertools.starmap(slice, itertools.pairwise(begins)):
            rows = throttled.rows[part]
            if len(rows):
                codes = to_codes(BY_NAME["throttle_pct"], throttled.pct[part]).astype(np.uint8)
                self._throttle[rows] = np.maximum(self._throttle[rows], codes)


def _runs(view: NDArray[Any], index: NDArray[np.intp]) -> NDArray[Any]:
    """Return a chunk's rows of instances as rows of runs."""
    return view.reshape(len(index), -1)


def _places(chunks: list[Chunk], of_chip: NDArray[np.int32]) -> tuple[list[_Group], list[_Place]]:
    """Return the groups of chunks by the lengths of their runs, and each chunk's place in its group."""
    runs: list[int] = []
    members: list[NDArray[np.int32]] = []
    for chunk in chunks:
        of_instance = of_chip[chunk.rows].reshape(-1, chunk.chips)
        for run in range(chunk.chips, 0, -1):
            if chunk.chips % run == 0:
                parts = of_instance.reshape(-1, run)
                if run == 1 or (parts == parts[:, :1]).all():
                    break
        runs.append(run)
        members.append(parts[:, 0])
    groups = []
    index: list[NDArray[np.intp]] = [np.zeros(0, np.intp)] * len(chunks)
    numbers = [0] * len(chunks)
    for number, run in enumerate(sorted(set(runs))):
        chosen = [place for place, each in enumerate(runs) if each == run]
        cohorts, inverse = np.unique(
            np.concatenate([members[place] for place in chosen]), return_inverse=True
        )
        groups.append(_Group(run, cohorts.astype(np.intp)))
        ends = np.cumsum([len(members[place]) for place in chosen])
        for place, own in zip(chosen, np.split(inverse.astype(np.intp), ends[:-1]), strict=True):
            index[place], numbers[place] = own, number
    return groups, [_Place(*each) for each in zip(numbers, index, strict=True)]


def _patch(chunk: Chunk, patches: Patches, part: slice) -> None:
    """Change what single links send."""
    sent = chunk.views["link_tx_bytes_per_s"].reshape(-1)
    lanes = patches.lanes[part] - chunk.rows.start * LANES
    changed = np.minimum(np.floor(sent[lanes] * patches.factor[part] + 0.5), patches.limit[part])
    sent[lanes] = changed.astype(sent.dtype)
