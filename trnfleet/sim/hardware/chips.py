"""Chip columns of the jobs' work: utilisation, bytes, FLOP/s, power and heat.

Wire codes, written in place. Values are computed once per cohort, then distributed to chips by
index, in chunks that fit the cache, with a few integer and float32 operations per lane. Only
operations with the same bits on every machine are used. Metrics with one value per chip vary by the
factors of `variation`; lanes of cores, engines and links have their own noise.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trnfleet.domain.metrics import BY_NAME
from trnfleet.sim.hardware.columns import (
    CHUNK_INSTANCES,
    LANES,
    add_noise,
    copies,
    cut,
    noise_chips,
    noisy,
    to_codes,
)
from trnfleet.sim.hardware.thermal import (
    WELL_COOLED,
    Cooling,
    PoorCooling,
    ThrottledChips,
    chip_offsets_c,
)
from trnfleet.sim.hardware.variation import MOST_FACTOR, Variation, Varied
from trnfleet.sim.jobs.activity import AXES, HBM_CEILING, LINK_CEILING, QUANTITIES
from trnfleet.sim.rng import LaneReader, Rng, Stream

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.domain.fleet import FleetFile
    from trnfleet.domain.hardware.catalogue import InstanceType
    from trnfleet.domain.layout import Layout
    from trnfleet.sim.hardware.columns import Chunk, Columns
    from trnfleet.sim.hardware.links import Patches
    from trnfleet.sim.jobs.window import JobTick
    from trnfleet.sim.placement import Cohorts

    Noisy = tuple[NDArray[Any], NDArray[Any]]
    """Base and field of `noisy`. For the lanes of one chip per cohort, or of all chips of an
    instance."""


POWER_TENSOR = 0.74
POWER_HBM = 0.22
POWER_LINK = 0.08
POWER_OTHER = 0.06
"""Weights of activity in a chip's power: assumed. Together they are a tenth above 1, since the
maximum limits a chip with busy engines, HBM and links. Power follows the active time of the tensor
engine, not MFU: an active engine draws its power for useless FLOPs, too."""
POWER_BACKGROUND = 0.02
"""Share of the background in that range. The signal excludes it, according to the driver
(neuron_power.c)."""
POWER_CLOCKLESS = 0.4
"""Share of an active engine's power that does not follow its clock (leakage, clock tree, SRAM):
assumed. A straggler is active longer for the same work, at a lower clock, and so draws more than
its waiting peers."""
POWER_MINUTE_S = 60.0
"""Time of which the driver gives the mean power: published (its sysfs, stats/power)."""
POWER_IDLE = 0.0008
"""Reading of an idle chip: 0.00 to 0.02 measured on inf2 and trn1 (sysfs power/utilization)."""


UNUSED, UNLINKED = len(AXES), len(AXES) + 1
"""Sources of lanes without traffic, and of lanes missing on a type."""
_OF_CHIPS = frozenset(
    {"nc", "tensor", "vector", "scalar", "gpsimd", "hbm_read", "hbm_write", *AXES}
)


class Stragglers(NamedTuple):
    """Chips with a lower clock than their peers."""

    rows: NDArray[np.int64]
    """Chip rows, ascending."""
    pace: NDArray[np.float64]
    """Clock of each as a share of its peers'."""


NO_STRAGGLERS = Stragglers(np.zeros(0, np.int64), np.zeros(0))


class ChipLoad(NamedTuple):
    """Work of one chip of each cohort; arrays of shape (cohorts,)."""

    of: dict[str, NDArray[np.float64]]
    """Mean activity by the names of `QUANTITIES`, without HBM."""
    hbm_read: NDArray[np.float64]
    """Bytes a second."""
    hbm_write: NDArray[np.float64]


class ChipHardware:
    """Peaks of each cohort's chips; shape (cohorts, ...)."""

    def __init__(self, layout: Layout, cohorts: Cohorts) -> None:
        """Look the cohorts' types up in the hardware catalogue."""
        kind = cohorts.type_index
        self._cohorts = cohorts

        def of_chip(name: str) -> NDArray[np.float64]:
            return np.array(
                [getattr(instance_type.chip, name).value for instance_type in layout.types]
            )[kind]

        self.flops = of_chip("bf16_dense_flops")
        """Dense BF16."""
        self.most_flops = np.maximum(self.flops, of_chip("fp8_dense_flops"))
        """Dense, of the quickest type."""
        self.hbm_bytes_per_s = of_chip("hbm_bytes_per_s")
        self.hbm_bytes = of_chip("hbm_bytes")
        mask = np.array([(1 << len(instance_type.lanes)) - 1 for instance_type in layout.types])[
            kind
        ]
        lanes = np.arange(LANES)
        no_lane = (mask[:, None] >> lanes & 1) == 0
        unused = (cohorts.used_lanes[:, None] >> lanes & 1) == 0
        axes = [
            [AXES.index(lane.axis) for lane in instance_type.lanes]
            for instance_type in layout.types
        ]
        axis = np.array([(numbers + [0] * LANES)[:LANES] for numbers in axes], np.intp)[kind]
        self.lane_source: NDArray[np.intp] = np.where(
            no_lane, UNLINKED, np.where(unused, UNUSED, axis)
        )
        """For each link lane, its traffic's place in `AXES`, `UNUSED` or `UNLINKED`."""
        lane_peaks = np.array([_lane_peaks(instance_type) for instance_type in layout.types])[kind]
        self.axis_bytes_per_s = np.zeros((len(kind), len(AXES)))
        """Bandwidth of the lanes of each of `AXES`, each way."""
        self._axis_share = np.zeros((len(AXES), len(kind)))
        for place in range(len(AXES)):
            follows = ~no_lane & (axis == place)
            self.axis_bytes_per_s[:, place] = np.where(follows, lane_peaks, 0.0).max(axis=1)
            used = follows & ~unused & (lane_peaks > 0)
            self._axis_share[place] = used.sum(axis=1) / np.maximum((~no_lane).sum(axis=1), 1)
        cores = np.array([instance_type.chip.neuroncores for instance_type in layout.types])
        self.neuroncores = cores[kind]
        self.background_w = of_chip("power_background_w")
        self.dynamic_w = of_chip("power_max_w") - self.background_w
        """Maximum power above the background."""

    def load(self, jobs: JobTick) -> ChipLoad:
        """Return the chips' part of their jobs' work."""
        row = self._cohorts.row
        peak = self.hbm_bytes_per_s
        activity = {
            name: jobs.average[:, number].take(row)
            for name, number in QUANTITIES.items()
            if name in _OF_CHIPS
        }
        limit = HBM_CEILING * peak
        read = activity.pop("hbm_read") * peak
        read += jobs.hbm_read_bytes_per_s[row]
        np.minimum(read, limit, out=read)
        write = np.minimum(activity.pop("hbm_write") * peak, limit - read)
        return ChipLoad(activity, read, write)

    def power_share(self, load: ChipLoad) -> NDArray[np.float64]:
        """Return power as the driver reports it: a share of the range above the background."""
        activity = load.of
        active = POWER_TENSOR * activity["tensor"]
        active += (load.hbm_read + load.hbm_write) * (POWER_HBM / self.hbm_bytes_per_s)
        for share, axis in zip(self._axis_share, AXES, strict=True):
            active += share * activity[axis] * POWER_LINK
        active += (activity["vector"] + activity["scalar"] + activity["gpsimd"]) * (
            POWER_OTHER / 3.0
        )
        active *= 1.0 / (1.0 - POWER_BACKGROUND)
        active += POWER_IDLE
        share_of_range: NDArray[np.float64] = np.minimum(active, 1.0)
        return share_of_range


def _lane_peaks(kind: InstanceType) -> list[float]:
    figures = [kind.lane_bytes_per_s(lane) for lane in range(LANES)]
    return [figure.value if figure else 0.0 for figure in figures]


_NOISE: dict[str, tuple[Stream, type[np.uint8 | np.uint16]]] = {
    "nc_util_pct": (Stream.NC_UTIL, np.uint8),
    "engine_util_pct": (Stream.ENGINE_UTIL, np.uint8),
    "link_tx_bytes_per_s": (Stream.LINK, np.uint16),
}
"""Metrics with noise per lane: stream, and the lane's type on the wire."""
_MOST_WIDTH = max(BY_NAME[name].width for name in _NOISE)
_IDLE_CODES = 60.0
"""Wire codes of `power_util_pct` varied by the chip's factor even when idle. Assumed, so that an
idle reading is not constant: the size of the 0.00 to 0.02 % read on idle chips (measured on inf2
and trn1, sysfs). It stays above 0."""


class _Tables(NamedTuple):
    """Codes of every cohort."""

    lanes: dict[str, Noisy]
    means: dict[str, NDArray[np.float32]]
    """Means before the chips' factors; shape (cohorts,), like the following ones."""
    executions: NDArray[np.uint64]
    hbm_used: NDArray[np.uint16]


_MOST_WIDE = 64
"""Most cohorts of a chunk with lanes copied by whole instances. Above it, lanes are copied by chip.
"""


class _LanePlace(NamedTuple):
    """Where a chunk's rows are found in the tables."""

    cohorts: NDArray[np.intp]
    """Cohort per chip; per instance or for the whole chunk if equal for its chips."""
    wide: NDArray[np.intp] | None
    """Each instance's place in the whole-instance tables; None if lanes are copied by chip."""


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
        """Bind to the columns, and draw every chip's fixed differences from others.

        Args:
            layout: The whole fleet.
            cohorts: Its instances, grouped.
            columns: Of the whole fleet.
            rng: The run's randomness.
            fleet: Source of the fleet's cooling.
            own: Instances with rows to write: whole UltraServers; all by default.
        """
        own = range(len(layout.instances)) if own is None else own
        self._layout = layout
        self._rng = rng
        self._own = own
        self._rows = slice(int(layout.chip_start[own.start]), int(layout.chip_start[own.stop]))
        self._throttle = columns["throttle_pct"]
        self._cohorts = cohorts
        self._hardware = ChipHardware(layout, cohorts)
        self._shown_power = columns["power_util_pct"][self._rows]
        present = np.zeros_like(columns["power_util_pct"])
        self._power = present[self._rows]
        """Codes of `power_util_pct` in the present tick."""
        self._power_sum = np.zeros(len(self._power), np.float32)
        """Their sum over the seconds of the present minute."""
        self._summed_s = -1.0
        """These seconds; negative before the first tick."""
        self._chunks = list(cut(layout, {**columns, "power_util_pct": present}, own))
        self._noise_chips = noise_chips(layout)
        self._cooled = Cooling(layout, fleet.cooling)
        self.temperature_c = np.zeros(self._rows.stop - self._rows.start, np.float32)
        """Temperature of every own chip, degC, before rounding to a code."""
        self.rest_c = chip_offsets_c(layout, rng, own) + np.float32(fleet.inlet_c)
        """Temperature of each of these chips without power, degC."""
        self.variation = Variation(layout, rng, own)
        """Differences of these chips."""
        self._resistance = [
            np.tile(shares.astype(np.float32), CHUNK_INSTANCES)
            for shares in self._cooled.chip_c_per_w
        ]
        """For each type, the resistance of the chips of a full chunk's instances."""
        self._is_cold = True
        most = max((chunk.rows.stop - chunk.rows.start for chunk in self._chunks), default=0)
        self._scratch = {
            np.dtype(kind): np.empty((2, most * _MOST_WIDTH), kind)
            for kind in (np.uint8, np.uint16)
        }
        self._floats = np.empty((3, most), np.float32)
        self._wide, self._places = _places(self._chunks, cohorts.of_chip)
        self._highest = self._limits()
        self._no_core = (
            np.arange(BY_NAME["nc_util_pct"].width) >= self._hardware.neuroncores[:, None]
        )
        self._lane_places = (
            np.arange(len(cohorts.row))[:, None] * (UNLINKED + 1) + self._hardware.lane_source
        )
        self._known: tuple[JobTick, ChipLoad, NDArray[np.float64]] | None = None

    def regroup(self) -> None:
        """Take over cohorts that have changed places."""
        self._wide, self._places = _places(self._chunks, self._cohorts.of_chip)

    def settle(self, temperature_c: NDArray[np.float32]) -> None:
        """Begin with these temperatures of own chips, degC.

        Without this call, the first tick's power settles them.
        """
        np.copyto(self.temperature_c, temperature_c)
        self._is_cold = False

    def instance_power_w(self, jobs: JobTick) -> NDArray[np.float64]:
        """Return the mean chip power of each instance of the fleet, W, without noise."""
        hardware = self._hardware
        hosts = self._cohorts.hosts
        load = hardware.load(jobs)
        self._known = jobs, load, hardware.power_share(load)
        watts: NDArray[np.float64] = hosts.mean(
            hardware.background_w + self._known[2] * hardware.dynamic_w
        )
        return watts[hosts.of_instance]

    def fill(
        self,
        tick: int,
        elapsed_s: float,
        jobs: JobTick,
        patches: Patches,
        inlet_delta_c: NDArray[np.float32],
        throttled: ThrottledChips,
        at_s: float,
        stragglers: Stragglers = NO_STRAGGLERS,
        poor: PoorCooling = WELL_COOLED,
    ) -> None:
        """Write a tick's chip columns.

        Args:
            tick: Its number, the key of the noise.
            elapsed_s: Length of its window.
            jobs: Work of the jobs.
            patches: Links different from their cohort's.
            inlet_delta_c: For each instance, its inlet's excess over the fleet's.
            throttled: Chips that withhold peak because of heat or a power limit.
            at_s: Its time, simulated seconds since the start, for the slow variation.
            stragglers: Chips with a lower clock.
            poor: Poorly cooled chips.
        """
        tables = self._tables(jobs)
        wide = self._widened(tables.lanes)
        first = self._own.start
        readers = {
            name: self._rng.lanes(
                stream, tick, self._noise_chips * BY_NAME[name].bytes_per_row, first
            )
            for name, (stream, _) in _NOISE.items()
        }
        self.variation.begin(tick, at_s, elapsed_s)
        approach = (
            np.ones(len(self._layout.types)) if self._is_cold else self._cooled.approach(elapsed_s)
        )
        parts = zip(
            self._parts(patches.lanes, LANES),
            self._parts(stragglers.rows),
            self._parts(throttled.rows),
            self._parts(poor.rows),
            strict=True,
        )
        for chunk, place, (patched, straggling, hot, ill) in zip(
            self._chunks, self._places, parts, strict=True
        ):
            lanes, index = (
                (tables.lanes, place.cohorts) if place.wide is None else (wide, place.wide)
            )
            for name, table in lanes.items():
                self._noisy(chunk, name, index, table, readers[name])
            varied = self._vary(chunk)
            cohorts = place.cohorts
            for name, means in tables.means.items():
                self._scaled(chunk, name, means[cohorts], varied)
            self._hbm_used(chunk, tables.hbm_used[cohorts])
            if len(chunk.unlinked):
                chunk.views["link_tx_bytes_per_s"][:, chunk.unlinked] = BY_NAME[
                    "link_tx_bytes_per_s"
                ].top
            if patched:
                _patch(chunk, patches, patched)
            if straggling:
                pace = stragglers.pace[straggling]
                self._stretch(chunk, stragglers.rows[straggling], pace, POWER_CLOCKLESS)
            if chunk.gather is not None:
                self._receive(chunk)
            _by(cohorts, chunk.views["exec_completed"])[:] = tables.executions[cohorts][:, None]
            chunk.views["throttle_pct"][:] = 0
            if hot:
                self._withhold(chunk, throttled, hot)
            badly = WELL_COOLED if ill is None else PoorCooling(poor.rows[ill], poor.factor[ill])
            self._heat(
                chunk, float(approach[chunk.type_index]), inlet_delta_c[chunk.instances], badly
            )
        self._average_power(elapsed_s, at_s)
        self._is_cold = False

    def _average_power(self, elapsed_s: float, at_s: float) -> None:
        """Write the mean power of the last whole minute, as the driver does.

        Before a minute is over, it is that of the first tick.
        """
        if self._summed_s < 0.0:
            self._shown_power[:] = self._power
            self._summed_s = 0.0
        late_s = min(at_s % POWER_MINUTE_S, elapsed_s)
        if late_s < elapsed_s:
            self._power_sum += self._power * np.float32(elapsed_s - late_s)
            self._power_sum /= np.float32(self._summed_s + elapsed_s - late_s)
            self._power_sum += np.float32(0.5)
            np.copyto(self._shown_power, self._power_sum, casting="unsafe")
            self._power_sum[:] = 0.0
            self._summed_s = 0.0
        self._power_sum += self._power * np.float32(late_s)
        self._summed_s += late_s

    def _parts(self, rows: NDArray[np.int64], width: int = 1) -> list[slice | None]:
        """Return each chunk's part of some ascending rows or lanes, None for an empty one.

        Args:
            rows: Chip rows, or chip row x `width` + lane.
            width: Lanes of a chip.
        """
        edges = [chunk.rows.start * width for chunk in self._chunks] + [self._rows.stop * width]
        begins = np.searchsorted(rows, edges).tolist()
        return [slice(*pair) if pair[0] < pair[1] else None for pair in itertools.pairwise(begins)]

    def _widened(self, lanes: dict[str, Noisy]) -> dict[str, Noisy]:
        """Return the whole-instance tables: the lanes of all chips of an instance."""
        chosen = self._wide
        chips = self._layout.most_chips
        return {
            name: (copies(base[chosen], chips), copies(field[chosen], chips))
            for name, (base, field) in lanes.items()
        }

    def _tables(self, jobs: JobTick) -> _Tables:
        hardware = self._hardware
        row = self._cohorts.row
        if self._known is not None and self._known[0] is jobs:
            # The power of the same work was asked for.
            _, load, power_share = self._known
        else:
            load = hardware.load(jobs)
            power_share = hardware.power_share(load)
        activity = load.of
        flops = jobs.peak_flops_share[row] * hardware.flops
        flops += jobs.flops[row]
        axes = np.stack([activity[axis] for axis in AXES], axis=1)
        axes *= hardware.axis_bytes_per_s
        engines = np.stack(
            [activity[name] for name in ("tensor", "vector", "scalar", "gpsimd")], axis=1
        )
        lanes = {
            "nc_util_pct": self._cores(
                *self._column("nc_util_pct", activity["nc"][:, None] * 100.0)
            ),
            "engine_util_pct": self._column("engine_util_pct", engines * 100.0),
            "link_tx_bytes_per_s": self._lanes(*self._column("link_tx_bytes_per_s", axes)),
        }
        means = {
            "tflops": self._mean("tflops", flops * 1e-12),
            "hbm_read_bytes_per_s": self._mean("hbm_read_bytes_per_s", load.hbm_read),
            "hbm_write_bytes_per_s": self._mean("hbm_write_bytes_per_s", load.hbm_write),
            "power_util_pct": self._mean("power_util_pct", power_share * 100.0),
        }
        used = to_codes(BY_NAME["hbm_used_bytes"], jobs.hbm_used[row] * hardware.hbm_bytes)
        return _Tables(lanes, means, jobs.executions[row], used.astype(np.uint16))

    def _limits(self) -> dict[str, NDArray[np.int32]]:
        """Return the highest code of each metric with noise.

        Shape (cohorts, lanes), or one value for all.
        """
        hardware = self._hardware
        hbm = (HBM_CEILING * hardware.hbm_bytes_per_s)[:, None]
        limits = {
            "nc_util_pct": np.array([[100.0]]),
            "engine_util_pct": np.array([[100.0]]),
            "tflops": hardware.most_flops[:, None] / 1e12,
            "hbm_read_bytes_per_s": hbm,
            "hbm_write_bytes_per_s": hbm,
            "power_util_pct": np.array([[100.0]]),
            "link_tx_bytes_per_s": hardware.axis_bytes_per_s * LINK_CEILING,
        }
        return {
            name: np.minimum(to_codes(BY_NAME[name], limit, np.int32), BY_NAME[name].top - 1)
            for name, limit in limits.items()
        }

    def _mean(self, name: str, values: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return the mean codes, before the chips' factors."""
        metric = BY_NAME[name]
        highest = self._highest[name][:, 0]
        exact = values * metric.steps_per_unit if metric.steps_per_unit else values / metric.scale
        most = highest if name == "power_util_pct" else highest / MOST_FACTOR
        # Half a code more, since the conversion truncates; idle power varies, too.
        more = 0.5 + (_IDLE_CODES if name == "power_util_pct" else 0.0)
        return (np.minimum(exact, most) + more).astype(np.float32)

    def _column(self, name: str, values: NDArray[np.float64]) -> Noisy:
        """Return base and field of the noise of a metric's lanes."""
        metric = BY_NAME[name]
        base, field = noisy(
            to_codes(metric, values, np.int32), self._highest[name], _NOISE[name][1]
        )
        return base.astype(metric.dtype), field.astype(metric.dtype)

    def _cores(self, base: NDArray[Any], mask: NDArray[Any]) -> Noisy:
        """Return the values of all cores from the values of one."""
        missing = np.asarray(BY_NAME["nc_util_pct"].top, base.dtype)
        return np.where(self._no_core, missing, base), np.where(self._no_core, np.uint8(0), mask)

    def _lanes(self, base: NDArray[Any], mask: NDArray[Any]) -> Noisy:
        """Return the values of link lanes from the values of their axes."""
        sources = np.zeros((2, len(base), UNLINKED + 1), base.dtype)
        for source, values in zip(sources, (base, mask), strict=True):
            source[:, : len(AXES)] = values
        sources[0, :, UNLINKED] = BY_NAME["link_tx_bytes_per_s"].top
        of_base, of_mask = (source.reshape(-1).take(self._lane_places) for source in sources)
        return of_base, of_mask

    def _noisy(
        self,
        chunk: Chunk,
        name: str,
        index: NDArray[np.intp],
        table: Noisy,
        reader: LaneReader,
    ) -> None:
        """Write a base and noise into a column's rows."""
        view, (base, field) = chunk.views[name], table
        rows, width = view.shape
        noise = reader.read(rows, _NOISE[name][1])[:, :width]
        fields, scratch = (
            part[: rows * width].reshape(rows, width) for part in self._scratch[view.dtype]
        )
        own = _by(index, view)
        other = _by(index, fields)
        np.take(base[:, : own.shape[1]], index, axis=0, out=own, mode="clip")
        np.take(field[:, : own.shape[1]], index, axis=0, out=other, mode="clip")
        add_noise(view, fields, noise, scratch)

    def _vary(self, chunk: Chunk) -> Varied:
        """Return the factors of a chunk's chips."""
        instances = chunk.instances.stop - chunk.instances.start
        shape = (instances, chunk.chips)
        count = instances * chunk.chips
        out, spare = (part[:count].reshape(shape) for part in self._floats[:2])
        return self.variation.fill(self._own_rows(chunk), shape, out, spare)

    def _own_rows(self, chunk: Chunk) -> slice:
        """Return a chunk's rows in arrays of own chips only."""
        return slice(chunk.rows.start - self._rows.start, chunk.rows.stop - self._rows.start)

    def _scaled(self, chunk: Chunk, name: str, means: NDArray[np.float32], varied: Varied) -> None:
        """Write the cohorts' means times the chips' factors into a column's rows."""
        view = chunk.views[name]
        codes = self._floats[2][: view.size].reshape(view.shape)
        factor = varied.factor(name)
        if name == "power_util_pct":
            factor += self.variation.power[self._own_rows(chunk)].reshape(view.shape)
        np.multiply(_by(means, factor), means[:, None], out=_by(means, codes))
        if name == "power_util_pct":
            codes -= np.float32(_IDLE_CODES)
            np.minimum(codes, np.float32(100 * BY_NAME[name].steps_per_unit), out=codes)
        np.copyto(view, codes, casting="unsafe")

    def _hbm_used(self, chunk: Chunk, used: NDArray[np.uint16]) -> None:
        """Write HBM in use: the job's, plus each chip's excess."""
        view = chunk.views["hbm_used_bytes"]
        np.copyto(view, self.variation.used_steps[self._own_rows(chunk)].reshape(view.shape))
        own = _by(used, view)
        np.add(own, used[:, None], out=own)

    def _receive(self, chunk: Chunk) -> None:
        """Write each link end's received bytes: the bytes sent by the other end."""
        sent = chunk.views["link_tx_bytes_per_s"]
        received = chunk.views["link_rx_bytes_per_s"]
        shape = (len(sent) // chunk.group, -1)
        assert chunk.gather is not None  # noqa: S101  for the type checker; the caller asks before
        np.take(sent.reshape(shape), chunk.gather, axis=1, out=received.reshape(shape), mode="clip")

    def _heat(
        self,
        chunk: Chunk,
        approach: float,
        inlet_delta_c: NDArray[np.float32],
        poor: PoorCooling,
    ) -> None:
        """Write power in watts, and the temperature after a window of it.

        Exact for constant power of any length.
        """
        kind = self._layout.types[chunk.type_index].chip
        background_w = kind.power_background_w.value
        most_w = kind.power_max_w.value
        util, power, shown = (
            chunk.views[name] for name in ("power_util_pct", "power_w", "temperature_c")
        )
        count = chunk.rows.stop - chunk.rows.start
        watts, codes = (part[:count].reshape(util.shape) for part in self._floats[:2])
        np.copyto(watts, util, casting="same_kind")
        watts *= np.float32((most_w - background_w) * BY_NAME["power_util_pct"].scale / 100.0)
        watts += np.float32(background_w)
        np.multiply(watts, np.float32(BY_NAME["power_w"].steps_per_unit), out=codes)
        codes += np.float32(0.5)
        np.copyto(power, codes, casting="unsafe")
        rows = self._own_rows(chunk)
        temperature = self.temperature_c[rows].reshape(util.shape)
        watts *= self._resistance[chunk.type_index][:count].reshape(util.shape)
        watts.reshape(-1)[poor.rows - chunk.rows.start] *= poor.factor.astype(np.float32)
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

    def _withhold(self, chunk: Chunk, throttled: ThrottledChips, part: slice) -> None:
        """Write the peak withheld by single chips, and their longer work."""
        rows = throttled.rows[part]
        pct = throttled.pct[part]
        self._throttle[rows] = to_codes(BY_NAME["throttle_pct"], pct).astype(np.uint8)
        # Voltage falls with the clock, so that a limit keeps the power.
        self._stretch(chunk, rows, 1.0 - pct / 100.0, 0.0)

    @staticmethod
    def _stretch(
        chunk: Chunk, rows: NDArray[np.int64], pace: NDArray[np.float64], clockless: float
    ) -> None:
        """Keep the engines of single chips busy for longer, since they do the same work slowly.

        Args:
            chunk: The rows' chunk.
            rows: Chip rows.
            pace: Their clock as a share of their peers'.
            clockless: Share of an active engine's power that does not follow its clock.
        """
        longer = 1.0 / pace
        for name, factor in (
            ("engine_util_pct", longer),
            ("power_util_pct", 1.0 + clockless * (longer - 1.0)),
        ):
            metric = BY_NAME[name]
            view = chunk.views[name].reshape(chunk.rows.stop - chunk.rows.start, -1)
            place = rows - chunk.rows.start
            codes = np.floor(view[place] * factor[:, None] + 0.5)
            view[place] = np.minimum(codes, metric.code_of(100.0)).astype(view.dtype)


def _by(parts: NDArray[Any], view: NDArray[Any]) -> NDArray[Any]:
    """Return a chunk's instance rows, one row per part: chips, instances or the whole chunk."""
    return view.reshape(len(parts), -1)


def _places(
    chunks: list[Chunk], of_chip: NDArray[np.int32]
) -> tuple[NDArray[np.intp], list[_LanePlace]]:
    """Return the cohorts with lanes copied by instance, and each chunk's place in the tables."""
    cohorts = [of_chip[chunk.rows].reshape(-1, chunk.chips).astype(np.intp) for chunk in chunks]
    of_instances = [
        (
            cohort[:, 0]
            if len(np.unique(cohort[:, 0])) <= _MOST_WIDE and bool((cohort == cohort[:, :1]).all())
            else None
        )
        for cohort in cohorts
    ]
    by_instance = [own for own in of_instances if own is not None]
    wide = np.unique(np.concatenate([np.zeros(0, np.intp), *by_instance]))
    return wide, [
        (
            _LanePlace(cohort.reshape(-1), None)
            if own is None
            else _LanePlace(own[:1] if (own == own[0]).all() else own, np.searchsorted(wide, own))
        )
        for cohort, own in zip(cohorts, of_instances, strict=True)
    ]


def _patch(chunk: Chunk, patches: Patches, part: slice) -> None:
    """Change the bytes sent by single links."""
    sent = chunk.views["link_tx_bytes_per_s"].reshape(-1)
    lanes = patches.lanes[part] - chunk.rows.start * LANES
    changed = np.minimum(np.floor(sent[lanes] * patches.factor[part] + 0.5), patches.limit[part])
    sent[lanes] = changed.astype(sent.dtype)
