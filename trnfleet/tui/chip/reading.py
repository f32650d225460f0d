"""Everything the monitor knows of one chip, read at once for the chip view.

It draws nothing. Values are in the metric table's units, NaN if not available.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain import links
from trnfleet.domain.address import Level
from trnfleet.domain.alerts.alert import address_of, is_below
from trnfleet.domain.layout import Layout, Node
from trnfleet.domain.metrics import (
    BY_NAME,
    CHIP_METRICS,
    HEALTH_BITS,
    METRICS,
    Kind,
    Metric,
    Provider,
    Scope,
)
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.store.announced import Announced
from trnfleet.monitor.store.store import Store, join_lanes
from trnfleet.tui.charts.history import fired_marks
from trnfleet.tui.charts.place import ChartedPlace, ChartSource
from trnfleet.tui.chip.marks import ChipPart, PartMark, read_marks
from trnfleet.tui.metric_display import CHIP_CHARTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from trnfleet.domain.hardware.catalogue import ChipType, InstanceType
    from trnfleet.monitor.fleet_state import FleetState
    from trnfleet.monitor.store.fields import Field
    from trnfleet.tui.charts.chart import Chart
    from trnfleet.tui.state.context import UiContext
    from trnfleet.tui.state.descriptors import Descriptions
    from trnfleet.tui.state.limits import MarkLimits
    from trnfleet.wire.messages import Descriptor


class LinkFacts(NamedTuple):
    """One NeuronLink of a chip."""

    direction: str
    exists: bool
    up: bool | None
    """None if not published."""
    tx_bytes_per_s: float
    rx_bytes_per_s: float
    peak_bytes_per_s: float
    """Each way."""
    neighbour: str
    """Address of the chip at the other end. Empty for no link, a switch or an unknown chip."""
    is_port: bool
    """Whether a switch is at the other end."""


class Provenance(NamedTuple):
    """Where a metric's values come from."""

    metric: Metric
    origin: str
    """simulated, measured, modelled, unavailable or not sent."""
    source: str


@dataclass(frozen=True)
class ChipFacts:
    """One chip at one moment."""

    address: str
    shown: str
    """The address with the display name of its instance."""
    kind: InstanceType
    lnc: int | None
    """Physical cores per logical core. None if not published."""
    ec2_id: str
    job: str
    job_state: str
    """Safe for the screen. Empty without a job."""
    job_age_s: float | None
    """Seconds since the job's chips were last heard; None while any is live."""
    freshness: Freshness
    age_s: float
    """Seconds since its values arrived. Infinite without values."""
    ts_ns: int
    """Source time of its values. 0 without values."""
    late_s: float
    """Seconds behind the wall clock on arrival. 0 if not late."""
    origin: str
    """Kind of publisher: `simulated` or `neuron`. Empty if not published."""
    announced: Announced
    """Metrics that its publisher announces."""
    lease_of: str
    """Cell of the relay that forwards it under a lease. Empty without a lease."""
    values: dict[str, NDArray[np.float64]]
    """Lanes of every chip metric (one lane for a single value)."""
    host: dict[str, float]
    """Its instance's own metrics."""
    links: tuple[LinkFacts, ...]
    unhealthy: tuple[str, ...] | None
    """Names of unhealthy components. None if not published."""
    rates: dict[str, float]
    """Events per second of every counter. NaN if not yet known."""
    charts: dict[str, Chart]
    """Of the fields that are charted, by key."""
    now: dict[str, float]
    """Present values of the same fields; NaN unless the chip is live."""
    series: dict[str, NDArray[np.float32]]
    """The newest samples of the same fields, oldest first, one a second."""
    samples: int
    """Samples recorded since the start. A full ring no longer grows."""
    window: str
    """The span of the charts, in words."""
    provenance: tuple[Provenance, ...]
    speed: float
    """Seconds of its time a wall second; history and ages go by the wall clock."""
    marks: Mapping[ChipPart, PartMark]
    """Of the parts that alerts are about."""
    limits: MarkLimits
    """Values from which figures are marked."""

    @property
    def chip(self) -> ChipType:
        """Its type's catalogue figures."""
        return self.kind.chip

    def knows(self, *names: str) -> bool:
        """Return whether its publisher announces all of these metrics."""
        return self.announced.knows(names)

    @property
    def fields(self) -> tuple[Field, ...]:
        """Fields to chart, the most important first."""
        known = tuple(field for field in CHIP_CHARTS if self.knows(*field.parts))
        # The last one takes the place of a field that is not known.
        return known[: len(CHIP_CHARTS) - 1]

    def value(self, name: str) -> float:
        """Return a metric's one value for the chip; a vector's lanes are joined."""
        lanes = self.values[name]
        return float(
            lanes[0] if len(lanes) == 1 else join_lanes(BY_NAME[name], lanes[np.newaxis])[0]
        )


COUNTERS = tuple(metric.name for metric in CHIP_METRICS if metric.kind is Kind.COUNTER)
RATE_WINDOW_S = 60.0
"""Seconds of source time averaged in a rate."""


class CounterRates:
    """Rates of one chip's counters over the last samples, per second of its own time.

    History does not record them.
    """

    def __init__(self) -> None:
        self._address = ""
        self._samples: deque[tuple[float, NDArray[np.float64]]] = deque()

    def add(self, path: str, ts_ns: int, totals: NDArray[np.float64]) -> dict[str, float]:
        """Add a sample and return events a second by counter.

        Another chip, time going back, or a counter that fell starts over: a replaced instance
        counts from 0.
        """
        ts_s = ts_ns / 1e9
        samples = self._samples
        if path != self._address or (
            samples and (ts_s < samples[-1][0] or bool((totals < samples[-1][1]).any()))
        ):
            self._address = path
            samples.clear()
        if ts_ns and (not samples or ts_s > samples[-1][0]):
            samples.append((ts_s, totals))
        while len(samples) > 2 and ts_s - samples[1][0] >= RATE_WINDOW_S:
            samples.popleft()
        if len(samples) < 2:
            return dict.fromkeys(COUNTERS, np.nan)
        rates = (samples[-1][1] - samples[0][1]) / (samples[-1][0] - samples[0][0])
        return dict(zip(COUNTERS, rates.tolist(), strict=True))


def read_chip(
    context: UiContext,
    descriptions: Descriptions,
    chip: int,
    now_s: float,
    rates: CounterRates,
) -> ChipFacts:
    """Return the facts of a chip row of the present layout, at monotonic `now_s`."""
    monitor = context.monitor
    store = monitor.store
    layout = monitor.store.layout
    node = Node(Level.CHIP, chip)
    path = layout.path(node)
    source = ChartSource.read_node(ChartedPlace(context, path), node)
    marks = fired_marks(
        monitor,
        source.inputs.times.span_s,
        lambda alert: (
            bool(address := address_of(alert)) and is_below(path, address.partition(":")[0])
        ),
    )
    source = source._replace(marks=marks)
    instance = int(layout.instance_of_chip[chip])
    described = descriptions.of(layout.instances[instance])
    descriptor = described.descriptor if described else None
    ts_ns = int(store.chip_ts_ns[chip])
    values = {metric.name: _lanes(store, metric, chip) for metric in CHIP_METRICS}
    job = int(store.job_of[instance])
    message = descriptions.job(job)
    return ChipFacts(
        address=path,
        shown=monitor.ingest.names.address(path),
        kind=layout.type_of(instance),
        lnc=descriptions.lnc(chip),
        ec2_id=descriptions.ec2_id(layout.instances[instance]),
        job=descriptions.job_name(job),
        job_state=descriptions.job_state(job),
        job_age_s=None if message is None else monitor.job_age_s(message.job),
        freshness=Freshness(int(store.chip_state[chip])),
        age_s=now_s - float(store.chip_seen_s[chip]),
        ts_ns=ts_ns,
        late_s=_late_s(monitor, described.descriptor.path, chip) if described and ts_ns else 0.0,
        origin=descriptor.origin if descriptor else "",
        announced=Announced.one(int(store.announced[instance])),
        lease_of=descriptor.forwarded.cell if descriptor and descriptor.forwarded else "",
        values=values,
        host={
            metric.name: float(_lanes(store, metric, instance)[0])
            for metric in METRICS
            if metric.scope is Scope.INSTANCE
        },
        links=_links(layout, chip, values),
        unhealthy=_unhealthy(store, chip),
        rates=rates.add(path, ts_ns, np.array([values[name][0] for name in COUNTERS])),
        charts={field.key: source.single(field).chart for field in CHIP_CHARTS},
        now=_now(context, chip),
        series={
            field.key: monitor.history.series(layout, node, field.key) for field in CHIP_CHARTS
        },
        samples=monitor.history.samples,
        window=source.note,
        provenance=tuple(
            _provenance(metric, descriptor)
            for metric in METRICS
            # Metrics that no simulator has are no news of a simulator's chip.
            if metric.is_simulated or descriptor is None or descriptor.origin != "simulated"
        ),
        speed=descriptor.clock.speed if descriptor else 1.0,
        marks=read_marks(context.alerts, path, layout, layout.lane_names_of(instance)),
        limits=context.alerts.limits,
    )


def _late_s(monitor: FleetState, described_by: str, chip: int) -> float:
    short = monitor.ingest.descriptors.get(described_by)
    store = monitor.store
    if short is None:
        return 0.0
    timebase = monitor.ingest.timebase
    ts_ns = int(store.chip_ts_ns[chip])
    return timebase.late_by_s(short.clock, ts_ns, float(store.chip_seen_s[chip]))


def _now(context: UiContext, chip: int) -> dict[str, float]:
    """Return the values shown in the panels.

    The last sample is not used: it may be from an earlier message.
    """
    store = context.monitor.store
    row = np.array([chip])
    if store.chip_state[chip] != Freshness.LIVE.value:
        return {field.key: np.nan for field in CHIP_CHARTS}
    averages = context.frame.averages
    return {
        field.key: float(field.values(store, averages, Level.CHIP, row)[0]) for field in CHIP_CHARTS
    }


def neighbour(layout: Layout, chip: int, lane: int) -> int | None:
    """Return the chip row at the other end of a link.

    None without a link or for a switch.
    """
    instance = int(layout.instance_of_chip[chip])
    kind = layout.type_of(instance)
    if kind.is_between(lane):
        members = layout.children(layout.parent(Node(Level.INSTANCE, instance)))
        if kind.between is None or len(members) != kind.between.members:
            # Places in the UltraServer follow from the names' order, which is not known while some
            # are not described.
            return None
    return links.neighbour(layout, chip, lane)


def _links(
    layout: Layout, chip: int, values: dict[str, NDArray[np.float64]]
) -> tuple[LinkFacts, ...]:
    instance = int(layout.instance_of_chip[chip])
    kind = layout.type_of(instance)
    there = int(layout.chip_links_mask[chip])
    mask = values["links_up"][0]
    facts: list[LinkFacts] = []
    for lane, name in enumerate(layout.lane_names_of(instance)):
        figure = kind.lane_bytes_per_s(lane)
        other = neighbour(layout, chip, lane)
        facts.append(
            LinkFacts(
                direction=name,
                exists=bool(there >> lane & 1),
                up=None if np.isnan(mask) else bool(int(mask) >> lane & 1),
                tx_bytes_per_s=float(values["link_tx_bytes_per_s"][lane]),
                rx_bytes_per_s=float(values["link_rx_bytes_per_s"][lane]),
                peak_bytes_per_s=figure.value if figure else np.nan,
                neighbour="" if other is None else layout.path(Node(Level.CHIP, other)),
                is_port=kind.is_port(lane),
            )
        )
    return tuple(facts)


def _unhealthy(store: Store, chip: int) -> tuple[str, ...] | None:
    metric = BY_NAME["health"]
    bits = int(store.columns[metric.name][chip])
    if bits == metric.top:
        return None
    named = [name for bit, name in enumerate(HEALTH_BITS) if bits >> bit & 1]
    unnamed = bits >> len(HEALTH_BITS) << len(HEALTH_BITS)
    return (*named, hex(unnamed)) if unnamed else tuple(named)


def _provenance(metric: Metric, descriptor: Descriptor | None) -> Provenance:
    if descriptor is None:
        return Provenance(metric, "unknown", "no descriptor has come")
    column = next((column for column in descriptor.columns if column.name == metric.name), None)
    if column is None:
        is_told = metric.source is Provider.HOST
        return Provenance(metric, "not sent", f"{'from ' * is_told}{metric.real_source}")
    if descriptor.origin == "simulated":
        return Provenance(metric, "simulated", metric.source or metric.real_source)
    source = "; ".join(filter(None, (column.cover_text, metric.real_source)))
    return Provenance(metric, metric.real_host.value, source)


def _lanes(store: Store, metric: Metric, row: int) -> NDArray[np.float64]:
    return np.atleast_1d(store.values(metric, slice(row, row + 1))[0])


def chip_at(layout: Layout, path: str) -> int | None:
    """Return the chip row to show for an address.

    Its own, its core's chip, or the first below it that is not known from roll-ups only.
    """
    node = layout.find(path)
    if node is None:
        return None
    rows = layout.chip_range(node)
    if not layout.has_rolled:
        return rows.start if len(rows) else None
    has_chips = ~layout.is_rolled[layout.instance_of_chip[rows.start : rows.stop]]
    return rows.start + int(has_chips.argmax()) if has_chips.any() else None
