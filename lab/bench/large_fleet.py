"""A fleet of millions of chips made from a simulator of ten thousand.

Its blocks, and its rows of roll-ups, repeat those of the small fleet. The small fleet is
`cluster-10k` without its scripted faults, and runs: values, counters and jobs are those of each
second. A cluster of the large one has each of its 20 blocks of 512 chips 25 times. Only paths,
numbers and times differ from packet to packet. A second of a million chips therefore costs the
generator little but sending 86 MB.
"""

from __future__ import annotations

import json
import re
import select
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from support.monitor.feed import SilentSource

from lab.bench.packets import (
    REPEAT_S,
    SLICES_PER_S,
    StateSender,
    connect,
    cut_frame,
    send_buffers,
    stamp,
)
from trnfleet.clock import SystemClock, format_rfc3339
from trnfleet.domain.fleet import Publishing, instances_of
from trnfleet.monitor.monitor import Monitor
from trnfleet.services.relay.blocks import Rows
from trnfleet.services.relay.role import RelayIdentity
from trnfleet.services.simulator.engine import make_engine
from trnfleet.services.simulator.run import load_run
from trnfleet.sim.publish.partition import partition
from trnfleet.sim.publish.state import descriptor, job_envelope, presence
from trnfleet.sim.publish.telemetry import ShardMessages
from trnfleet.transport.url import parse_url
from trnfleet.wire.frames import FrameEncoder
from trnfleet.wire.messages import ClockSpec, encode_message
from trnfleet.wire.ports import CONTENT_TYPE_CBOR, Envelope
from trnfleet.wire.rollups import (
    BLOCK_ROWS,
    RollupDescriptor,
    RollupFrame,
    RollupRow,
    encode_rollup,
)
from trnfleet.wire.telemetry import Head
from trnfleet.wire.topics import DEFAULT_ROOT, TopicClass, build_topic

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trnfleet.domain.jobs import Job
    from trnfleet.sim.engine import Tick

FLEET = "bench-cells"
BOOT = "00000000be9c0000"
COPIES = 25
"""Copies of each small block in a cluster."""
BLOCK = 8
"""UltraServers of a block."""
CLUSTER_ULTRASERVERS = 4_000
CLUSTER_CHIPS = 64 * CLUSTER_ULTRASERVERS
JOB_BLOCKS = (5, 2, 1, 2, 1, 1, 1, 2, 1, 1, 1, 1)
"""Blocks of the small fleet's jobs; one stays idle. In a cluster each job is one range then, as a
fleet file would have it."""
JOBS_WITHIN_S = 10
"""Time in which every job is published once more."""
_NODE = re.compile(rb"uc1/us-(\d{4})/trn2u-\d{4}-")
_EC2_ID = re.compile(rb'"ec2_id":"i-[0-9a-f]+"')
_WIDE = 2**40
"""Placeholder for a number. CBOR writes it with 8 bytes."""


class SmallFleet:
    """The simulator, and where its UltraServers are in a cluster of the large fleet."""

    def __init__(self) -> None:
        run = load_run(
            {"period", "speed", "fleet"},
            fleet="cluster-10k",
            scenario=None,
            seed=7,
            period_s=1.0,
            speed=1.0,
            start=None,
            random_faults=False,
        )
        publishing = Publishing(format="cbor", granularity="block", block_ultraservers=BLOCK)
        changed = {
            "name": FLEET,
            "stragglers": (),
            "links": (),
            "publish": publishing,
            "jobs": _in_whole_blocks(run.fleet.jobs),
        }
        self.engine = make_engine(run, run.fleet.model_copy(update=changed))
        self.engine.restart_at(time.time_ns())
        self.engine.begin()
        self.units = partition(self.engine.layout, publishing)
        self._messages = ShardMessages(self.engine, BOOT)
        self.tick: Tick = self.engine.step()

    def step(self) -> None:
        """Simulate the next second."""
        self.tick = self.engine.step()

    def places(self, cluster: str) -> list[tuple[str, ...]]:
        """Return where a cluster of the large fleet has each job."""
        layout = self.engine.layout
        found = []
        for job in self.engine.fleet.jobs:
            rows = np.concatenate(
                [np.array(each) for each in instances_of(layout, job.on, job.name)]
            )
            own = np.unique(layout.ultraserver_of_instance[rows]).tolist()
            large = np.sort(np.concatenate([copies_of(each) for each in own])) + 1
            found.append(
                tuple(
                    (
                        f"{cluster}/us-{first:04d}"
                        if first == last
                        else f"{cluster}/us-{first:04d}..us-{last:04d}"
                    )
                    for first, last in _runs(large)
                )
            )
        return found

    def job(self, number: int, cluster: str, places: tuple[str, ...]) -> tuple[str, bytes]:
        """Return topic and current message of a job, for a cluster of the large fleet."""
        message = self._messages.job(self.tick, number)
        envelope = job_envelope(
            FLEET, msgspec.structs.replace(message, job=f"{message.job}-{cluster}", on=places)
        )
        return envelope.topic, envelope.payload


def _in_whole_blocks(jobs: Sequence[Job]) -> tuple[Job, ...]:
    """Return jobs on whole blocks, filling most of the small fleet."""
    first = 0
    moved = []
    for job, blocks in zip(jobs, JOB_BLOCKS, strict=False):
        on = f"uc1/us-{first * BLOCK + 1:04d}..us-{(first + blocks) * BLOCK:04d}"
        moved.append(job.model_copy(update={"on": (on,)}))
        first += blocks
    return tuple(moved)


class Jobs:
    """The jobs of some clusters."""

    def __init__(self, small: SmallFleet, clusters: Sequence[str]) -> None:
        self._small = small
        self._jobs = [
            (number, cluster, places)
            for cluster in clusters
            for number, places in enumerate(small.places(cluster))
        ]

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._jobs)

    def messages(self, numbers: Iterable[int]) -> list[tuple[str, bytes]]:
        """Return topics and messages of some jobs as they are now; numbers go round."""
        return [self._small.job(*self._jobs[number % len(self._jobs)]) for number in numbers]


def copies_of(number: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return where a cluster has an UltraServer of the small fleet; both count from 0."""
    block, place = divmod(number, BLOCK)
    return (block * COPIES + np.arange(COPIES)) * BLOCK + place


def original_of(
    numbers: np.ndarray[Any, np.dtype[np.int64]],
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the small fleet's UltraServer for each one of a cluster.

    Both count from 0.
    """
    return numbers // (BLOCK * COPIES) * BLOCK + numbers % BLOCK


def _runs(numbers: np.ndarray[Any, np.dtype[np.int64]]) -> Iterator[tuple[int, int]]:
    """Yield first and last of each run of consecutive numbers."""
    for run in np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1):
        yield int(run[0]), int(run[-1])


def cluster_name(number: int) -> str:
    """Return the name of a cluster."""
    return f"uc{number + 1:03d}"


# Blocks of chips


class BlockPublisher:
    """The blocks of some clusters, as one publisher has them."""

    def __init__(self, name: str, clusters: Sequence[int]) -> None:
        self._small = small = SmallFleet()
        self._name = name
        self._clusters = [cluster_name(each) for each in clusters]
        self._encoders = [
            FrameEncoder(
                unit.path,
                BOOT,
                revision=0,
                columns=small.engine.columns,
                chips=unit.chips,
                instances=unit.instances,
            )
            for unit in small.units
        ]
        frames = [each.encode(0, 0) for each in self._encoders]
        self.heads: list[tuple[bytes, int]] = []
        """Bytes before the number of each block's frame, and the small frame's index."""
        for cluster in self._clusters:
            for number in range(len(frames) * COPIES):
                encoder = FrameEncoder(
                    f"{cluster}/block-{number + 1:04d}",
                    BOOT,
                    revision=0,
                    columns=small.engine.columns,
                    chips=small.units[number // COPIES].chips,
                    instances=small.units[number // COPIES].instances,
                )
                topic = build_topic(
                    FLEET, TopicClass.TELEMETRY, f"{cluster}/block-{number + 1:04d}"
                )
                self.heads.append((cut_frame(topic, encoder.encode(0, 0))[0], number // COPIES))
        self._skip = [len(frame) - len(cut_frame("t", frame)[1]) for frame in frames]
        self.described = list(self._descriptors())
        self.jobs = Jobs(small, self._clusters)

    def _descriptors(self) -> Iterator[tuple[str, bytes]]:
        identity = 0
        originals = [
            descriptor(self._small.engine, unit, self._name, BOOT).payload
            for unit in self._small.units
        ]
        for cluster in self._clusters:
            for number in range(len(originals) * COPIES):
                block, copy = divmod(number, COPIES)

                def named(
                    found: re.Match[bytes], cluster: str = cluster, copy: int = copy
                ) -> bytes:
                    large = int(copies_of(int(found[1]) - 1)[copy]) + 1
                    return f"{cluster}/us-{large:04d}/trn2u-{large:04d}-".encode()

                path = f"{cluster}/block-{number + 1:04d}"
                payload = _NODE.sub(named, originals[block])
                payload = payload.replace(self._small.units[block].path.encode(), path.encode(), 1)
                identities = iter(range(identity, identity + 4 * BLOCK))

                def identified(
                    _: re.Match[bytes],
                    cluster: str = cluster,
                    identities: Iterator[int] = identities,
                ) -> bytes:
                    return f'"ec2_id":"i-{cluster[2:]}{next(identities):014x}"'.encode()

                payload = _EC2_ID.sub(identified, payload)
                identity += 4 * BLOCK
                yield build_topic(FLEET, TopicClass.NODE, path), payload

    def retained(self) -> list[tuple[str, bytes]]:
        """Return presence, descriptors and jobs."""
        online = presence(FLEET, self._name, BOOT, "online")
        return [
            (online.topic, online.payload),
            *self.described,
            *self.jobs.messages(range(len(self.jobs))),
        ]

    def step(self) -> list[bytes]:
        """Simulate the next second; return the frames after their times."""
        self._small.step()
        return [
            encoder.encode(0, 0)[skip:]
            for encoder, skip in zip(self._encoders, self._skip, strict=True)
        ]

    def slices(self) -> list[list[tuple[bytes, int]]]:
        """Return the blocks of each slice of a second."""
        count = len(self.heads)
        return [
            self.heads[n * count // SLICES_PER_S : (n + 1) * count // SLICES_PER_S]
            for n in range(SLICES_PER_S)
        ]


# Roll-ups


class RollupPublisher:
    """Roll-ups of a fleet as published by the relays of some cells.

    Each relay publishes all of its frames at once.
    """

    def __init__(self, ultraservers: int, cells: int) -> None:
        self._small = SmallFleet()
        self._clock = SystemClock()
        self._monitor = Monitor(SilentSource(), FLEET, clock=self._clock)
        encoders = [
            FrameEncoder(
                unit.path,
                BOOT,
                revision=0,
                columns=self._small.engine.columns,
                chips=unit.chips,
                instances=unit.instances,
            )
            for unit in self._small.units
        ]
        topics = [build_topic(FLEET, TopicClass.TELEMETRY, unit.path) for unit in self._small.units]
        self._frames = list(zip(topics, encoders, strict=True))
        self._monitor.apply(
            [descriptor(self._small.engine, unit, "small", BOOT) for unit in self._small.units]
        )
        self._seq = 0
        self._roll()
        self._rows = Rows(self._monitor.store.layout, "small")
        self._clusters = [
            (cluster_name(n), min(CLUSTER_ULTRASERVERS, ultraservers - n * CLUSTER_ULTRASERVERS))
            for n in range(-(-ultraservers // CLUSTER_ULTRASERVERS))
        ]
        self.jobs = Jobs(
            self._small,
            [cluster for cluster, rows in self._clusters if rows == CLUSTER_ULTRASERVERS],
        )
        self._of_cell: list[list[tuple[bytes, int]]] = [[] for _ in range(cells)]
        """Per cell the bytes before each frame's number, and the index of the different frame."""
        self._different: list[tuple[int, int]] = []
        """First row in its cluster, and number of rows, of each different frame."""
        self.described: list[tuple[str, bytes]] = []
        names = [f"relay-{cell}" for cell in range(cells)]
        relays = [
            RelayIdentity(FLEET, DEFAULT_ROOT, f"cell-{cell}", name, BOOT)
            for cell, name in enumerate(names)
        ]
        online = [each.presence("online", self._clock.wall_ns()) for each in relays]
        self._online = [(each.topic, each.payload) for each in online]
        now = format_rfc3339(self._clock.wall_ns())
        self.step()
        for number, (cluster, rows) in enumerate(self._clusters):
            cell = number * cells // len(self._clusters)
            for place, first in enumerate(range(0, rows, BLOCK_ROWS)):
                span = (first, min(BLOCK_ROWS, rows - first))
                if span not in self._different:
                    self._different.append(span)
                path = f"{cluster}/cell-{cell}/{place:04}"
                made = RollupDescriptor(
                    path=path,
                    publisher=names[cell],
                    boot=BOOT,
                    revision=1,
                    period_s=1.0,
                    clock=ClockSpec(epoch=now, speed=1.0),
                    cell=f"cell-{cell}",
                    rows=tuple(
                        RollupRow(
                            path=f"{cluster}/us-{first + n + 1:04d}",
                            type="trn2u.48xlarge",
                            instances=4,
                        )
                        for n in range(span[1])
                    ),
                )
                self.described.append(
                    (build_topic(FLEET, TopicClass.NODE, path), encode_message(made))
                )
                whole = encode_rollup(path, 1, self._frame(*span))
                head = cut_frame(build_topic(FLEET, TopicClass.ROLLUP, path), whole)[0]
                self._of_cell[cell].append((head, self._different.index(span)))

    def _roll(self) -> None:
        """Have the small fleet's monitor compute its roll-ups."""
        now_ns = self._clock.wall_ns()
        self._monitor.apply(
            [
                Envelope(
                    topic,
                    each.encode(self._seq, now_ns),
                    content_type=CONTENT_TYPE_CBOR,
                    received_s=self._clock.monotonic_s(),
                )
                for topic, each in self._frames
            ]
        )
        self._monitor.compute()
        self._seq += 1

    def _frame(self, first: int, count: int) -> RollupFrame:
        """Return the frame of some rows of a cluster."""
        rows = np.arange(first, first + count)
        small = self._small_frame
        pick = original_of(rows)
        return RollupFrame(
            Head(BOOT, _WIDE, _WIDE * 2**20),
            small.totals[:, pick],
            small.counters[:, pick],
            small.covered[:, pick],
            small.states[pick],
            small.alerts[pick],
            [
                re.sub(r"-\d{4}-", f"-{row + 1:04d}-", small.worst[of])
                for row, of in zip(rows.tolist(), pick.tolist(), strict=True)
            ],
        )

    def retained(self) -> list[tuple[str, bytes]]:
        """Return presence, descriptors and jobs."""
        return [*self._online, *self.described, *self.jobs.messages(range(len(self.jobs)))]

    def step(self) -> list[bytes]:
        """Simulate the next second, and return the bytes after the time of each different frame."""
        self._small.step()
        self._roll()
        heads = {block.path: Head(BOOT, 0, 0) for block in self._rows.blocks}
        store = self._monitor.store
        rollups = self._monitor.rollups
        (self._small_frame,) = self._rows.frames(store, rollups, (), heads).values()
        return [
            cut_frame("t", encode_rollup("p", 1, self._frame(*each)))[1] for each in self._different
        ]

    def slices(self) -> list[list[tuple[bytes, int]]]:
        """Return the blocks of each slice of a second."""
        slices: list[list[tuple[bytes, int]]] = [[] for _ in range(SLICES_PER_S)]
        for cell, heads in enumerate(self._of_cell):
            slices[cell * SLICES_PER_S // len(self._of_cell)] += heads
        return slices


# Sending


class Sent(NamedTuple):
    """What a generator has done."""

    frames: int
    seconds: int
    """Seconds that were published."""
    left_out: int
    """Seconds that were not, for want of time."""
    late_s: float
    """Longest that a slice was late."""
    cpu_s: float


def publish(url: str, publisher: BlockPublisher | RollupPublisher) -> None:
    """Publish all state, print a line, then publish a second's frames each second.

    For each input line, print the work done.
    """
    broker = parse_url(url)
    frames = connect(broker, "bench-frames")
    state = connect(broker, "bench-state")
    sender = StateSender(state)
    sender.send(publisher.retained())
    print("ready", flush=True)  # noqa: T201  the answer
    slices = publisher.slices()
    again = publisher.described
    jobs = publisher.jobs
    done = Sent(0, 0, 0, 0.0, 0.0)
    begun_s = time.perf_counter()
    seq = 0
    second = 0
    described = told = 0.0
    while True:
        bodies = publisher.step()
        for number, blocks in enumerate(slices):
            wait_s = begun_s + second + number / SLICES_PER_S - time.perf_counter()
            done = done._replace(late_s=max(done.late_s, -wait_s))
            time.sleep(max(0.0, wait_s))
            between = stamp(seq, time.time_ns())
            send_buffers(
                frames, [part for head, body in blocks for part in (head, between, bodies[body])]
            )
            done = done._replace(frames=done.frames + len(blocks))
            of_slice = range(
                int(described), int(described := described + len(again) / SLICES_PER_S / REPEAT_S)
            )
            sender.send([again[n % len(again)] for n in of_slice])
            of_slice = range(
                int(told), int(told := told + len(jobs) / SLICES_PER_S / JOBS_WITHIN_S)
            )
            sender.send(jobs.messages(of_slice))
            if select.select([sys.stdin], [], [], 0)[0]:
                if not sys.stdin.readline():
                    return
                print(json.dumps(done._replace(cpu_s=time.process_time())._asdict()), flush=True)  # noqa: T201  as above
                done = done._replace(late_s=0.0)
        seq = seq + 1
        second = second + 1
        behind = int(time.perf_counter() - begun_s - second)
        done = done._replace(seconds=done.seconds + 1, left_out=done.left_out + max(0, behind))
        second += max(0, behind)
