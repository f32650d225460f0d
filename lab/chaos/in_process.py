"""Messages against a monitor with all shipped rules and every view of the app.

All in this process. A case is a monitor of its own, receiving `A_CASE` messages in rounds. In most
rounds a hostile publisher sends about its own cluster, and a good one must not notice. In the
others it contradicts the good one; the good one must be right again after its next announcement.
Every publisher announces itself each minute.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

import psutil
from support.monitor.feed import Feed, ultraservers
from support.tui.pilot import FleetPilot, fleet_app, running

from lab.chaos.cases import Case, ChaosError, percentile
from lab.chaos.messages import GOOD_CLUSTER, Mutator
from trnfleet.cli.status_report import KnownFleet
from trnfleet.domain.metrics import BY_NAME
from trnfleet.errors import WireError
from trnfleet.monitor.alerting.engine import Alerts
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.ingest.rejects import reject
from trnfleet.services.files.rules import load_rules
from trnfleet.tui.views import VIEWS
from trnfleet.wire.topics import parse_topic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnfleet.wire.ports import Envelope

A_CASE = 20_000
A_ROUND = 250
CONTRADICTS_EVERY = 4
"""One of this many rounds is about the good publisher."""
KEYS_P95_S = 0.1
GROWTH_MB = 20.0
_GOOD = f"{GOOD_CLUSTER}/us-0001"
_PLACES = ("", "uc9/us-0001/trn2u-0001-0/chip05", _GOOD, f"{_GOOD}/trn2u-0001-1/chip03", "cr-good")
_KEYS = (
    "down",
    "up",
    "enter",
    "escape",
    "end",
    "home",
    "left",
    "right",
    "s",
    "m",
    "t",
    "question_mark",
    "A",
)
_RAW = frozenset(map(chr, (*range(32), *range(127, 160)))) - {"\n"} | frozenset(
    "\u202a\u202e\u2066\u2069\u200d\ufeff"
)


class Seen(NamedTuple):
    """What came of a case."""

    messages: int
    refused: int
    keys_s: list[float]
    grown_mb: float
    took_s: float

    def __str__(self) -> str:
        return (
            f"{self.messages} messages, {self.refused} refused, keys (processor time) p50"
            f" {1e3 * percentile(self.keys_s, 0.5):.0f} p95"
            f" {1e3 * percentile(self.keys_s, 0.95):.0f} ms, memory {self.grown_mb:+.1f} MB,"
            f" {self.took_s:.0f} s"
        )


@contextlib.contextmanager
def unexpected() -> Iterator[list[str]]:
    """Collect rejections caused by a bug's exception.

    They do not stop a monitor, but are wrong.
    """
    found: list[str] = []

    def counted(counts: Any, envelope: Envelope, error: Exception, **rest: Any) -> None:
        if not isinstance(error, WireError):
            found.append(f"{error!r} of {envelope.topic[:100]!r}: {envelope.payload[:300]!r}")
        reject(counts, envelope, error, **rest)

    with mock.patch("trnfleet.monitor.ingest.ingest.reject", counted):
        yield found


class _Session:
    """One monitor and its app."""

    def __init__(self, case: Case, pilot: FleetPilot, feed: Feed, bugs: list[str]) -> None:
        self.case = case
        self.pilot = pilot
        self.feed = feed
        self.bugs = bugs
        self.random = case.random()
        self.mutator = Mutator(self.random)
        self.keys_s: list[float] = []
        self.messages = 0

    async def round(self, number: int) -> None:
        """Let messages come, press keys, and look whether all is as it must be."""
        feed = self.feed
        contradicts = number % CONTRADICTS_EVERY == CONTRADICTS_EVERY - 1
        batch = (
            self.mutator.batch(A_ROUND, about_others=contradicts) + self.mutator.feed.telemetry()
        )
        self.messages += len(batch)
        await self._take(batch)
        if contradicts:
            feed.seq += 1
            await self._take([*feed.announcements(), feed.reservation("cr-good", _GOOD)])
        feed.set("temperature_c", 40 + number % 40)
        # A number that was too high hides what is newer for two ticks.
        for _ in range(4 if contradicts else 2):
            await feed.clock.advance(1.0)
            await self._take(feed.telemetry())
        await self._press()
        self._check(number)

    async def _take(self, batch: list[Envelope]) -> None:
        """Apply messages; each must be counted once."""
        counts = self.feed.monitor.counts
        before = dataclasses.asdict(counts.copy())
        self.feed.monitor.apply(batch)
        self.feed.monitor.compute()
        after = dataclasses.asdict(counts.copy())
        kinds = [_class_of(each) for each in batch]
        refused = {
            key: count - before["refused"].get(key, 0) for key, count in after["refused"].items()
        }
        grown = {key: after[key] - before[key] for key in after if isinstance(after[key], int)}
        sums = sum(grown[key] for key in ("undecodable", "misplaced", "rejected"))
        self._demand(sums == sum(refused.values()), f"{sums} refused, by classes {refused}")
        for kind, count in refused.items():
            self._demand(
                0 <= count <= kinds.count(kind), f"{count} of {kinds.count(kind)} of {kind} refused"
            )
        parts = [
            grown[key] for key in ("messages", "duplicates", "late", "undescribed", "contested")
        ] + [refused.get("telemetry", 0)]
        self._demand(
            sum(parts) == kinds.count("telemetry"),
            f"{kinds.count('telemetry')} telemetry, counted {parts}",
        )
        self._demand(
            kinds.count("other") == refused.get("other", 0),
            f"topics of no class: {kinds.count('other')}, {refused}",
        )
        problem = counts.last_problem
        self._demand(bool(problem) or not sums, "refused without a reason")

    async def _press(self) -> None:
        app = self.pilot.app
        pilot = self.pilot
        random = self.random
        app.go(random.choice(_PLACES), random.choice(VIEWS).title)
        # Keys are measured in a view that stands.
        await pilot.paint()
        for key in random.choices(_KEYS, k=2):
            # Processor time: what a key takes on a machine that does nothing else.
            begun = time.process_time()
            await pilot.press(key)
            self.keys_s.append(time.process_time() - begun)
            await pilot.paint()
            self._demand(pilot.crash is None, f"key {key!r}: {pilot.crash!r}")
        text = pilot.text()
        self._demand(not set(text) & _RAW, f"{sorted(set(text) & _RAW)} on the screen")
        if len(app.screen_stack) > 1:
            await pilot.press("escape")

    def _check(self, number: int) -> None:
        monitor = self.feed.monitor
        self._demand(not self.bugs, "\n".join(self.bugs[:3]))
        self._demand(monitor.counts.internal_errors == 0, monitor.counts.last_problem)
        store = monitor.store
        node = store.layout.find(_GOOD)
        self._demand(node is not None, "the good UltraServer is gone")
        assert node is not None
        chips = store.layout.chip_range(node)
        rows = slice(chips.start, chips.stop)
        states = {Freshness(each).name for each in set(store.chip_state[rows].tolist())}
        self._demand(states == {Freshness.LIVE.name}, f"round {number}: good chips are {states}")
        shown = set(store.chip_values(BY_NAME["temperature_c"], rows).round(1).tolist())
        self._demand(shown == {40.0 + number % 40}, f"round {number}: good chips show {shown}")
        self._demand(
            "cr-good" in {each.message.id for each in monitor.reservations.table()},
            "cr-good is gone",
        )
        status = KnownFleet.from_monitor(monitor).facts(healthy=True)
        self._demand(bool(json.dumps(status, allow_nan=False)), "no status")
        monitor.alerts.counts()

    def _demand(self, holds: bool, what: str) -> None:
        if not holds:
            raise ChaosError(self.case, what)


def _class_of(envelope: Envelope) -> str:
    """Return a message's class for the count.

    Empty for other fleets.
    """
    try:
        topic = parse_topic(envelope.topic)
    except WireError:
        return "other"
    return topic.topic_class.value if topic.fleet == "demo" else ""


async def run_case(case: Case, messages: int = A_CASE) -> Seen:
    """Run a case.

    Raises:
        ChaosError: something went wrong.
    """
    feed = Feed(ultraservers(1, GOOD_CLUSTER))
    feed.scatter()
    feed.monitor.ingest.alerts = Alerts("demo", load_rules(), adopts=True)
    feed.describe()
    feed.monitor.apply([feed.reservation("cr-good", _GOOD)])
    feed.tick()
    process = psutil.Process()
    begun = time.perf_counter()
    warm = 0
    rounds = max(1, messages // A_ROUND)
    with unexpected() as bugs:
        async with running(fleet_app(feed), size=(120, 40)) as pilot:
            session = _Session(case, pilot, feed, bugs)
            for number in range(rounds):
                try:
                    await session.round(number)
                except ChaosError:
                    raise
                except Exception as error:
                    raise ChaosError(case, f"round {number}: {error!r}") from error
                if number == rounds // 2:
                    # Every view has been drawn and every buffer filled once. A new process grows by
                    # 20 MB until here and by 10 MB after, mostly in Textual's caches of lines.
                    warm = process.memory_info().rss
            grown_mb = (process.memory_info().rss - warm) / 2**20
    counts = feed.monitor.counts
    seen = Seen(
        session.messages,
        sum(counts.refused.values()),
        session.keys_s,
        grown_mb,
        time.perf_counter() - begun,
    )
    _limits(case, seen, whole=messages >= A_CASE)
    return seen


def _limits(case: Case, seen: Seen, *, whole: bool) -> None:
    if seen.refused * 4 < seen.messages:
        raise ChaosError(
            case,
            f"only {seen.refused} of {seen.messages} messages were refused: damage does nothing",
        )
    if not whole:
        # Of a few rounds memory and times say nothing.
        return
    if seen.grown_mb > GROWTH_MB:
        raise ChaosError(case, f"memory grew by {seen.grown_mb:.1f} MB, over {GROWTH_MB:g}")
    if percentile(seen.keys_s, 0.95) > KEYS_P95_S:
        raise ChaosError(
            case,
            f"keys take {1e3 * percentile(seen.keys_s, 0.95):.0f} ms at p95, over"
            f" {1e3 * KEYS_P95_S:g}",
        )
