"""The pipeline of a fleet at a moment, as one value.

It has publishers, brokers, counts, lag, clocks and problems. Status line, `status`, the Events
view, the rules about publishers and the pipeline, and exporters read it, and compute none of it
themselves. Its figures add up:

    broker      received = taken + waiting + shed + dropped + oversize
    read        = messages + late + contested + duplicates + undescribed + refused + others
                + foreign + pending
    sent        = accepted + mended + lost + backlog + passed_over, by sequence numbers
    publishers  the sum of a column, with the share of unknown publishers, = the count of that
                name: messages, lost, late, duplicates, old, refused
    brokers     the sum of taken = read, after the current batch

A problem with a shipped rule has the rule's name, severity and runbook, so alert and status agree
(`config/alerts/pipeline.toml`; checked by a test).

`dropped` of the counts is the sum of `dropped` and `oversize` of all brokers; `shed` is the sum of
theirs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain.quantities import count, counted, duration
from trnfleet.domain.severity import Severity
from trnfleet.monitor.pipeline.publishers import PublisherTable, State
from trnfleet.text import plain
from trnfleet.wire.ports import RECORDING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from numpy.typing import NDArray

    from trnfleet.monitor.pipeline.brokers import BrokerHealth
    from trnfleet.monitor.pipeline.counts import PipelineCounts
    from trnfleet.monitor.pipeline.doubts import KeyDoubt

RECENT_S = 60.0
"""Time in which a growing count is a current problem."""
LAG_FROM_S = 1.5
"""Lag reported as a problem, as in the rule `lag`."""
NAMED = 3
"""Publishers that a line names."""
TOLD_BY_OVERLOAD = frozenset({"lag", "messages-lost", "messages-dropped", "broker-drops"})
"""Problems caused by an overload, not reported while it lasts. The rule `monitor-overloaded`
inhibits their rules."""
ADVICE = {
    "connection-lost": (
        "Is the broker up? Can this host reach it? Is the fleet's only publisher up? Publishers are"
        " not reported as silent before they could be heard again."
    ),
    "cannot-write": (
        "What is read comes over a connection of its own and goes on. May this user write, and"
        " connect twice? A second program with the same client id is another reason."
    ),
    "publisher-offline": "Is the process up? Can it reach the broker?",
    "publisher-silent": (
        "It is connected and publishes nothing. Is its process stopped, or its source of figures?"
    ),
    "monitor-overloaded": (
        'Publish in blocks (format = "cbor", granularity = "block"), less often, or fewer metrics.'
        " Or divide the fleet among brokers with a relay each. Read in MQTT 5. Or this machine or"
        " its network is too slow."
    ),
    "recording-stopped": (
        "The disk is full, or the folder cannot be written: see the log. Make room, or keep less"
        " with --past, and restart the app. W saves elsewhere what was recorded."
    ),
    "messages-lost": "Look for a lossy network, or for a full queue at the broker.",
    "messages-twice": (
        "Look for a client that sends again after a lost answer, or for two publishers of one path."
    ),
    "messages-late": (
        "Look for several routes through the network, or for a publisher that was restarted."
    ),
    "lag": (
        "Look for a slow network or an overloaded broker, or at this machine: see the status line."
    ),
    "messages-dropped": (
        "This reader is too slow, or a publisher sends too much at once: see the status line."
    ),
    "messages-refused": "The log names their topics.",
    "publisher-refused": (
        "It speaks, and nothing of what it says can be used: docs/wire.md has what a message needs."
    ),
    "values-unusable": (
        "They are not available, and the rest of their messages counts: docs/wire.md has the limits"
        " of each metric."
    ),
    "unknown-metrics": (
        "They are ignored, and the rest of their messages counts: docs/wire.md lists the metrics."
    ),
    "telemetry-late": (
        "Look for a publisher that sends what it had buffered, or for a wrong clock, there or here."
    ),
    "two-publishers": (
        "Two simulators or agents run for the same hosts, or with one client id. Stop one, or give"
        " it another client id (--client-id), another fleet name (--name) or a shard (--shard 1/2)."
    ),
    "instance-twice": (
        "Two agents, or an agent and a scrape, describe one host. Stop one, or give both the same"
        " address (--path)."
    ),
    "clock-skew": "Check NTP on both sides.",
    "not-described": (
        "They publish, and no descriptor of them has come; publishers repeat theirs every 60 s. See"
        " docs/brokers.md."
    ),
    "retained-withheld": (
        "RabbitMQ's MQTT plugin does so. Descriptors and acknowledgements are requested by topic;"
        " ids of silences cannot be known. Silence again, or use a broker that docs/brokers.md"
        " names."
    ),
    "broker-drops": (
        "The broker drops for clients that are slow to take messages: fewer messages, or larger"
        " queues at the broker (Mosquitto: max_queued_messages)."
    ),
    "layouts-held": (
        "A publisher describes other instances over and over: they are shown with a delay."
    ),
    "internal-errors": (
        "A failure of this program: what failed shows what was known before. The log has the"
        " traceback."
    ),
}
"""The remedy for each problem."""


class PipelineProblem(NamedTuple):
    """Something that is wrong."""

    name: str
    """A rule's name, or one of the same kind."""
    severity: Severity
    text: str
    """A line with figures."""
    short: str
    """A few words for a status line; empty where that shows it in another way."""
    where: str = ""
    """Its origin without figures, such as `publisher agent-07`. Empty for all, or if unknown."""

    @property
    def advice(self) -> str:
        """The remedy."""
        return ADVICE[self.name]


class Recent(NamedTuple):
    """Increase of counts within the last `RECENT_S`, or since the start."""

    lost: int = 0
    shed: int = 0
    dropped: int = 0
    undecodable: int = 0
    misplaced: int = 0
    rejected: int = 0
    undescribed: int = 0
    late: int = 0
    duplicates: int = 0
    internal_errors: int = 0
    layouts_held: int = 0
    dropped_by_brokers: int = 0
    """Messages dropped by brokers, by their own figures."""

    @property
    def refused(self) -> int:
        """Undecodable, misplaced and rejected messages."""
        return self.undecodable + self.misplaced + self.rejected


COUNTED = Recent._fields[:-1]
"""Names of the counts among them."""


@dataclass(frozen=True, slots=True, eq=False)
class PipelineHealth:
    """The pipeline at a moment; nothing in it changes."""

    at_s: float
    """Monotonic seconds."""
    publishers: PublisherTable
    brokers: tuple[BrokerHealth, ...]
    counts: PipelineCounts
    """A copy of the counts."""
    pending: int
    """Telemetry messages that wait for their descriptor's layout."""
    recent: Recent
    messages_per_s: float | None
    """Telemetry messages per second; 0 for a dead feed, None before the second message."""
    quiet_s: float | None
    """Seconds since the last telemetry; None if there never was any."""
    lag_s: float | None
    """Wall seconds from source to here, by the clocks; None while no chip is live."""
    clock_skew_s: float
    """Lead of the worst source clock over ours in seconds (negative: behind). 0 if none is off by
    more than 5 s."""
    late_s: float
    """Delay of the latest telemetry behind the wall clock; 0 up to a minute."""
    unheard_s: float
    """Seconds without any connection."""
    outage_s: float
    """The same, or seconds without connection to one of several brokers."""
    overloaded_s: float
    """Seconds since the monitor fell behind its sources."""
    contested: Mapping[str, int]
    """Paths described by two publishers at once, by the names of the two."""
    undescribed_chips: int
    """Chips that publish at present without a descriptor."""
    undescribed_paths: int
    """Other paths that do."""
    contested_ids: Mapping[str, Collection[str]] = field(default_factory=dict)
    """EC2 ids that are described at several addresses, with these."""
    doubts: tuple[KeyDoubt, ...] = ()
    """Unusable values and names in telemetry, latest first."""
    recording_problem: str = ""
    """Why recording stopped. Empty while all is well, and without recording."""
    problems: tuple[PipelineProblem, ...] = ()
    """The problems, worst first."""

    @property
    def publishers_online(self) -> int:
        """Publishers that are not offline."""
        return len(self.publishers) - self.publishers.count(State.OFFLINE)

    @property
    def bytes_per_s(self) -> float:
        """Bytes of telemetry per second, of all publishers with a known rate."""
        rates = self.publishers.bytes_per_s
        return float(rates[rates == rates].sum())  # noqa: PLR0124  NaN is the one value unlike itself

    def figure(self, name: str) -> float | None:
        """Return a figure for the rules about the pipeline.

        None if unknown.

        Raises:
            AttributeError: the name is unknown.
        """
        if name == "lost":
            # Losses while nothing was heard, or during an overload, are reported separately.
            return float(self.counts.lost - self.counts.unheard)
        if name == "clock_skew_s":
            return abs(self.clock_skew_s)
        if name == "unheard_s":
            return self.outage_s
        if name == "recording_stopped":
            return float(bool(self.recording_problem))
        if name == "withholds_retained":
            return float(any(broker.withholds_retained for broker in self.brokers))
        if name in _OWN:
            value: float | None = getattr(self, name)
            return value
        return float(getattr(self.counts, name))


_OWN = frozenset({known.name for known in fields(PipelineHealth)})


def judge(health: PipelineHealth) -> tuple[PipelineProblem, ...]:
    """Return the problems, worst first, and current before past ones."""
    problems = [
        *_connections(health),
        *_publishers(health),
        *_own_pace(health),
        *_losses(health),
        *_clocks(health),
        *_refusals(health),
        *_brokers(health),
    ]
    if health.overloaded_s >= 1:
        problems = [
            problem._replace(severity=Severity.INFO)
            if problem.name in TOLD_BY_OVERLOAD
            else problem
            for problem in problems
        ]
    return tuple(sorted(problems, key=lambda problem: problem.severity.rank))


def _connections(health: PipelineHealth) -> Iterator[PipelineProblem]:
    name = "connection-lost"
    severity = Severity.CRITICAL
    for broker in health.brokers:
        if not broker.connected and broker.protocol != RECORDING:
            because = f": {broker.last_error}" if broker.last_error else ""
            text = (
                f"no connection to {broker.address or 'the broker'} for"
                f" {duration(broker.for_s)}{because}"
            )
            yield PipelineProblem(name, severity, text, "", f"broker {broker.address}{because}")
        elif broker.cannot_write:
            because = f": {broker.cannot_write}"
            text = f"acknowledgements and silences do not get through to {broker.address}{because}"
            where = f"broker {broker.address}{because}"
            yield PipelineProblem("cannot-write", Severity.WARNING, text, "cannot write", where)
    if health.unheard_s and all(broker.connected for broker in health.brokers):
        text = f"nothing has been heard of the fleet for {duration(health.unheard_s)}"
        yield PipelineProblem(
            name, severity, text, f"nothing heard for {duration(health.unheard_s)}"
        )


def _publishers(health: PipelineHealth) -> Iterator[PipelineProblem]:
    publishers = health.publishers
    for state, severity, name in (
        (State.OFFLINE, Severity.CRITICAL, "publisher-offline"),
        (State.REFUSED, Severity.WARNING, "publisher-refused"),
        (State.SILENT, Severity.WARNING, "publisher-silent"),
    ):
        chosen = publishers.state == state.value
        number = int(np.count_nonzero(chosen))
        if not number:
            continue
        whose = _names(health, chosen)
        verb = "is" if number == 1 else "are"
        text = (
            f"{count(number)} of {counted(len(publishers), 'publisher')} {verb} {state.word}:"
            f" {whose}"
        )
        if state is State.REFUSED:
            text += f"; the last: {health.counts.last_problem}"
        # The line's own figure includes the offline ones.
        short = "" if state is State.OFFLINE else f"{state.word} {count(number)}"
        yield PipelineProblem(
            name, severity, text, short, f"publisher {whose}" if number == 1 else ""
        )
    for names, paths in health.contested.items():
        text = contest_text(names, counted(paths, "path"))
        short = text.partition(":")[0]
        yield PipelineProblem("two-publishers", Severity.CRITICAL, text, short, names)
    if health.contested_ids:
        ec2_id = next(iter(health.contested_ids))
        addresses = " and ".join(islice(health.contested_ids[ec2_id], 2))
        shown = plain(ec2_id, 24)
        text = f"EC2 instance {shown} is described as {addresses}: its chips count twice"
        if more := len(health.contested_ids) - 1:
            text += f"; {count(more)} more"
        short = f"{counted(more + 1, 'EC2 instance')} described twice"
        yield PipelineProblem("instance-twice", Severity.WARNING, text, short, shown)


def _own_pace(health: PipelineHealth) -> Iterator[PipelineProblem]:
    counts = health.counts
    if counts.internal_errors:
        text = (
            f"{counted(counts.internal_errors, 'failure')} of this program: {counts.last_problem}"
        )
        short = f"internal errors {count(counts.internal_errors)}"
        yield PipelineProblem("internal-errors", Severity.WARNING, text, short)
    if health.overloaded_s >= 1:
        text = (
            f"this monitor has not kept up for {duration(health.overloaded_s)}:"
            f" {counted(health.recent.shed, 'message')} left out here and"
            f" {counted(health.recent.lost, 'tick')} lost within {duration(RECENT_S)}"
        )
        yield PipelineProblem(
            "monitor-overloaded",
            Severity.WARNING,
            text,
            f"overloaded {duration(health.overloaded_s)}",
        )
    if counts.shed:
        text = f"{counted(counts.shed, 'message')} left out here for newer ones of their topics"
        is_told = health.overloaded_s >= 1 or not health.recent.shed
        severity = Severity.INFO if is_told else Severity.WARNING
        yield PipelineProblem("monitor-overloaded", severity, text, f"shed {count(counts.shed)}")
    if health.recording_problem:
        text = f"what comes is not recorded any more: {health.recording_problem}"
        # The status line's own figure of the past has the reason.
        where = f"recorder: {health.recording_problem}"
        yield PipelineProblem("recording-stopped", Severity.WARNING, text, "", where)
    if health.lag_s is not None and health.lag_s > LAG_FROM_S:
        row = _largest(health.publishers.lag_max_s, health.publishers.lag_max_s > LAG_FROM_S)
        whose = f"publisher {health.publishers.names[row]}" if row is not None else ""
        text = f"telemetry is {duration(health.lag_s)} old when it arrives" + (
            f": {whose}" if whose else ""
        )
        yield PipelineProblem("lag", Severity.WARNING, text, f"lag {duration(health.lag_s)}", whose)


def _losses(health: PipelineHealth) -> Iterator[PipelineProblem]:
    counts = health.counts
    recent = health.recent
    publishers = health.publishers
    for name, total, fresh, column, severity, noun, what, short in (
        (
            "messages-lost",
            counts.lost,
            recent.lost,
            publishers.lost,
            Severity.WARNING,
            "tick",
            "lost",
            "lost",
        ),
        (
            "messages-late",
            counts.late,
            recent.late,
            publishers.late,
            Severity.INFO,
            "message",
            "after newer ones",
            "late",
        ),
        (
            "messages-twice",
            counts.duplicates,
            recent.duplicates,
            publishers.duplicates,
            Severity.INFO,
            "message",
            "twice",
            "duplicate",
        ),
    ):
        if total <= 0:
            continue
        row = _largest(column, column > 0)
        share = (
            "" if row is None else f", {count(int(column[row]))} of them of {publishers.names[row]}"
        )
        text = f"{counted(total, noun)} {what}{share}: {_lately(fresh)}"
        whose = "" if row is None else f"publisher {publishers.names[row]}"
        yield PipelineProblem(
            name, severity if fresh > 0 else Severity.INFO, text, f"{short} {count(total)}", whose
        )
    if counts.dropped:
        oversize = sum(broker.oversize for broker in health.brokers)
        too_large = f", {count(oversize)} of them too large" if oversize else ""
        text = (
            f"{counted(counts.dropped, 'message')} dropped here unread{too_large}:"
            f" {_lately(recent.dropped)}"
        )
        severity = Severity.WARNING if recent.dropped else Severity.INFO
        yield PipelineProblem(
            "messages-dropped", severity, text, f"dropped {count(counts.dropped)}"
        )


def _clocks(health: PipelineHealth) -> Iterator[PipelineProblem]:
    skew_s = health.clock_skew_s
    publishers = health.publishers
    if skew_s:
        if publishers.own_skew_s:
            side = "ahead of" if publishers.own_skew_s > 0 else "behind"
            whose = "this machine's clock"
            text = (
                f"{whose} is {duration(abs(publishers.own_skew_s))} {side} that of most publishers"
            )
        else:
            row = _largest(np.abs(publishers.skew_s), np.abs(publishers.skew_s) > 0)
            whose = f"publisher {publishers.names[row]}" if row is not None else ""
            side = "ahead of" if skew_s > 0 else "behind"
            text = (
                f"{f'the clock of {whose}' if whose else 'a clock'} is {duration(abs(skew_s))}"
                f" {side} ours"
            )
        yield PipelineProblem(
            "clock-skew", Severity.WARNING, text, f"clock off by {duration(abs(skew_s))}", whose
        )
    if health.late_s:
        row = _largest(publishers.old, publishers.old > 0)
        whose = f"publisher {publishers.names[row]}" if row is not None else ""
        text = f"telemetry comes whose time is {duration(health.late_s)} behind the wall clock" + (
            f": {whose}" if whose else ""
        )
        yield PipelineProblem(
            "telemetry-late",
            Severity.WARNING,
            text,
            f"telemetry {duration(health.late_s)} late",
            whose,
        )


def _refusals(health: PipelineHealth) -> Iterator[PipelineProblem]:
    counts = health.counts
    recent = health.recent
    missing = [
        counted(number, noun)
        for number, noun in ((health.undescribed_chips, "chip"), (health.undescribed_paths, "path"))
        if number
    ]
    if missing or counts.undescribed:
        text = (
            f"{' and '.join(missing) or 'nothing at present'} without a descriptor:"
            f" {counted(counts.undescribed, 'message')} so far"
        )
        yield PipelineProblem(
            "not-described",
            Severity.WARNING if missing else Severity.INFO,
            text,
            f"undescribed {count(counts.undescribed)}" if counts.undescribed else "",
        )
    refused = (counts.undecodable, counts.misplaced, counts.rejected)
    for number, what in zip(refused, ("undecodable", "misplaced", "rejected"), strict=True):
        if number:
            because = f"; the last: {counts.last_problem}" if counts.last_problem else ""
            text = f"{counted(number, 'message')} {what}: {_lately(getattr(recent, what))}{because}"
            yield PipelineProblem(
                "messages-refused", Severity.INFO, text, f"{what} {count(number)}"
            )
    for is_unknown, name, number in (
        (False, "values-unusable", counts.unusable),
        (True, "unknown-metrics", counts.unknown_keys),
    ):
        if number:
            noun = "value of an unknown metric" if is_unknown else "value"
            nouns = "values of unknown metrics" if is_unknown else "values"
            what = f"{count(number)} {noun if number == 1 else nouns}" + (
                "" if is_unknown else " not usable"
            )
            doubts = [doubt for doubt in health.doubts if doubt.is_unknown is is_unknown]
            whose = {doubt.publisher for doubt in doubts}
            is_fresh = any(health.at_s - doubt.at_s < RECENT_S for doubt in doubts)
            yield PipelineProblem(
                name,
                Severity.WARNING if is_fresh else Severity.INFO,
                f"{what}{'' if is_fresh else ', ' + _lately(0)}{_doubts_text(doubts)}",
                f"{'unknown metrics' if is_unknown else 'unusable'} {count(number)}",
                f"publisher {doubts[0].publisher}" if len(whose) == 1 else "",
            )
    if counts.layouts_held:
        text = (
            f"changes of instances had to wait {counted(counts.layouts_held, 'time')}:"
            f" {counts.last_problem}"
        )
        yield PipelineProblem(
            "layouts-held", Severity.INFO, text, f"layouts held {count(counts.layouts_held)}"
        )


def _brokers(health: PipelineHealth) -> Iterator[PipelineProblem]:
    for broker in health.brokers:
        if broker.withholds_retained:
            text = f"{broker.address} gives retained messages to no subscription with wildcards"
            where = f"broker {broker.address}"
            yield PipelineProblem(
                "retained-withheld", Severity.WARNING, text, "retained withheld", where
            )
    if health.recent.dropped_by_brokers <= 0:
        return
    droppers: list[BrokerHealth] = [
        broker for broker in health.brokers if broker.figures is not None and broker.figures.dropped
    ]
    names = ", ".join(dropper.address for dropper in droppers[:NAMED])
    number = health.recent.dropped_by_brokers
    text = (
        f"{names} dropped {counted(number, 'message')} for slow readers within {duration(RECENT_S)}"
    )
    yield PipelineProblem(
        "broker-drops", Severity.WARNING, text, f"broker dropped {count(number)}", f"broker {names}"
    )


def _doubts_text(doubts: list[KeyDoubt]) -> str:
    """Return the first keys by publisher, and how many more there are."""
    by_publisher: dict[str, list[str]] = {}
    for doubt in doubts[:NAMED]:
        by_publisher.setdefault(doubt.publisher, []).append(doubt.text)
    parts = [
        f"; {publisher or 'a publisher'}: {', '.join(texts)}"
        for publisher, texts in by_publisher.items()
    ]
    more = f" and {counted(len(doubts) - NAMED, 'key')} more" if len(doubts) > NAMED else ""
    return "".join(parts) + more


def _lately(fresh: int) -> str:
    within = f"within {duration(RECENT_S)}"
    return f"{count(fresh)} {within}" if fresh > 0 else f"none {within}"


def _largest(
    values: NDArray[np.float64] | NDArray[np.int64], chosen: NDArray[np.bool_]
) -> int | None:
    """Return the row of the largest of the chosen values.

    None without any.
    """
    if not chosen.any():
        return None
    return int(np.argmax(np.where(chosen, values, -np.inf)))


def _names(health: PipelineHealth, chosen: NDArray[np.bool_]) -> str:
    """Return the names of the first chosen publishers, and how many more there are."""
    rows = np.flatnonzero(chosen)
    named = ", ".join(health.publishers.names[row] for row in rows[:NAMED])
    return named + (f" and {count(len(rows) - NAMED)} more" if len(rows) > NAMED else "")


def contest_text(names: str, paths: str) -> str:
    """Return what a contest is, in words.

    Args:
        names: The names of the two.
        paths: The number of their paths, with its noun.
    """
    one, _, other = names.partition(" and ")
    if one == other:
        return (
            f"two processes take turns under the client id {one}: each ends the other's connection"
        )
    return f"{names} publish the same {paths}: values change between them"
