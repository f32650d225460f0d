"""Summary of a fleet as of the last pass, for headers, `status` and exporters."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trnfleet.clock import format_rfc3339
from trnfleet.domain.address import Level
from trnfleet.domain.alerts.watches import ReceiverError, receiver_errors
from trnfleet.domain.layout import Node
from trnfleet.domain.metrics import BY_NAME, Scope
from trnfleet.domain.power import Racks, facility_w
from trnfleet.domain.quantities import counted
from trnfleet.domain.reservations.states import ENDED, BlockState
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.store import fields
from trnfleet.monitor.store.announced import Announced

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trnfleet.monitor.ingest.ingest import Ingest
    from trnfleet.monitor.pipeline.health import PipelineHealth, PipelineProblem
    from trnfleet.monitor.reservations.table import Reservation
    from trnfleet.monitor.sources.clocks import Moment
    from trnfleet.monitor.store.averages import Averages
    from trnfleet.monitor.store.findings import Findings
    from trnfleet.monitor.store.rollup import RollupReader, Rollups
    from trnfleet.monitor.store.store import Store

_TEMPERATURE = BY_NAME["temperature_c"]


@dataclass(frozen=True, slots=True)
class Means:
    """A fleet's figures as means over the last seconds; sums over live chips.

    None where nothing is known.
    """

    seconds: float = 0.0
    """Seconds of fleet time covered. 0 if only the last pass is used."""
    nc_util_pct: float | None = None
    mfu_pct: float | None = None
    power_w: float | None = None
    """Chips only."""
    host_power_w: float | None = None
    it_power_w: float | None = None
    facility_power_w: float | None = None
    tflops: float | None = None
    tflops_per_w: float | None = None
    hbm_traffic_bytes_per_s: float | None = None
    hbm_bw_util_pct: float | None = None
    link_tx_bytes_per_s: float | None = None
    temperature_max_c: float | None = None
    """Highest temperature of any chip in that time."""
    hottest_chip: str | None = None
    """Address of the hottest chip at present of the instance that had the highest temperature."""
    power_cap_w: float | None = None
    """Sum of the catalogue's maximum power, for the chips included in the power."""
    headroom_w: float | None = None
    """Power left below the cap. Negative above it."""
    headroom_pct: float | None = None
    """The same as a share of the cap."""
    hbm_used_bytes: float | None = None
    exec_errors: float | None = None
    """Failed executions since the counters began."""
    exec_latency_p50_s: float | None = None
    exec_latency_p99_s: float | None = None
    vcpu_util_pct: float | None = None
    host_memory_used_bytes: float | None = None
    chips: Mapping[str, int] = field(default_factory=dict)
    """Chips with a value in the newest pass, by figure; without the figures of hosts."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A fleet in a few figures, of the last pass; sums over live chips.

    None where nothing is known.
    """

    fleet: str
    chips: int
    instances: int
    ultraservers: int
    live_chips: int
    """Live chips. Each chip is in one state: all states add up to `chips`."""
    stale_chips: int
    """Chips silent for three periods, without the offline ones."""
    offline_chips: int
    unknown_chips: int
    """Chips described a moment ago without a report yet."""
    jobs: int
    """All jobs, including those without a live chip."""
    publishers_online: int
    publishers: int
    nc_util_pct: float | None
    mfu_pct: float | None
    power_w: float | None
    """Chips only."""
    host_power_w: float | None
    it_power_w: float | None
    """Chips and hosts together."""
    facility_power_w: float | None
    """IT power plus cooling and conversion."""
    pue: float
    tflops: float | None
    tflops_per_w: float | None
    hbm_traffic_bytes_per_s: float | None
    hbm_bw_util_pct: float | None
    link_tx_bytes_per_s: float | None
    temperature_c: float | None
    """The hottest chip's."""
    findings: int
    messages: int
    lost: int
    """Ticks that never came, and do not come as backlog."""
    late: int
    duplicates: int
    undescribed: int
    """Messages of telemetry without a descriptor."""
    undecodable: int
    misplaced: int
    rejected: int
    dropped: int
    lag_s: float | None
    """Wall seconds from source to here, if the clocks allow. None while no chip is live."""
    backlog: int = 0
    """Ticks that publishers send as backlog, for recorders and history."""
    undescribed_chips: int = 0
    """Chips publishing without a descriptor. They are on no screen."""
    undescribed_paths: int = 0
    """Other paths publishing without a descriptor, such as instances with frames."""
    joining_instances: int = 0
    """Described instances to be shown with the next layout."""
    clock_skew_s: float = 0.0
    """Seconds a source's clock is ahead of ours (behind: negative). 0 if none is off by more than 5
    s."""
    monitor_time: str = ""
    """RFC 3339: the wall clock, or the time of a simulated or replayed fleet."""
    speed: float = 1.0
    """Seconds of that time per wall second."""
    is_wall_time: bool = True
    events: int = 0
    """Events received."""
    events_dropped: int = 0
    """Events dropped for newer ones."""
    reservations: int = 0
    """Reservations that have not ended."""
    reserved_instances: int = 0
    """Instances of the active ones."""
    reserved_idle_per_h: str | None = None
    """Hourly cost of idle reserved instances as decimal text. None if nothing is active, a fee or
    use is unknown, or currencies differ."""
    reserved_currency: str | None = None
    shed: int = 0
    """Telemetry skipped for newer messages of its topic because the monitor was behind. Not part of
    `lost`."""
    old: int = 0
    """Telemetry with a source time over a minute behind the wall clock."""
    late_s: float = 0.0
    """Seconds the latest telemetry is behind the wall clock. 0 if none is over a minute."""
    contested: dict[str, int] = field(default_factory=dict)
    """Paths described by two publishers at once, by the names of the two."""
    unheard_s: float = 0.0
    """Wall seconds without any messages: not connected, or nothing arrived at all."""
    overloaded_s: float = 0.0
    """Wall seconds the monitor has been behind its sources."""
    internal_errors: int = 0
    """Failures of the monitor's own work. A failed part shows its earlier state or leaves one
    object out."""
    layouts_held: int = 0
    """Times a publisher's changes of its instances had to wait because of their number."""
    refused: dict[str, int] = field(default_factory=dict)
    """Undecodable, misplaced and rejected messages by the class of their topic."""
    last_problem: str = ""
    """The last refused message or failure: its topic and reason, unsanitised."""
    receiver_error_count: int = 0
    """Alerts, silences and acknowledgements refused by receivers of the leading watch, such as
    Alertmanager."""
    receiver_errors: tuple[ReceiverError, ...] = ()
    """The first of them."""
    messages_per_s: float | None = None
    """Telemetry messages per second, over at least 10 s and several messages. 0 for a dead feed,
    None before messages have arrived twice."""
    quiet_s: float | None = None
    """Seconds without telemetry. None if none ever arrived."""
    pipeline_problems: tuple[PipelineProblem, ...] = ()
    """Problems of the pipeline, the worst first."""
    mean: Means = field(default_factory=Means)
    """The same figures as means over the last seconds."""
    unobserved_chips: int = 0
    """Chips not observed by any relay at present. Their state is unknown."""
    rolled_chips: int = 0
    """Chips with figures from relays' roll-ups only."""
    forwarded_chips: int = 0
    """Chips forwarded by relays under leases, with their own figures."""
    cells: tuple[str, ...] = ()
    """Cells with publishing relays."""
    last_known_jobs: int = 0
    """Jobs without a live chip: their state and figures are the last known."""
    announced: Announced = field(default_factory=Announced, compare=False)
    """Chips and instances by the metrics that their sources announce."""
    unwatched_cells: tuple[str, ...] = ()
    """Cells seen by a relay without a leading watch. Nobody evaluates rules about their chips and
    instances."""

    def part(self, key: str) -> int:
        """Return the chips in a figure; 0 if they are all live ones, or as many announce it."""
        chips = self.mean.chips.get(key)
        if chips is None:
            parts = fields.BY_KEY[key].parts if key in fields.BY_KEY else (key,)
            chips = self.announced.chips(parts)
            return chips if chips < self.chips else 0
        return chips if chips < (self.live_chips or self.chips) else 0

    @property
    def chip_states(self) -> tuple[tuple[int, str], ...]:
        """Chip count and name of each state, the live ones first."""
        return (
            (self.live_chips, "live"),
            (self.stale_chips, "stale"),
            (self.offline_chips, "offline"),
            (self.unknown_chips, "not heard yet"),
            (self.unobserved_chips, "not observed"),
        )


_OF_CHIPS = {
    shown.key: shown.parts
    for shown in fields.FIELDS
    if all(BY_NAME[name].scope is Scope.CHIP for name in shown.parts)
}
"""Metrics of the figures that chips have, by figure."""


class RackPower(NamedTuple):
    """IT power of a rack."""

    rack: str
    power_w: float


class Figures(NamedTuple):
    """The fleet's figures of one pass."""

    chips: list[int] | None
    """Chip count per `Freshness`. None if no pass was of the present layout."""
    now: dict[str, float | None]
    """Figures of the pass alone, by their names in the summary."""
    mean: Means
    announced: Announced = Announced()


class PassFigures:
    """Figures of the last pass, computed once.

    They are most of the work, and an app asks for a summary more often.
    """

    def __init__(self) -> None:
        self._store: Store | None = None
        self._averages: Averages | None = None
        self._generation = -1
        self._pue = 0.0
        self._figures = Figures(None, {}, Means())

    def of(self, store: Store, averages: Averages, pue: float) -> Figures:
        """Return the figures of a pass.

        Args:
            store: The newest values.
            averages: Those of the pass, with its roll-ups.
            pue: Power usage effectiveness of the site.
        """
        is_same = store is self._store and averages is self._averages
        if not is_same or (store.generation, pue) != (self._generation, self._pue):
            self._figures = _all_figures(store, averages, pue)
            self._store = store
            self._averages = averages
            self._generation = store.generation
            self._pue = pue
        return self._figures


def summarize(
    ingest: Ingest,
    figures: Figures,
    findings: Findings,
    pipeline: PipelineHealth,
    moment: Moment,
    *,
    pue: float,
    now_s: float,
) -> Summary:
    """Return the fleet in a few figures.

    Args:
        ingest: The messages that were applied.
        figures: Those of the last pass.
        findings: Those of the last pass.
        pipeline: The way to the store.
        moment: Monitor time.
        pue: Power usage effectiveness of the site.
        now_s: Monotonic seconds.
    """
    store = ingest.store
    layout = ingest.store.layout
    counts = pipeline.counts
    # Rows of a tree show those of the pass, too.
    chips = store.chips_by_state() if figures.chips is None else figures.chips
    now = figures.now
    errors = receiver_errors(ingest.watches.present(now_s))
    return Summary(
        fleet=ingest.fleet_name,
        chips=layout.chip_count,
        instances=layout.instance_count,
        ultraservers=layout.ultraserver_count,
        live_chips=chips[Freshness.LIVE],
        stale_chips=chips[Freshness.STALE],
        offline_chips=chips[Freshness.OFFLINE],
        unknown_chips=chips[Freshness.UNKNOWN],
        unobserved_chips=chips[Freshness.UNOBSERVED],
        rolled_chips=int(layout.sizes[layout.is_rolled].sum()) if layout.has_rolled else 0,
        forwarded_chips=int(layout.sizes[store.is_forwarded].sum())
        if store.is_forwarded.any()
        else 0,
        cells=tuple(
            sorted({descriptor.cell for descriptor in ingest.descriptors if descriptor.cell})
        )
        if store.rolled.blocks
        else (),
        unwatched_cells=ingest.alerts.cells.unwatched,
        jobs=len(ingest.jobs),
        last_known_jobs=len(ingest.job_table.last_known),
        publishers_online=pipeline.publishers_online,
        publishers=len(pipeline.publishers),
        nc_util_pct=now.get("nc_util_pct"),
        mfu_pct=now.get("mfu_pct"),
        power_w=now.get("power_w"),
        host_power_w=now.get("host_power_w"),
        it_power_w=now.get("it_power_w"),
        facility_power_w=now.get("facility_power_w"),
        pue=pue,
        tflops=now.get("tflops"),
        tflops_per_w=now.get("tflops_per_w"),
        hbm_traffic_bytes_per_s=now.get("hbm_traffic_bytes_per_s"),
        hbm_bw_util_pct=now.get("hbm_bw_util_pct"),
        link_tx_bytes_per_s=now.get("link_tx_bytes_per_s"),
        temperature_c=now.get("temperature_c"),
        findings=findings.total,
        messages=counts.messages,
        lost=counts.lost,
        backlog=counts.backlog,
        late=counts.late,
        duplicates=counts.duplicates,
        undescribed=counts.undescribed,
        undescribed_chips=pipeline.undescribed_chips,
        undescribed_paths=pipeline.undescribed_paths,
        joining_instances=joining_instances(ingest),
        undecodable=counts.undecodable,
        misplaced=counts.misplaced,
        rejected=counts.rejected,
        dropped=counts.dropped,
        lag_s=pipeline.lag_s,
        clock_skew_s=pipeline.clock_skew_s,
        monitor_time=format_rfc3339(moment.time_ns),
        speed=moment.speed,
        is_wall_time=moment.is_wall,
        events=ingest.events.received,
        events_dropped=ingest.events.dropped,
        shed=counts.shed,
        old=counts.old,
        late_s=pipeline.late_s,
        contested=dict(pipeline.contested),
        unheard_s=pipeline.unheard_s,
        overloaded_s=pipeline.overloaded_s,
        internal_errors=counts.internal_errors,
        layouts_held=counts.layouts_held,
        refused=dict(counts.refused),
        last_problem=counts.last_problem,
        receiver_error_count=errors.total,
        receiver_errors=errors.first,
        messages_per_s=pipeline.messages_per_s,
        quiet_s=pipeline.quiet_s,
        pipeline_problems=pipeline.problems,
        mean=figures.mean,
        announced=figures.announced,
        **reserved(ingest.reservations.table()),
    )


def _all_figures(store: Store, averages: Averages, pue: float) -> Figures:
    rollups = averages.rollups
    if not rollups.ready or rollups.generation != store.generation or not len(store.chip_state):
        return Figures(None, {}, Means(averages.seconds))
    mean = _figures(store, averages, pue)
    means = Means(
        averages.seconds,
        temperature_max_c=mean.pop("temperature_c", None),
        hottest_chip=_hottest_chip(store, averages),
        **_headroom(store, averages, mean.get("power_w")),
        **{
            name: _or_none(averages.value(name, Level.FLEET)[0])
            for name in (
                "hbm_used_bytes",
                "exec_errors",
                "exec_latency_p50_s",
                "exec_latency_p99_s",
                "vcpu_util_pct",
                "host_memory_used_bytes",
            )
        },
        chips={
            key: min(int(rollups.covered(name, Level.FLEET)[0]) for name in parts)
            for key, parts in _OF_CHIPS.items()
        },
        **mean,
    )
    return Figures(
        rollups.states(Level.FLEET)[0].tolist(),
        _figures(store, rollups, pue),
        means,
        Announced.read(store.announced, store.layout),
    )


def _figures(store: Store, rollups: RollupReader, pue: float) -> dict[str, float | None]:
    """Return the fleet's figures, by their names in the summary."""
    figures = {
        key: _or_none(fields.BY_KEY[key].values(store, rollups, Level.FLEET, None)[0])
        for key in (
            "nc_util_pct",
            "mfu_pct",
            "power_w",
            "tflops",
            "tflops_per_w",
            "hbm_traffic_bytes_per_s",
            "hbm_bw_util_pct",
            "link_tx_bytes_per_s",
            "temperature_c",
        )
    }
    chips_w = figures["power_w"]
    hosts_w = None if chips_w is None else _or_none(rollups.value("host_power_w", Level.FLEET)[0])
    known_w = [power for power in (chips_w, hosts_w) if power is not None]
    it_w = sum(known_w) if known_w else None
    facility = None if it_w is None else facility_w(it_w, pue)
    return {**figures, "host_power_w": hosts_w, "it_power_w": it_w, "facility_power_w": facility}


def _headroom(store: Store, averages: Averages, power_w: float | None) -> dict[str, float | None]:
    """Return the chips' power cap and headroom, by their names among the means.

    Chips with unknown power are in neither: their consumption is not free power.
    """
    layout = store.layout
    of_types_w = np.array([kind.chip.power_max_w.value for kind in layout.types])
    chips = averages.covered("power_w", Level.INSTANCE)
    cap_w = float((of_types_w[layout.instance_type] * chips).sum()) if len(of_types_w) else 0.0
    if power_w is None or not cap_w:
        return {}
    left_w = cap_w - power_w
    return {"power_cap_w": cap_w, "headroom_w": left_w, "headroom_pct": 100.0 * left_w / cap_w}


def _hottest_chip(store: Store, averages: Averages) -> str | None:
    """Return the hottest live chip's address in the instance with the highest temperature.

    None if there is none.
    """
    instance = averages.highest(_TEMPERATURE.name, Level.INSTANCE)
    if instance is None:
        return None
    layout = store.layout
    chips = slice(int(layout.chip_start[instance]), int(layout.chip_start[instance + 1]))
    values = np.where(
        store.chip_state[chips] == Freshness.LIVE, store.chip_values(_TEMPERATURE, chips), np.nan
    )
    if np.isnan(values).all():
        return None
    return layout.path(Node(Level.CHIP, chips.start + int(np.nanargmax(values))))


def rack_powers(store: Store, rollups: Rollups) -> list[RackPower]:
    """Return the IT power of every fully live rack, by address."""
    layout = store.layout
    if not layout.instances or rollups.generation != store.generation:
        return []
    chips_w = rollups.value("power_w", Level.INSTANCE)
    hosts_w = rollups.value("host_power_w", Level.INSTANCE)
    # Of an UltraServer that is known from roll-ups only, racks are not told apart.
    is_one = layout.members == 1
    is_live = (rollups.states(Level.INSTANCE)[:, Freshness.LIVE] == layout.sizes) & is_one
    known = is_live & ~np.isnan(chips_w)
    racks = Racks.of(layout)
    # What a rack draws is not known while a part of it is silent.
    whole = np.logical_and.reduceat(known, racks.start[:-1])
    total_w = racks.total(np.where(known, chips_w + np.nan_to_num(hosts_w), np.nan))
    return [
        RackPower(racks.label(number), float(total_w[number]))
        for number in np.flatnonzero(whole).tolist()
    ]


def reserved(table: Sequence[Reservation]) -> dict[str, Any]:
    """Return the summary's figures about reservations."""
    ended = {state.value for state in ENDED}
    active = [
        reservation
        for reservation in table
        if reservation.message.state.value == BlockState.ACTIVE.value
    ]
    idle = [
        (reservation.idle_per_h, reservation.message.currency)
        for reservation in active
        if reservation.idle_per_h is not None
    ]
    currencies = {currency for _, currency in idle}
    is_known = len(currencies) == 1
    return {
        "reservations": sum(reservation.message.state.value not in ended for reservation in table),
        "reserved_instances": sum(reservation.message.instances for reservation in active),
        "reserved_idle_per_h": f"{sum(fee for fee, _ in idle):.2f}" if is_known else None,
        "reserved_currency": currencies.pop() if is_known else None,
    }


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def joining_instances(ingest: Ingest) -> int:
    """Return how many instances are described and are not in the layout yet."""
    if not (ingest.layout_due or ingest.layout_work.is_going_on):
        return 0
    return max(0, ingest.descriptors.instances - len(ingest.store.layout.instances))


def undescribed_text(summary: Summary) -> str:
    """Return the number of undescribed chips and other paths, such as `144 chips`.

    Empty for none.
    """
    counts = ((summary.undescribed_chips, "chip"), (summary.undescribed_paths, "path"))
    return " and ".join(counted(number, noun) for number, noun in counts if number)
