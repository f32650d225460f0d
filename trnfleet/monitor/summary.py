"""A fleet in a few figures, as of the last pass: for headers, `status` and exporters."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trnfleet.clock import format_rfc3339
from trnfleet.domain.address import Level
from trnfleet.domain.alerts.watches import receiver_errors
from trnfleet.domain.layout import Node
from trnfleet.domain.metrics import BY_NAME
from trnfleet.domain.power import Racks, facility_w
from trnfleet.domain.quantities import counted
from trnfleet.domain.reservations.states import ENDED, BlockState
from trnfleet.monitor.store import fields
from trnfleet.monitor.store.store import Freshness

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.domain.alerts.watches import ReceiverError
    from trnfleet.monitor.ingest.ingest import Ingest
    from trnfleet.monitor.pipeline.health import PipelineHealth
    from trnfleet.monitor.pipeline.problem import PipelineProblem
    from trnfleet.monitor.reservations.table import Reservation
    from trnfleet.monitor.sources.clocks import Moment
    from trnfleet.monitor.store.averages import Averages
    from trnfleet.monitor.store.findings import Findings
    from trnfleet.monitor.store.rollup import RollupReader, Rollups
    from trnfleet.monitor.store.store import Store

_TEMPERATURE = BY_NAME["temperature_c"]


@dataclass(frozen=True, slots=True)
class Means:
    """A fleet's figures as means over the last seconds; sums over live chips. None where nothing is known."""

    seconds: float = 0.0
    """Seconds of the fleet's time that they are over; 0 where they are of the last pass alone."""
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
    """The highest of any chip in those seconds."""
    hottest_chip: str | None = None
    """Address of the hottest chip at present of the instance that had the highest temperature."""
    power_cap_w: float | None = None
    """Sum of the highest power by the hardware catalogue, of the chips that the power is of."""
    headroom_w: float | None = None
    """What is left below the cap; negative above it."""
    headroom_pct: float | None = None
    """The same as a share of the cap."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A fleet in a few figures, of the last pass; sums over live chips. None where nothing is known."""

    fleet: str
    chips: int
    instances: int
    ultraservers: int
    live_chips: int
    stale_chips: int
    """Stale and offline ones together."""
    offline_chips: int
    unknown_chips: int
    jobs: int
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
    """IT power with what cooling and conversion take on top."""
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
    late: int
    duplicates: int
    undescribed: int
    """Messages of telemetry without a descriptor."""
    undecodable: int
    misplaced: int
    rejected: int
    dropped: int
    lag_s: float | None
    """Wall seconds from source to here, as far as the clocks tell; None while no chip is live."""
    undescribed_chips: int = 0
    """Chips that publish at present without a descriptor, which are on no screen."""
    undescribed_paths: int = 0
    """Other paths that do, such as instances that publish frames."""
    joining_instances: int = 0
    """Instances that are described and will be shown with the next layout."""
    clock_skew_s: float = 0.0
    """By how much a source's clock is ahead of ours (behind: negative), 0 where none is off by more than 5 s."""
    monitor_time: str = ""
    """RFC 3339: the wall clock, or the time of a simulated or replayed fleet."""
    speed: float = 1.0
    """Seconds of that time per wall second."""
    is_wall_time: bool = True
    events: int = 0
    """Events that have come."""
    events_dropped: int = 0
    """Events that had to make room for newer ones."""
    reservations: int = 0
    """Reservations that have not ended."""
    reserved_instances: int = 0
    """Instances of the active ones."""
    reserved_idle_per_h: str | None = None
    """Cost of an hour of those of them that do nothing, decimal text; None where nothing is active, its fee or use is not
    known, or currencies differ."""
    reserved_currency: str | None = None
    shed: int = 0
    """Telemetry left out here for newer messages of its topic, because the monitor was behind; not part of `lost`."""
    old: int = 0
    """Telemetry whose source time was more than a minute behind the wall clock."""
    late_s: float = 0.0
    """By how much the latest telemetry is behind the wall clock; 0 where none is by more than a minute."""
    contested: dict[str, int] = field(default_factory=dict)
    """Paths that two publishers describe at once, by the names of the two."""
    unheard_s: float = 0.0
    """Wall seconds for which nothing could be heard: no connection, or nothing at all came over it."""
    overloaded_s: float = 0.0
    """Wall seconds for which the monitor has not kept up with its sources."""
    internal_errors: int = 0
    """Failures of the monitor's own work: what failed shows what was known before, or leaves one object out."""
    layouts_held: int = 0
    """Times that a publisher's changes of its instances had to wait, because it had made too many."""
    refused: dict[str, int] = field(default_factory=dict)
    """Undecodable, misplaced and rejected messages by the class of their topic."""
    last_problem: str = ""
    """The last refused message or failure: its topic and the reason, as they came from the wire."""
    receiver_error_count: int = 0
    """Alerts, silences and acknowledgements that receivers of the watch that leads do not take, such as Alertmanager."""
    receiver_errors: tuple[ReceiverError, ...] = ()
    """The first of them."""
    messages_per_s: float | None = None
    """Telemetry messages a second over at least 10 s and several messages; 0 for a dead feed, None where none has come twice."""
    quiet_s: float | None = None
    """Seconds for which no telemetry has come; None where none ever has."""
    pipeline_problems: tuple[PipelineProblem, ...] = ()
    """What is wrong with the pipeline, the worst first."""
    mean: Means = field(default_factory=Means)
    """The same figures as means over the last seconds."""
    unobserved_chips: int = 0
    """Chips that no relay sees at present: whether they live is not known."""
    rolled_chips: int = 0
    """Chips whose figures come from the roll-ups of relays alone."""
    forwarded_chips: int = 0
    """Chips that relays forward under leases, whose figures are their own."""
    cells: tuple[str, ...] = ()
    """Cells whose relays publish them."""
    unwatched_cells: tuple[str, ...] = ()
    """Cells that a relay sees and no watch leads in: nobody evaluates rules about their chips and instances."""


class RackPower(NamedTuple):
    """IT power of a rack."""

    rack: str
    power_w: float


class Figures(NamedTuple):
    """The fleet's figures of one pass."""

    chips: list[int] | None
    """How many chips are in each `Freshness`; None where no pass was of the present layout."""
    now: dict[str, float | None]
    """Those of the pass alone, by their names in the summary."""
    mean: Means


class PassFigures:
    """The figures of the last pass, made once: they are most of the work, and an app asks for a summary more often."""

    def __init__(self) -> None:
        self._store: Store | None = None
        self._averages: Averages | None = None
        self._generation, self._pue = -1, 0.0
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
            self._store, self._averages = store, averages
            self._generation, self._pue = store.generation, pue
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
    store, layout = ingest.store, ingest.store.layout
    counts = pipeline.counts
    # Rows of a tree show those of the pass, too.
    chips = [store.count(state) for state in Freshness] if figures.chips is None else figures.chips
    offline = chips[Freshness.OFFLINE]
    now = figures.now
    errors = receiver_errors(ingest.watches.present(now_s))
    return Summary(
        fleet=ingest.fleet_name,
        chips=layout.chip_count,
        instances=layout.instance_count,
        ultraservers=layout.ultraserver_count,
        live_chips=chips[Freshness.LIVE],
        stale_chips=chips[Freshness.STALE] + offline,
        offline_chips=offline,
        unknown_chips=chips[Freshness.UNKNOWN],
        unobserved_chips=chips[Freshness.UNOBSERVED],
        rolled_chips=int(layout.sizes[layout.is_rolled].sum()) if layout.has_rolled else 0,
        forwarded_chips=int(layout.sizes[store.is_forwarded].sum())
        if store.is_forwarded.any()
        else 0,
        cells=tuple(sorted({each.cell for each in ingest.descriptors if each.cell}))
        if store.rolled.blocks
        else (),
        unwatched_cells=ingest.alerts.cells.unwatched,
        jobs=len(ingest.jobs),
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
        **mean,
    )
    return Figures(rollups.states(Level.FLEET)[0].tolist(), _figures(store, rollups, pue), means)


def _figures(store: Store, rollups: RollupReader, pue: float) -> dict[str, float | None]:
    """Return the fleet's figures, by their names in the summary."""
    found = {
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
    chips_w = found["power_w"]
    hosts_w = None if chips_w is None else _or_none(rollups.value("host_power_w", Level.FLEET)[0])
    known_w = [each for each in (chips_w, hosts_w) if each is not None]
    it_w = sum(known_w) if known_w else None
    facility = None if it_w is None else facility_w(it_w, pue)
    return {**found, "host_power_w": hosts_w, "it_power_w": it_w, "facility_power_w": facility}


def _headroom(store: Store, averages: Averages, power_w: float | None) -> dict[str, float | None]:
    """Return the chips' power cap and what is left below it, by their names among the means.

    Chips whose power is not known have no part in either: what they draw is not free.
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
    """Return the address of the hottest live chip of the instance that had the highest temperature; None for none."""
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
    """Return the IT power of every rack of which all is live, in the order of addresses."""
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
    active = [each for each in table if each.message.state.value == BlockState.ACTIVE.value]
    idle = [
        (each.idle_per_h, each.message.currency) for each in active if each.idle_per_h is not None
    ]
    currencies = {currency for _, currency in idle}
    is_known = len(currencies) == 1
    return {
        "reservations": sum(each.message.state.value not in ended for each in table),
        "reserved_instances": sum(each.message.instances for each in active),
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
    """Return how many chips and other paths publish without a descriptor, such as `144 chips`; empty for none."""
    counts = ((summary.undescribed_chips, "chip"), (summary.undescribed_paths, "path"))
    return " and ".join(counted(number, noun) for number, noun in counts if number)
