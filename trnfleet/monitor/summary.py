"""A fleet in a few figures, as of the last pass: for headers, `status` and exporters."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trnfleet.clock import format_rfc3339
from trnfleet.domain.address import Level
from trnfleet.domain.power import Racks, facility_w
from trnfleet.domain.quantities import counted
from trnfleet.domain.reservations.states import ENDED, BlockState
from trnfleet.monitor.store import fields
from trnfleet.monitor.store.store import Freshness

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.monitor.hearing import Hearing
    from trnfleet.monitor.ingest.ingest import Ingest
    from trnfleet.monitor.pipeline import PipelineCounts
    from trnfleet.monitor.reservations.table import Reservation
    from trnfleet.monitor.sources.clocks import Moment
    from trnfleet.monitor.store.findings import Findings
    from trnfleet.monitor.store.rollup import Rollups
    from trnfleet.monitor.store.store import Store


@dataclass(frozen=True, slots=True)
class Summary:
    """A fleet in a few figures; sums over live chips. None where nothing is known."""

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
    lag_s: float
    """Wall seconds from source to here, as far as the clocks tell."""
    undescribed_chips: int = 0
    """Chips that publish at present without a descriptor, which are on no screen."""
    undescribed_paths: int = 0
    """Other paths that do, such as instances that publish frames."""
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


class RackPower(NamedTuple):
    """IT power of a rack."""

    rack: str
    power_w: float


def summarize(
    ingest: Ingest,
    rollups: Rollups,
    findings: Findings,
    counts: PipelineCounts,
    moment: Moment,
    *,
    pue: float,
    now_s: float,
    hearing: Hearing,
) -> Summary:
    """Return the fleet in a few figures.

    Args:
        ingest: The messages that were applied.
        rollups: Those of the last pass.
        findings: Those of the last pass.
        counts: Counts of the way to the store.
        moment: Monitor time.
        pue: Power usage effectiveness of the site.
        now_s: Monotonic seconds.
        hearing: The times in which the sources could be heard.
    """
    store, layout = ingest.store, ingest.store.layout
    offline = store.count(Freshness.OFFLINE)
    clients = ingest.publishers.clients()
    is_ready = rollups.ready and rollups.generation == store.generation and bool(len(store.chip_state))

    def figure(key: str) -> float | None:
        if not is_ready:
            return None
        return _or_none(fields.BY_KEY[key].values(store, rollups, Level.FLEET, None)[0])

    chips_w = figure("power_w")
    hosts_w = None if chips_w is None else _or_none(rollups.value("host_power_w", Level.FLEET)[0])
    known_w = [each for each in (chips_w, hosts_w) if each is not None]
    it_w = sum(known_w) if known_w else None
    undescribed_chips, undescribed_paths = ingest.topics.undescribed.counts(now_s)
    return Summary(
        fleet=ingest.fleet_name,
        chips=layout.chips,
        instances=len(layout.instances),
        ultraservers=layout.ultraserver_count,
        live_chips=store.count(Freshness.LIVE),
        stale_chips=store.count(Freshness.STALE) + offline,
        offline_chips=offline,
        unknown_chips=store.count(Freshness.UNKNOWN),
        jobs=len(ingest.jobs),
        publishers_online=sum(clients.values()),
        publishers=len(clients),
        nc_util_pct=figure("nc_util_pct"),
        mfu_pct=figure("mfu_pct"),
        power_w=chips_w,
        host_power_w=hosts_w,
        it_power_w=it_w,
        facility_power_w=None if it_w is None else facility_w(it_w, pue),
        pue=pue,
        tflops=figure("tflops"),
        tflops_per_w=figure("tflops_per_w"),
        hbm_traffic_bytes_per_s=figure("hbm_traffic_bytes_per_s"),
        hbm_bw_util_pct=figure("hbm_bw_util_pct"),
        link_tx_bytes_per_s=figure("link_tx_bytes_per_s"),
        temperature_c=figure("temperature_c"),
        findings=findings.total,
        messages=counts.messages,
        lost=counts.lost,
        late=counts.late,
        duplicates=counts.duplicates,
        undescribed=counts.undescribed,
        undescribed_chips=undescribed_chips,
        undescribed_paths=undescribed_paths,
        undecodable=counts.undecodable,
        misplaced=counts.misplaced,
        rejected=counts.rejected,
        dropped=counts.dropped,
        lag_s=ingest.lag_s,
        clock_skew_s=ingest.timebase.worst_skew_s(now_s),
        monitor_time=format_rfc3339(moment.time_ns),
        speed=moment.speed,
        is_wall_time=moment.is_wall,
        events=ingest.events.received,
        events_dropped=ingest.events.dropped,
        shed=counts.shed,
        old=counts.old,
        late_s=ingest.timebase.late_s(now_s),
        contested=ingest.contests.pairs(now_s),
        unheard_s=hearing.unheard_s(now_s),
        overloaded_s=hearing.overloaded_s(now_s),
        internal_errors=counts.internal_errors,
        layouts_held=counts.layouts_held,
        refused=dict(counts.refused),
        last_problem=counts.last_problem,
        **reserved(ingest.reservations.table()),
    )


def rack_powers(store: Store, rollups: Rollups) -> list[RackPower]:
    """Return the IT power of every rack of which all is live, in the order of addresses."""
    layout = store.layout
    if not layout.instances or rollups.generation != store.generation:
        return []
    chips_w = rollups.value("power_w", Level.INSTANCE)
    hosts_w = rollups.value("host_power_w", Level.INSTANCE)
    is_live = rollups.states(Level.INSTANCE)[:, Freshness.LIVE] == np.diff(layout.chip_start)
    known = is_live & ~np.isnan(chips_w)
    racks = Racks.of(layout)
    # What a rack draws is not known while a part of it is silent.
    whole = np.logical_and.reduceat(known, racks.start[:-1])
    total_w = racks.total(np.where(known, chips_w + np.nan_to_num(hosts_w), np.nan))
    return [
        RackPower(racks.label(number), float(total_w[number])) for number in np.flatnonzero(whole).tolist()
    ]


def reserved(table: Sequence[Reservation]) -> dict[str, Any]:
    """Return the summary's figures about reservations."""
    ended = {state.value for state in ENDED}
    active = [each for each in table if each.message.state.value == BlockState.ACTIVE.value]
    idle = [(each.idle_per_h, each.message.currency) for each in active if each.idle_per_h is not None]
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


def undescribed_text(summary: Summary) -> str:
    """Return how many chips and other paths publish without a descriptor, such as `144 chips`; empty for none."""
    counts = ((summary.undescribed_chips, "chip"), (summary.undescribed_paths, "path"))
    return " and ".join(counted(number, noun) for number, noun in counts if number)
