"""Findings: the things that an operator should look at first, worst on top.

They are plain thresholds over the store's present state, without memory. A dead UltraServer is one
finding, not 64.
"""

from __future__ import annotations

import functools
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trnfleet.domain.address import Level
from trnfleet.domain.hardware.topology import MOST_LANES
from trnfleet.domain.layout import Layout, Node
from trnfleet.domain.metrics import BY_NAME, HEALTH_BITS
from trnfleet.domain.severity import Severity
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.slices import Slices, checkpoint, finish, require
from trnfleet.monitor.store.per_instance import INSTANCES_A_SLICE, SLACK, any_lane, combine, sums

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from numpy.typing import NDArray

    from trnfleet.monitor.store.rollup import Rollups
    from trnfleet.monitor.store.store import Store
    from trnfleet.wire.messages import JobMessage

    Rows = NDArray[np.int64] | slice


SLOW_LINK_SHARE = 0.75
"""A link below this share of its peers in the instance is slow."""
SLOW_LINK_MIN_BYTES_PER_S = 2e9
"""Below this mean traffic, peers say nothing about a link."""


def uneven_links(store: Store, rollups: Rollups) -> Slices[NDArray[np.int64]]:
    """Return the instances and directions of possible slow links.

    Shape (pairs, 2), ascending.
    """
    layout = store.layout
    metric = BY_NAME["link_tx_bytes_per_s"]
    differing = rollups.uneven(metric.name)
    spread = None if differing is None else rollups.spread(metric.name, differing.instances)
    if spread is None or differing is None:
        return np.zeros((0, 2), np.int64)
    some = differing.instances
    lowest, highest = spread
    # Only where the spread is that wide can a link be below its share of the mean.
    uneven: NDArray[np.bool_] = lowest < np.float32(SLOW_LINK_SHARE) * highest
    uneven &= highest >= metric.code_of(SLOW_LINK_MIN_BYTES_PER_S)
    if not layout.has_uneven_links.any():
        uneven &= highest != metric.top
    else:
        # The chips at a line's ends lack a link, so that the largest code tells nothing.
        uneven |= (highest == metric.top) & (lowest != metric.top)
    uneven &= ~_alike(layout, some, highest, differing.alike, metric.top)
    yield from checkpoint(store, rollups.generation)
    # Chips that carry as little on the other lanes of the same axis have less to do.
    left = np.flatnonzero(any_lane(uneven))
    for first in range(0, len(left), INSTANCES_A_SLICE):
        few = left[first : first + INSTANCES_A_SLICE]
        uneven[few] &= _apart(layout, store.columns[metric.name], metric.top, some[few])
        yield from checkpoint(store, rollups.generation)
    places, lanes = np.nonzero(uneven)
    return np.stack((some[places], lanes), axis=1)


def _alike(
    layout: Layout,
    instances: NDArray[np.int64],
    highest: NDArray[Any],
    alike: NDArray[np.float32],
    top: int,
) -> NDArray[np.bool_]:
    """Return a mask, instances x lanes, without possible slow links.

    No chip can be below its share of the busiest lane of the same axis there.

    Args:
        layout: Where the instances are.
        instances: Their numbers.
        highest: The largest codes of their chips, lane by lane.
        alike: How alike the lanes of their chips are, as `Uneven` has it.
        top: The code that means not available.
    """
    mask = np.zeros(highest.shape, np.bool_)
    types = layout.instance_type[instances]
    known = np.where(highest == top, 0, highest)
    for number, axes in enumerate(lane_axes(layout).tolist()):
        of_type = types == number
        for axis in set(axes) - {-1}:
            lanes = [lane for lane, lane_axis in enumerate(axes) if lane_axis == axis]
            busiest = functools.reduce(np.maximum, (known[:, lane] for lane in lanes))
            limit = np.float32(SLOW_LINK_SHARE * (1 + SLACK)) * busiest
            for lane in lanes if len(lanes) > 1 else ():
                mask[:, lane] |= of_type & (alike * known[:, lane] >= limit)
    return mask


def _apart(
    layout: Layout, codes: NDArray[Any], top: int, instances: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return a mask, instances x lanes, of lanes below the others of the same axis.

    Also set if the axis has no other lanes.
    """
    apart = np.ones((len(instances), MOST_LANES), np.bool_)
    types = layout.instance_type[instances]
    for number, axes in enumerate(lane_axes(layout).tolist()):
        places = np.flatnonzero(types == number)
        if not len(places):
            continue
        own = codes[layout.chip_rows(instances[places])]
        own[own == top] = 0
        for axis in set(axes) - {-1}:
            lanes = [lane for lane, lane_axis in enumerate(axes) if lane_axis == axis]
            busiest = functools.reduce(np.maximum, (own[:, lane] for lane in lanes))
            limit = busiest * np.float32(SLOW_LINK_SHARE)
            for lane in lanes if len(lanes) > 1 else ():
                slow = (own[:, lane] < limit).view(np.uint8)
                apart[places, lane] = sums(slow, len(slow) // len(places), 1) > 0
    return apart


def lane_axes(layout: Layout) -> NDArray[np.int64]:
    """Return a number for the axis of each lane of each instance type.

    Shape (types, lanes).
    """
    names: dict[str, int] = {}
    axes = np.full((len(layout.types), MOST_LANES), -1, np.int64)
    for number, kind in enumerate(layout.types):
        for lane, spec in enumerate(kind.lanes):
            axes[number, lane] = names.setdefault(spec.axis, len(names))
    return axes


THROTTLE_PCT = 5.0
"""Throttling threshold in percent of peak. A chip this far down slows its job by about as much."""
HOT_C = 90.0
HBM_FULL = 0.97
"""Share of HBM in use. Allocations soon fail above it."""
JOBS_DOWN = {
    "hung": "job hung, a process never joins a collective",
    "failed": "job failed",
    "lost": "job lost, its reporter vanished without a goodbye",
    "waiting": "job waiting for instances",
}
"""Job states without progress until someone helps, with the text of the finding."""
REFUSED = "messages refused"
"""Text for stale values of a publisher with refused messages."""
LIMIT = 200
"""Most findings stored per kind. More do not fit a screen, but their number is shown."""


class Finding(NamedTuple):
    """One thing to look at; sorts by severity, then address."""

    severity: Severity
    path: str
    what: str
    chips: int = 1
    """Chips that are concerned."""
    kind: str = ""
    """Kind of the finding, such as `link down`."""
    subject: str = ""
    """Distinction among several of a kind at one place: the job's name, the memory."""

    @property
    def identity(self) -> tuple[str, str, str]:
        """Identity over time, independent of words and figures."""
        return self.kind, self.path, self.subject


HOLD_S = 15.0
"""Seconds a warning stays after it was last seen. Some show only in one phase of a training step.
"""


class Findings(NamedTuple):
    """Findings of one pass: the first of each kind, and the number of all."""

    shown: tuple[Finding, ...]
    total: int


NOTHING = Findings((), 0)


def find(store: Store, rollups: Rollups, jobs: Collection[JobMessage] = ()) -> Findings:
    """Return the findings in a store and its jobs.

    The roll-ups must be up to date.
    """
    return finish(search(store, rollups, jobs))


def search(
    store: Store,
    rollups: Rollups,
    jobs: Collection[JobMessage] = (),
    unsettled: NDArray[np.bool_] | None = None,
) -> Slices[Findings]:
    """Return the findings, one slice per kind.

    The work is bounded: findings are counted in columns, and only the first `LIMIT` of a kind
    become objects.

    Args:
        store: The values.
        rollups: Those of the store as it is.
        jobs: The jobs.
        unsettled: Instances whose silence is still meaningless; None for none.

    Raises:
        LayoutChanged: the roll-ups belong to another layout, or the layout has changed since.
    """
    generation = rollups.generation
    require(store, generation)
    if not store.layout.instances:
        return NOTHING
    shown: list[Finding] = []
    total = 0
    uneven = yield from uneven_links(store, rollups)
    finders: tuple[tuple[str, Callable[[Store, Rollups], _Found]], ...] = (
        ("silent", partial(_silent, unsettled)),
        ("job", partial(_jobs_down, jobs)),
        ("unhealthy", _unhealthy),
        ("uncorrected", _uncorrected),
        ("link down", _links_down),
        ("throttled", _throttled),
        ("link slow", partial(_links_slow, uneven)),
        ("hot", _hot),
        ("HBM full", _full),
    )
    for kind, finder in finders:
        findings, count = finder(store, rollups)
        shown.extend(finding._replace(kind=kind) for finding in findings)
        total += count
        yield from checkpoint(store, generation)
    return Findings(tuple(sorted(shown)), total)


class RecentFindings:
    """Findings with the warnings of the last seconds.

    Without them a list would flicker.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str, str], tuple[float, Finding]] = {}

    def hold(self, current: Findings, now_s: float) -> Findings:
        """Return the current findings plus earlier warnings of the last `HOLD_S` seconds."""
        for finding in current.shown:
            if finding.severity is not Severity.CRITICAL:
                self._seen[finding.identity] = now_s, finding
        self._seen = {key: seen for key, seen in self._seen.items() if now_s - seen[0] < HOLD_S}
        held = [finding for seen_s, finding in self._seen.values() if seen_s < now_s]
        return (
            Findings(tuple(sorted((*current.shown, *held))), current.total + len(held))
            if held
            else current
        )


_Found = tuple[list[Finding], int]
_NONE: _Found = ([], 0)


def _silent(unsettled: NDArray[np.bool_] | None, store: Store, rollups: Rollups) -> _Found:
    """Find stale and offline nodes, each at the highest level with nothing live."""
    layout = store.layout
    fleet = rollups.states(Level.FLEET)[0]
    if not fleet[Freshness.STALE] + fleet[Freshness.OFFLINE]:
        return _NONE
    heard = np.ones(len(layout.instances), np.bool_) if unsettled is None else ~unsettled
    findings: list[Finding] = []
    total = 0
    refused = store.is_refused
    reported = np.zeros(len(layout.instances), np.bool_)
    for level in (Level.ULTRASERVER, Level.INSTANCE):
        states = rollups.states(level)
        silent = states[:, Freshness.STALE] + states[:, Freshness.OFFLINE]
        all_heard = (
            heard
            if level is Level.INSTANCE
            else np.logical_and.reduceat(heard, layout.ultraserver_start[:-1])
        )
        dead = (states[:, Freshness.LIVE] == 0) & (silent > 0)
        # An announced end is news, however little else was heard.
        dead &= all_heard | (states[:, Freshness.STALE] == 0)
        if level is Level.INSTANCE:
            dead &= ~reported
        numbers = np.flatnonzero(dead)
        total += len(numbers)
        for number in numbers[:LIMIT].tolist():
            node = Node(level, number)
            covered = layout.instance_range(node)
            is_refused = refused[covered.start : covered.stop].all()
            what = (
                "offline"
                if states[number, Freshness.OFFLINE]
                else REFUSED
                if is_refused
                else "stale"
            )
            findings.append(
                Finding(Severity.CRITICAL, layout.path(node), what, int(silent[number]))
            )
        if level is Level.ULTRASERVER:
            reported = np.repeat(dead, np.diff(layout.ultraserver_start))
    partly = rollups.states(Level.INSTANCE)
    flagged = (partly[:, Freshness.LIVE] > 0) & (
        partly[:, Freshness.STALE] + partly[:, Freshness.OFFLINE] > 0
    )
    flagged &= heard | (partly[:, Freshness.STALE] == 0)
    chips, count = _chips_in(
        layout,
        flagged,
        lambda rows: np.isin(store.chip_state[rows], (Freshness.STALE, Freshness.OFFLINE)),
    )
    for chip in chips:
        what = REFUSED if refused[layout.instance_of_chip[chip]] else "stale"
        findings.append(Finding(Severity.CRITICAL, layout.path(Node(Level.CHIP, chip)), what))
    return findings, total + count


def _jobs_down(jobs: Collection[JobMessage], store: Store, _rollups: Rollups) -> _Found:
    """Find jobs that are stuck until someone helps, each at the first place it runs."""
    layout = store.layout
    down = [job for job in jobs if job.state in JOBS_DOWN]
    findings: list[Finding] = []
    for job in down[:LIMIT]:
        place = job.on[0].partition("..")[0] if job.on else ""
        covered = [layout.find_instances(target) for target in job.on]
        chips = sum(int(layout.sizes[run.start : run.stop].sum()) for run in covered if run)
        path = place if layout.find(place) is not None else ""
        what = f"{job.job}: {JOBS_DOWN[job.state]}"
        findings.append(Finding(Severity.CRITICAL, path, what, max(1, chips), subject=job.job))
    return findings, len(down)


def _unhealthy(store: Store, rollups: Rollups) -> _Found:
    metric = BY_NAME["health"]
    if not _of_fleet(rollups, metric.name):
        return _NONE
    codes = store.columns[metric.name]

    def text(chip: int) -> str:
        bits = int(codes[chip])
        return "unhealthy: " + ", ".join(
            name for bit, name in enumerate(HEALTH_BITS) if bits >> bit & 1
        )

    flagged = rollups.value(metric.name, Level.INSTANCE) > 0
    return _report(
        store, Severity.CRITICAL, flagged, lambda rows: _between(codes[rows], 1, metric.top), text
    )


def _uncorrected(store: Store, rollups: Rollups) -> _Found:
    findings: list[Finding] = []
    total = 0
    for name, title in (("mem_ecc_uncorrected", "HBM"), ("sram_ecc_uncorrected", "SRAM")):
        metric = BY_NAME[name]
        if not _of_fleet(rollups, name):
            continue
        codes = store.columns[name]
        flagged = rollups.value(name, Level.INSTANCE) > 0
        some, count = _report(
            store,
            Severity.CRITICAL,
            flagged,
            lambda rows, codes=codes, metric=metric: _between(codes[rows], 1, metric.top),  # type: ignore[misc]
            lambda chip, codes=codes, title=title: f"{int(codes[chip])} uncorrected {title} errors",  # type: ignore[misc]
        )
        findings.extend(finding._replace(subject=title) for finding in some)
        total += count
    return findings, total


def _links_down(store: Store, rollups: Rollups) -> _Found:
    layout = store.layout
    metric = BY_NAME["links_up"]
    mask = layout.uniform_links_mask
    if mask is not None and int(_of_fleet(rollups, metric.name)) & mask == mask:
        return _NONE
    codes = store.columns[metric.name]
    owner = layout.instance_of_chip
    expected = layout.chip_links_mask
    of_instance = layout.links_mask
    up = np.nan_to_num(rollups.value(metric.name, Level.INSTANCE), nan=metric.top).astype(np.int64)

    def text(chip: int) -> str:
        down = int(expected[chip]) & ~int(codes[chip])
        names = layout.lane_names_of(int(owner[chip]))
        return "NeuronLink down: " + ", ".join(
            name for bit, name in enumerate(names) if down >> bit & 1
        )

    def is_down(rows: Rows) -> NDArray[np.bool_]:
        links = expected[rows]
        missing: NDArray[np.bool_] = ((codes[rows] & links) != links) & (codes[rows] != metric.top)
        return missing

    # A line's ends lack a link, so that the roll-up of its instance does not tell: its chips are
    # looked at.
    flagged = ((up & of_instance) != of_instance) | layout.has_uneven_links
    return _report(store, Severity.CRITICAL, flagged, is_down, text)


def _throttled(store: Store, rollups: Rollups) -> _Found:
    metric = BY_NAME["throttle_pct"]
    if _of_fleet(rollups, metric.name) < THROTTLE_PCT:
        return _NONE
    codes = store.columns[metric.name]
    limit = metric.code_of(THROTTLE_PCT)
    return _report(
        store,
        Severity.WARNING,
        rollups.value(metric.name, Level.INSTANCE) >= THROTTLE_PCT,
        lambda rows: _between(codes[rows], limit, metric.top),
        lambda chip: f"throttled {codes[chip] * metric.scale:.0f} %",
    )


def _links_slow(pairs: NDArray[np.int64], store: Store, _rollups: Rollups) -> _Found:
    """Find chips with links far slower than the same link of the instance's other chips."""
    layout = store.layout
    metric = BY_NAME["link_tx_bytes_per_s"]
    codes = store.columns[metric.name]
    up = store.columns["links_up"]
    least = metric.code_of(SLOW_LINK_MIN_BYTES_PER_S)
    sizes = np.diff(layout.chip_start)[pairs[:, 0]]
    pairs = pairs[sizes > 1]
    sizes = sizes[sizes > 1]
    if not len(pairs):
        return _NONE
    lanes = pairs[:, 1][:, None]
    # The chips of an instance are a row of a table; smaller ones repeat their last chip, which does
    # not count again.
    place = np.arange(int(sizes.max()))
    rows = layout.chip_start[pairs[:, 0]][:, None] + np.minimum(place, sizes[:, None] - 1)
    part = codes[rows, lanes].astype(np.float64)
    usable = (
        (part != metric.top)
        & (up[rows] >> lanes & 1 > 0)
        & (store.chip_state[rows] == Freshness.LIVE)
    )
    usable &= place < sizes[:, None]
    # While a tick's messages are still coming in, chips of the tick before would seem slow beside
    # the others.
    times_ns = store.chip_ts_ns[rows]
    usable &= times_ns == times_ns.max(axis=1, keepdims=True)
    mean = np.where(usable, part, 0.0).sum(axis=1) / np.maximum(usable.sum(axis=1), 1)
    slow_at = np.argwhere(
        usable & (mean >= least)[:, None] & (part < SLOW_LINK_SHARE * mean[:, None])
    )
    # A chip that has less to do carries less on all links of an axis, and none of them is slow.
    chips = rows[slow_at[:, 0], slow_at[:, 1]]
    ways = pairs[slow_at[:, 0], 1]
    own = np.where(codes[chips] == metric.top, 0, codes[chips])
    axes = lane_axes(layout)[layout.instance_type[layout.instance_of_chip[chips]]]
    same = axes == np.take_along_axis(axes, ways[:, None], axis=1)
    busiest = np.where(same, own, 0).max(axis=1, initial=0)
    slow_at = slow_at[
        (same.sum(axis=1) < 2) | (part[slow_at[:, 0], slow_at[:, 1]] < SLOW_LINK_SHARE * busiest)
    ]
    count = int(np.count_nonzero(np.bincount(rows[slow_at[:, 0], slow_at[:, 1]])))
    slow: dict[int, list[tuple[float, str]]] = {}
    for pair, place in slow_at[: LIMIT * MOST_LANES].tolist():
        share = float(part[pair, place] / mean[pair])
        names = layout.lane_names_of(int(pairs[pair, 0]))
        slow.setdefault(int(rows[pair, place]), []).append((share, names[int(pairs[pair, 1])]))
    findings: list[Finding] = []
    for chip, links in list(slow.items())[:LIMIT]:
        listed = ", ".join(name for _, name in links)
        text = f"link {listed} slow: {100 * min(links)[0]:.0f} %"
        findings.append(Finding(Severity.WARNING, layout.path(Node(Level.CHIP, chip)), text))
    return findings, count


def _hot(store: Store, rollups: Rollups) -> _Found:
    metric = BY_NAME["temperature_c"]
    if _of_fleet(rollups, metric.name) < HOT_C:
        return _NONE
    codes = store.columns[metric.name]
    limit = metric.code_of(HOT_C)
    return _report(
        store,
        Severity.WARNING,
        rollups.value(metric.name, Level.INSTANCE) >= HOT_C,
        lambda rows: _between(codes[rows], limit, metric.top),
        lambda chip: f"hot, {codes[chip] / metric.steps_per_unit:.0f} °C",
    )


def _full(store: Store, _rollups: Rollups) -> _Found:
    layout = store.layout
    metric = BY_NAME["hbm_used_bytes"]
    codes = store.columns[metric.name]
    owner = layout.instance_of_chip
    sizes = np.array([kind.chip.hbm_bytes.value for kind in layout.types])
    limits = HBM_FULL * sizes / metric.scale
    most = int(codes.max(initial=0))
    known = codes
    if most == metric.top:
        # The code after that of a missing value is 0.
        known = np.maximum(codes + codes.dtype.type(1), 1) - codes.dtype.type(1)
        most = int(known.max())
    if most < limits.min():
        return _NONE
    limit = limits[layout.instance_type]
    highest = combine(np.maximum, known, layout.chip_start, layout.chips_per_instance)
    return _report(
        store,
        Severity.WARNING,
        highest >= limit,
        lambda rows: (codes[rows] >= limit[owner[rows]]) & (codes[rows] != metric.top),
        lambda _chip: "HBM nearly full",
    )


def _of_fleet(rollups: Rollups, name: str) -> float:
    """Return the fleet's total, maximum or bits over all live chips.

    The usual fleet has nothing to find.
    """
    return float(rollups.parts(name, Level.FLEET)[0][0])


def _report(
    store: Store,
    severity: Severity,
    flagged: NDArray[np.bool_],
    is_bad: Callable[[Rows], NDArray[np.bool_]],
    text: Callable[[int], str],
) -> _Found:
    """Return findings for the bad chips of the flagged instances."""
    layout = store.layout
    # A silent chip is a finding for that, not for its last values.
    chips, count = _chips_in(
        layout, flagged, lambda rows: is_bad(rows) & (store.chip_state[rows] == Freshness.LIVE)
    )
    return [
        Finding(severity, layout.path(Node(Level.CHIP, chip)), text(chip)) for chip in chips
    ], count


def _chips_in(
    layout: Layout, flagged: NDArray[np.bool_], is_bad: Callable[[Rows], NDArray[np.bool_]]
) -> tuple[list[int], int]:
    """Return the first `LIMIT` bad chips of the flagged instances, and the total count."""
    instances = np.flatnonzero(flagged)
    if not len(instances):
        return [], 0
    if len(instances) * 8 > len(flagged):
        # Many: one look at every chip is cheaper than gathering the rows of those.
        bad = np.flatnonzero(is_bad(slice(None)) & flagged[layout.instance_of_chip])
    else:
        rows = layout.chip_rows(instances)
        bad = rows[is_bad(rows)]
    return bad[:LIMIT].tolist(), len(bad)


def _between(codes: NDArray[Any], low: int, top: int) -> NDArray[np.bool_]:
    """Return a mask of available codes of at least `low`."""
    inside: NDArray[np.bool_] = (codes >= low) & (codes != top)
    return inside
