"""The theorem as a property: a replayed recording gives the live monitor's state.

Envelopes are drawn: ticks of some or all instances, late, double and lost ones, descriptors, new
starts, publishers coming and going, events, jobs, reservations, acknowledgements, and invalid
payloads, at any times.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.monitor.feed import Feed, SilentSource
from support.monitor.state import alerts_of, rollups_of, values_of

from trnfleet.clock import NS_PER_S, SystemClock
from trnfleet.monitor.monitor import Monitor
from trnfleet.monitor.replay.packed_snapshot import PackedSnapshot
from trnfleet.monitor.replay.past_monitor import GATHER_NS, PastMonitor, PastSource, RecordingClock
from trnfleet.record.format.metadata import About
from trnfleet.record.read.recording import Recording
from trnfleet.record.write.writer import RecordingWriter
from trnfleet.services.files.rules import load_rules
from trnfleet.wire.ports import Envelope

if TYPE_CHECKING:
    from collections.abc import Iterator

INSTANCES = [
    ("uc1/us-0001/trn2u-0001-0", "trn2u.48xlarge"),
    ("uc1/us-0001/trn2u-0001-1", "trn2u.48xlarge"),
    ("uc1/standalone/trn2-0001", "trn2.48xlarge"),
]
PATHS = [path for path, _ in INSTANCES]
RULES = load_rules()
BEGIN_NS = 1_767_600_000 * NS_PER_S + NS_PER_S // 4
"""A quarter past a whole second. A message at the very instant of a pass could be on either side of
it."""
STEPS_NS = [0, GATHER_NS, NS_PER_S // 2, NS_PER_S, 4 * NS_PER_S, 17 * NS_PER_S]
KINDS = (
    "tick",
    "part",
    "again",
    "garbage",
    "describe",
    "reboot",
    "offline",
    "online",
    "event",
    "job",
    "reservation",
    "hot",
    "silent",
    "other",
)

Drawn = list[tuple[str, int, int]]


class World:
    """Makes envelopes by their kinds."""

    def __init__(self, *, json: bool) -> None:
        self.feed = Feed(INSTANCES, json=json)
        self._former: list[Envelope] = []

    def make(self, kind: str, number: int, now_ns: int) -> list[Envelope]:
        """Return what comes."""
        feed = self.feed
        path = PATHS[number % len(PATHS)]
        if kind == "tick":
            feed.scatter(number)
            self._former = feed.telemetry(ts_ns=now_ns)
            return self._former
        if kind == "part":
            return feed.telemetry([path], ts_ns=now_ns)
        if kind == "again":
            return self._former[: number % 3 + 1]
        if kind == "garbage":
            return [
                Envelope(
                    f"trnfleet/v1/demo/telemetry/{path}", bytes([number % 256] * (number % 50))
                )
            ]
        if kind == "describe":
            return feed.announcements()
        if kind == "reboot":
            feed.boot = f"boot-{number}"
            feed.seq = 0
            return feed.announcements()
        if kind in {"offline", "online"}:
            return [feed.publisher_envelope(kind)]
        if kind == "event":
            severity = ("info", "warning", "critical")[number % 3]
            return [feed.event(path, severity=severity)]
        if kind == "job":
            feed.jobs[f"job-{number % 2}"] = (path,)
            return feed.announcements([path])
        if kind == "reservation":
            return [feed.reservation(f"cb-{number % 3}", path)]
        if kind == "hot":
            feed.set("temperature_c", 99.0)
            return feed.telemetry(ts_ns=now_ns)
        if kind == "silent":
            feed.silence(path)
            return feed.telemetry(ts_ns=now_ns)
        return [Envelope("else/where", b"x"), Envelope("trnfleet/v1/other/event/fleet", b"{}")]


def live(
    drawn: Drawn, world: World, path: Path
) -> tuple[dict[int, Any], list[tuple[int, PackedSnapshot]]]:
    """Record drawn messages, and return the live monitor's states and snapshots.

    Messages of one instant are one batch, as in a replay: applied one by one, a layout might happen
    in between.
    """
    clock = RecordingClock(SystemClock(), BEGIN_NS, 50.0, BEGIN_NS)
    monitor = Monitor(SilentSource(), "demo", clock=clock, rules=RULES)
    writer = RecordingWriter(path, About(id="0123456789abcdef"))
    known: dict[int, Any] = {}
    snapshots: list[tuple[int, PackedSnapshot]] = []
    now_ns = BEGIN_NS
    batch: list[Envelope] = []
    for kind, number, step_ns in [("describe", 0, 0), *drawn, ("other", 0, 1)]:
        if step_ns and batch:
            monitor.apply(batch)
            batch = []
        before_ns = now_ns
        now_ns = now_ns + step_ns + (1 if step_ns else 0)
        for second in range(before_ns // NS_PER_S + 1, now_ns // NS_PER_S + 1):
            clock.position_ns = second * NS_PER_S
            monitor.compute()
            if second % 5 == 0:
                snapshots.append((clock.position_ns, PackedSnapshot(monitor)))
            if second % 3 == 0 or second == now_ns // NS_PER_S:
                known[clock.position_ns] = picture(monitor)
        clock.position_ns = now_ns
        envelopes = [
            each._replace(received_s=clock.monotonic_s())
            for each in world.make(kind, number, now_ns)
        ]
        for envelope in envelopes:
            writer.write(now_ns, envelope)
        batch += envelopes
    writer.close()
    return known, snapshots


def picture(monitor: Monitor) -> tuple[dict[str, Any], ...]:
    """Return all that is compared."""
    return values_of(monitor), rollups_of(monitor), alerts_of(monitor)


def exhaust(work: Iterator[None]) -> None:
    """Do it to its end."""
    for _ in work:
        pass


LOSSY: Drawn = [
    ("part", 0, STEPS_NS[4]),
    ("part", 26, STEPS_NS[3]),
    ("part", 24, STEPS_NS[2]),
    ("tick", 8, STEPS_NS[4]),
]
"""Most messages of a second are lost just before and after a snapshot. Silence is then not yet
stale."""


@example(drawn=LOSSY, json=True)
@example(
    drawn=[("tick", 0, STEPS_NS[2]), ("part", 0, STEPS_NS[1]), ("tick", 0, STEPS_NS[2])],
    json=False,
)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    drawn=st.lists(
        st.tuples(
            st.one_of(st.just("tick"), st.sampled_from(KINDS)),
            st.integers(0, 40),
            st.sampled_from(STEPS_NS),
        ),
        min_size=3,
        max_size=16,
    ),
    json=st.booleans(),
)
@example(drawn=[("tick", 0, 500_000_000), ("reboot", 0, 0), ("tick", 0, 500_000_000)], json=False)
def test_whatever_comes_a_replay_gives_what_the_live_monitor_had(drawn: Drawn, json: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "live.mcap"
        known, snapshots = live(drawn, World(json=json), path)
        recording = Recording.open([path])

        def past() -> PastMonitor:
            clock = RecordingClock(SystemClock(), BEGIN_NS, 50.0, recording.start_ns)
            return PastMonitor(
                recording, Monitor(PastSource("test"), "demo", clock=clock, rules=RULES), clock
            )

        times = [at_ns for at_ns in known if at_ns <= recording.end_ns]
        played = past()
        exhaust(played.begin())
        for at_ns in times:
            exhaust(played.advance(at_ns))
            assert picture(played.monitor) == known[at_ns]
        for from_ns, snapshot in snapshots[:2]:
            for at_ns in times[-1:]:
                if at_ns > from_ns:
                    resumed = past()
                    resumed.resume(snapshot.unpack(), from_ns)
                    exhaust(resumed.advance(at_ns))
                    assert picture(resumed.monitor) == known[at_ns]
        recording.close()
