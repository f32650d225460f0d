"""Churn: messages of each class about short-lived names, and a count of the remains.

Names are cleared a minute later.
"""

from __future__ import annotations

import functools
import sys
import types
from collections import Counter, deque
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from support.monitor.feed import Feed
from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.severity import Severity
from trnfleet.wire.alerts import AckMessage, AlertMessage, CellAlertMessage, SilenceMessage
from trnfleet.wire.messages import (
    ClockSpec,
    CommandMessage,
    Descriptor,
    ForwardedBy,
    InstanceSpec,
    JobMessage,
    PublisherMessage,
    WatchMessage,
    encode_message,
    message_envelope,
)
from trnfleet.wire.ports import CONTENT_TYPE_CBOR, Envelope
from trnfleet.wire.rollups import (
    COUNTERS,
    SEVERITIES,
    STATES,
    TOTALS,
    RollupDescriptor,
    RollupFrame,
    RollupRow,
    encode_rollup,
)
from trnfleet.wire.telemetry import Head
from trnfleet.wire.topics import TopicClass, build_topic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnfleet.wire.structs import Message

LIFE_S = 60.0
"""Time after which a name is cleared."""


class Churn:
    """Short-lived names of every class: they come, live for a minute, and are cleared.

    A name is a number: a publisher with two clients of one number is counted once. Hosts publish
    telemetry while they live; every third of them is hot, so rules fire for it.
    """

    def __init__(
        self,
        fleet: str = "demo",
        steady: str = "uc1/us-0001/trn2u-0001-0",
        *,
        life_s: float = LIFE_S,
        has_hosts: bool = True,
    ) -> None:
        """Begin with no names.

        Args:
            fleet: The fleet's name.
            steady: An instance that stays. Jobs run on it.
            life_s: Time after which a name is cleared.
            has_hosts: Whether hosts and rows of roll-ups are among the names.
        """
        self._fleet = fleet
        self._steady = steady
        self._life_s = life_s
        self._has_hosts = has_hosts
        self._number = 0
        self._alive: deque[tuple[float, list[Envelope]]] = deque()
        self._hosts: dict[int, tuple[float, Feed]] = {}
        self._blocks: dict[int, tuple[float, int]] = {}

    def step(self, now_s: float, wall_ns: int, names: int = 3) -> list[Envelope]:
        """Return the messages of a moment: new names of each class, telemetry, clearings."""
        messages: list[Envelope] = []
        while self._alive and now_s - self._alive[0][0] >= self._life_s:
            messages += self._alive.popleft()[1]
        self._hosts = {
            number: each for number, each in self._hosts.items() if now_s - each[0] < self._life_s
        }
        self._blocks = {
            number: each for number, each in self._blocks.items() if now_s - each[0] < self._life_s
        }
        for _ in range(names):
            self._number += 1
            fresh = list(self._fresh(self._number, now_s, wall_ns))
            if not self._has_hosts:
                node = build_topic(self._fleet, TopicClass.NODE, "")
                fresh = [each for each in fresh if not each.topic.startswith(node)]
                self._hosts.clear()
                self._blocks.clear()
            messages += fresh
            cleared = [each._replace(payload=b"") for each in fresh if each.retain]
            self._alive.append((now_s, cleared))
        for _, feed in self._hosts.values():
            messages += feed.telemetry(ts_ns=wall_ns)
        for number, (at_s, seq) in self._blocks.items():
            messages.append(self._rollup(number, seq, wall_ns))
            self._blocks[number] = at_s, seq + 1
        return [each._replace(received_s=now_s) for each in messages]

    def _fresh(self, number: int, now_s: float, wall_ns: int) -> Iterator[Envelope]:
        ts = format_rfc3339(wall_ns)
        until = format_rfc3339(wall_ns + 3_600 * NS_PER_S)
        name = f"churn-{number:05}"
        boot = f"boot-{number:05}"
        fingerprint = f"{number:016x}"
        # A presence alone, the presence of a host that stays with another boot, and one that ends
        # before it is cleared.
        yield self._retained(
            TopicClass.PUBLISHER,
            f"p-{name}",
            PublisherMessage(client=f"p-{name}", state="online", boot=boot),
        )
        yield self._retained(
            TopicClass.PUBLISHER,
            f"o-{name}",
            PublisherMessage(client=f"o-{name}", state="offline", boot=boot),
        )
        restarted = PublisherMessage(client="restarts", state="online", boot=boot)
        yield self._retained(TopicClass.PUBLISHER, "restarts", restarted)
        # Hosts, one in a block of its own instance, contested by another publisher.
        path = f"uc1/standalone/h-{number:05}"
        feed = Feed([(path, "trn2.48xlarge")], fleet=self._fleet)
        feed.publisher = f"h-{name}"
        feed.boot = boot
        feed.origin = "neuron"
        feed.epoch = ts
        feed.set("temperature_c", 99.0 if number % 3 == 0 else 50.0)
        self._hosts[number] = now_s, feed
        yield from feed.announcements()
        other = Descriptor(
            path=path,
            publisher=f"x-{name}",
            boot=boot,
            period_s=1.0,
            clock=ClockSpec(epoch=ts),
            columns=(),
            instances=(InstanceSpec(path=path, type="trn2.48xlarge"),),
            origin="neuron",
        )
        if number % 4 == 0:
            yield self._retained(TopicClass.NODE, path, other)
            yield from feed.announcements()
        # A host that a relay has forwarded, and one that nothing describes.
        forwarded = msgspec.structs.replace(
            other,
            path=f"{path}-f",
            instances=(InstanceSpec(path=f"{path}-f", type="trn2.48xlarge"),),
            forwarded=ForwardedBy(cell="cell-x", relay=f"r-{name}", boot=boot),
        )
        yield self._retained(TopicClass.NODE, f"{path}-f", forwarded)
        yield self._live(TopicClass.TELEMETRY, f"{path}-q", b"{}")
        yield self._live(TopicClass.TELEMETRY, f"{path}-q/chip01", b"{}")
        yield self._live(TopicClass.TELEMETRY, f"{path}/chip77", b"{}")
        job = JobMessage(
            job=name,
            kind="training",
            state="running",
            ts=ts,
            on=(path,),
            steps_per_s=0.2,
            step_time_s=5.0,
            mfu=0.4,
        )
        yield self._retained(TopicClass.JOB, name, job)
        lost = msgspec.structs.replace(job, job=f"{name}-b", state="failed", on=(self._steady,))
        yield self._retained(TopicClass.JOB, f"{name}-b", lost)
        yield feed.reservation(
            f"cb-{number}",
            path,
            ts=ts,
            start=ts,
            end=until,
            created=ts,
            ec2_ids=[f"i-{number:017x}"],
        )
        alert = AlertMessage(
            fingerprint=fingerprint,
            rule="hot",
            severity=Severity.WARNING,
            state="firing",
            target=path,
            labels={"alertname": "hot", "target": path},
            summary="hot",
            since=ts,
            fired=ts,
            watch=f"w-{name}",
        )
        yield self._retained(TopicClass.ALERT, fingerprint, alert)
        of_cell = CellAlertMessage(**msgspec.structs.asdict(alert), cell=f"cell-{number}")
        yield self._retained(TopicClass.ALERT, f"cell-{number}/{fingerprint}", of_cell)
        ack = AckMessage(fingerprint=fingerprint, owner=f"ann-{number}", at=ts, until=until)
        yield self._retained(TopicClass.ACK, fingerprint, ack)
        silence = SilenceMessage(
            id=f"s-{number}",
            matchers=(f'target="{path}"',),
            starts=ts,
            until=until,
            who=f"bob-{number}",
        )
        yield self._retained(TopicClass.SILENCE, f"s-{number}", silence)
        watch = WatchMessage(
            client=f"w-{name}", state="online", boot=boot, role="watch", since=ts, ts=ts
        )
        yield self._retained(TopicClass.PUBLISHER, watch.client, watch)
        passed = msgspec.structs.replace(watch, cell=f"cell-{number}")
        yield self._retained(TopicClass.PUBLISHER, f"cell-{number}/{watch.client}", passed)
        relay = msgspec.structs.replace(
            watch, client=f"r-{name}", role="relay", leads=True, hears=True, cell=f"cell-{number}"
        )
        yield self._retained(TopicClass.PUBLISHER, f"cell-{number}/{relay.client}", relay)
        rows = RollupDescriptor(
            path=f"uc2/cell-{number}/0000",
            publisher=relay.client,
            boot=boot,
            period_s=1.0,
            cell=f"cell-{number}",
            rows=(RollupRow(path=f"uc2/us-{number}", type="trn2u.48xlarge", instances=4),),
            clock=ClockSpec(epoch=ts),
            origin="neuron",
        )
        yield self._retained(TopicClass.NODE, rows.path, rows)
        self._blocks[number] = now_s, 0
        yield feed.event(path, text=f"something happened to {name}", severity="warning", ts=ts)
        yield from self._not_retained(number, ts)

    def _not_retained(self, number: int, ts: str) -> Iterator[Envelope]:
        """Yield a command, and invalid messages.

        Of another fleet, of an unknown class, unfit for the topic, cut short.
        """
        name = f"churn-{number}"
        command = CommandMessage(
            id=name, client=name, action="inject", target=self._steady, expires=ts
        )
        yield self._live(TopicClass.COMMAND, self._steady, encode_message(command))
        yield self._live(TopicClass.REPLY, f"{name}/{number}", b'{"ok": true}')
        yield Envelope(
            build_topic(f"fleet-{number}", TopicClass.TELEMETRY, "uc1/standalone/h"), b"{}"
        )
        yield Envelope(f"trnfleet/v1/{self._fleet}/class-{number}/x", b"{}")
        yield self._retained(TopicClass.NODE, f"uc1/standalone/bad-{number}", None)
        yield self._retained(TopicClass.JOB, f"bad-{number}", None)
        yield self._retained(TopicClass.PUBLISHER, f"bad-{number}", None)
        yield self._retained(TopicClass.ACK, f"{number:016x}0", None)

    def _rollup(self, number: int, seq: int, wall_ns: int) -> Envelope:
        path = f"uc2/cell-{number}/0000"
        states = np.array([[64, 0, 0, 0, 0]], np.uint16)
        covered = np.zeros((len(TOTALS) + len(COUNTERS), 1), np.uint16)
        frame = RollupFrame(
            Head(f"boot-{number:05}", seq, wall_ns),
            np.zeros((len(TOTALS), 1), np.float32),
            np.zeros((len(COUNTERS), 1)),
            covered,
            states,
            np.zeros((1, len(SEVERITIES)), np.uint16),
            [""],
        )
        assert states.shape[1] == STATES
        topic = build_topic(self._fleet, TopicClass.ROLLUP, path)
        return Envelope(topic, encode_rollup(path, 0, frame), content_type=CONTENT_TYPE_CBOR)

    def _retained(self, topic_class: TopicClass, path: str, message: Message | None) -> Envelope:
        topic = build_topic(self._fleet, topic_class, path)
        if message is None:
            return Envelope(topic, b'{"v": 1', qos=1, retain=True)
        return message_envelope(topic, message, retain=True)

    def _live(self, topic_class: TopicClass, path: str, payload: bytes) -> Envelope:
        return Envelope(build_topic(self._fleet, topic_class, path), payload)


_LEAVES = (
    str,
    bytes,
    int,
    float,
    complex,
    bool,
    type(None),
    type,
    types.ModuleType,
    types.BuiltinFunctionType,
    types.CodeType,
    types.FrameType,
)


_SIZED = (dict, list, tuple, set, frozenset, deque, bytearray, memoryview)


def entries(**roots: object) -> Counter[str]:
    """Return how many entries the containers below some objects have, by the way to them.

    Containers are dicts, lists, sets, tuples, deques, bytes and arrays. What the members of one
    have in common is one way. Every object is counted once, where the way to it is the shortest.
    """
    counts: Counter[str] = Counter()
    seen: set[int] = set()
    queue: deque[tuple[str, Any]] = deque(roots.items())
    while queue:
        way, value = queue.popleft()
        if isinstance(value, _LEAVES) or id(value) in seen:
            continue
        seen.add(id(value))
        counts[way] += size(value)
        queue.extend((f"{way}{step}", child) for step, child in _inside(value))
    return +counts


def size(value: Any) -> int:
    """Return the entries of a container; 0 of anything else."""
    if isinstance(value, np.ndarray):
        return int(value.size)
    if hasattr(value, "cache_info"):
        # One that is bounded is full at some time.
        info = value.cache_info()
        return int(info.currsize if info.maxsize is None else info.maxsize)
    return len(value) if isinstance(value, _SIZED) else 0


def _inside(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield an object's references, each with its step."""
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            yield from (("[]", each) for each in value.flat)
    elif isinstance(value, dict):
        yield from (("{}", each) for each in list(value.values()))
        yield from (("{key}", each) for each in list(value))
    elif isinstance(value, list | tuple | set | frozenset | deque):
        yield from (("[]", each) for each in list(value))
    elif isinstance(value, functools.partial):
        yield "()", (value.func, value.args, value.keywords)
    elif isinstance(value, types.MethodType):
        yield ".self", value.__self__
    elif isinstance(value, types.FunctionType):
        cells = value.__closure__ or ()
        yield from (("()", cell.cell_contents) for cell in cells if _is_set(cell))
    else:
        yield from fields(value)


def fields(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of an object."""
    yield from ((f".{name}", each) for name, each in list(getattr(value, "__dict__", {}).items()))
    for kind in type(value).__mro__:
        names = kind.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if not name.startswith("__") and hasattr(value, name):
                yield f".{name}", getattr(value, name)


def _is_set(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def kept_by_modules() -> dict[str, object]:
    """Return the program's module-level objects: caches, tables and others, no code."""
    found: dict[str, object] = {}
    for name, module in list(sys.modules.items()):
        if not name.startswith("trnfleet") or module is None:
            continue
        for key, value in list(vars(module).items()):
            is_code = isinstance(value, type | types.ModuleType) or (
                isinstance(value, types.FunctionType)
                or not str(getattr(value, "__module__", name)).startswith("trnfleet")
            )
            if not is_code and not key.startswith("__"):
                found[f"{name}.{key}"] = value
    return found


def grown(samples: list[Counter[str]], settled: int) -> dict[str, tuple[int, int]]:
    """Return grown counts: maxima of the first and the second half of the samples.

    Counting begins at the settled sample.
    """
    rest = samples[settled:]
    half = len(rest) // 2
    before: Counter[str] = Counter()
    after: Counter[str] = Counter()
    for counts, part in ((before, rest[:half]), (after, rest[half:])):
        for sample in part:
            for way, count in sample.items():
                counts[way] = max(counts[way], count)
    return {
        way: (before[way], count) for way, count in after.items() if count > before[way] * 1.05 + 8
    }
