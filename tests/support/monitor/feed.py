"""A monitor fed by hand, without broker and simulator.

Descriptors and frames are made from columns set by a test.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np
from msgspec import UNSET

from trnfleet.clock import ManualClock, format_rfc3339
from trnfleet.domain.layout import Layout
from trnfleet.domain.metrics import BY_NAME, SIMULATED, Scope
from trnfleet.domain.severity import Severity
from trnfleet.monitor.monitor import Monitor
from trnfleet.wire.frames import FrameEncoder
from trnfleet.wire.limits import DEFAULT_LIMITS, Limits
from trnfleet.wire.messages import (
    COLUMN_SETS,
    STANDARD_COLUMNS,
    ClockSpec,
    ColumnSpec,
    Descriptor,
    EventMessage,
    ForwardedBy,
    InstanceSpec,
    JobMessage,
    PublisherMessage,
    encode_message,
    named_lanes,
)
from trnfleet.wire.ports import CONTENT_TYPE_CBOR, CONTENT_TYPE_JSON, Envelope, LinkStatus
from trnfleet.wire.telemetry import Head, dump, encode_chips, encode_instance
from trnfleet.wire.topics import FLEET_PATH, TopicClass, build_topic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

START_NS = 1_767_571_200_000_000_000


class SilentSource:
    """A source from which nothing comes."""

    def __init__(self) -> None:
        self.status = LinkStatus(
            broker="mqtt://127.0.0.1:1883", connected=True, connects=1, protocol="5"
        )

    async def take(self) -> list[Envelope]:
        """Never called: a fed monitor is applied to directly."""
        raise AssertionError("a fed monitor does not read")

    def request_retained(self, topics: Iterable[str]) -> None:
        """Ask nobody."""


def with_columns(payload: bytes) -> dict[str, Any]:
    """Return a descriptor with its columns written one by one.

    Publishers do so if their columns are no known set.
    """
    message: dict[str, Any] = json.loads(payload)
    if "column_set" in message:
        columns = COLUMN_SETS[message.pop("column_set")]
        extra = message.pop("extra_columns", [])
        message["columns"] = [*msgspec.to_builtins(columns), *extra]
    return message


def ultraservers(count: int, cluster: str = "uc1") -> list[tuple[str, str]]:
    """Return (path, type) of the instances of `count` UltraServers."""
    return [
        (f"{cluster}/us-{number:04d}/trn2u-{number:04d}-{place}", "trn2u.48xlarge")
        for number in range(1, count + 1)
        for place in range(4)
    ]


def standalone(
    count: int, kind: str = "trn2.48xlarge", cluster: str = "uc1"
) -> list[tuple[str, str]]:
    """Return (path, type) of `count` standalone instances."""
    family = kind.partition(".")[0]
    return [(f"{cluster}/standalone/{family}-{number:04d}", kind) for number in range(1, count + 1)]


class Feed:
    """A fleet whose every value is set by the test.

    One descriptor and topic an instance; one an UltraServer (or standalone segment) where it is
    grouped.
    """

    def __init__(
        self,
        instances: list[tuple[str, str]],
        *,
        fleet: str = "demo",
        period_s: float = 1.0,
        json: bool = False,
        grouped: bool = False,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.fleet = fleet
        self.clock = ManualClock(wall_ns=START_NS, monotonic_s=1_000.0)
        self.monitor = Monitor(SilentSource(), fleet, clock=self.clock, limits=limits)
        self.layout = Layout.of(instances)
        self.columns: dict[str, NDArray[Any]] = {}
        for metric in SIMULATED:
            rows = self.layout.chips if metric.scope is Scope.CHIP else len(self.layout.instances)
            self.columns[metric.name] = np.zeros(
                (rows, metric.width) if metric.is_vector else rows, metric.dtype
            )
        self.set("links_up", self.layout.chip_links_mask)
        self.set("temperature_c", 50.0)
        self.period_s = period_s
        self.json = json
        self.grouped = grouped
        self.seq = 0
        self.boot = "boot-1"
        self.publisher = "feed"
        self.jobs: dict[str, tuple[str, ...]] = {}
        self.states: dict[str, str] = {}
        """States of jobs that are not running."""
        self.epoch = "2026-01-05T00:00:00Z"
        self.speed = 1.0
        self.origin: Literal["simulated", "neuron"] = "simulated"
        self.replay = False
        """Whether descriptors are marked as a replay's."""
        self.forwarded: ForwardedBy | None = None
        """Relay forwarding the descriptors to a top broker."""
        self.generation = 0
        """How often the instances were replaced: part of their EC2 ids."""
        self.ec2_ids: dict[str, str] = {}
        """EC2 ids of instances with one of their own."""
        self.display_names: dict[str, str] = {}
        """Display names of jobs, and of instances by address."""
        self.told = 0
        """Events told so far."""

    def restart(self, boot: str) -> None:
        """Restart the publisher under a new boot id, without announcing it."""
        self.boot = boot
        self.seq = 0

    def set(self, name: str, values: Any, rows: Any = slice(None)) -> None:
        """Set a metric (in its unit) for rows of its scope."""
        metric = BY_NAME[name]
        column = self.columns[name]
        column[rows] = metric.encode(
            np.broadcast_to(np.asarray(values, dtype=float), column[rows].shape)
        )

    def scatter(self, seed: int = 1) -> None:
        """Give every metric plausible, different values."""
        random = np.random.default_rng(seed)
        chips = self.layout.chips
        busy = random.uniform(0.3, 1.0, chips)
        self.set("nc_util_pct", 100 * busy[:, None] * random.uniform(0.9, 1.0, (chips, 8)))
        self.set("engine_util_pct", 90 * busy[:, None] * np.array([1.0, 0.4, 0.3, 0.1]))
        self.set("tflops", 300 * busy)
        self.set("hbm_used_bytes", 70e9 * busy)
        self.set("hbm_read_bytes_per_s", 1.2e12 * busy)
        self.set("hbm_write_bytes_per_s", 0.5e12 * busy)
        self.set("link_tx_bytes_per_s", 40e9)
        self.set("link_rx_bytes_per_s", 40e9)
        self.set("power_w", 90 + 400 * busy)
        self.set("power_util_pct", 100 * busy)
        self.set("temperature_c", 27 + 50 * busy)
        self.set("exec_completed", random.integers(0, 10_000, chips))
        self.set("host_power_w", 2_000.0)
        self.set("vcpu_util_pct", 30.0)

    columns_described: tuple[ColumnSpec, ...] = STANDARD_COLUMNS
    """What the descriptors announce."""
    revision = 0

    def describe(self, paths: list[str] | None = None) -> None:
        """Send publisher, descriptors and jobs, and have the layout built."""
        self.receive(self.announcements(paths))

    def announcements(self, paths: list[str] | None = None) -> list[Envelope]:
        """Return the retained messages of this fleet."""
        chosen = self.layout.instances if paths is None else paths
        messages = [self.publisher_envelope("online")]
        units = self.layout.ultraservers if self.grouped else chosen
        for path in units:
            members = [each for each in chosen if each == path or each.startswith(path + "/")]
            descriptor = Descriptor(
                path=path,
                publisher=self.publisher,
                boot=self.boot,
                revision=self.revision,
                period_s=self.period_s,
                clock=ClockSpec(epoch=self.epoch, speed=self.speed),
                origin=self.origin,
                replay=self.replay,
                forwarded=self.forwarded,
                instances=tuple(map(self._spec, members)),
                columns=self.columns_described,
                lanes=named_lanes(
                    {self.layout.type_of(self.layout.instance_index[each]).name for each in members}
                ),
            )
            messages.append(self._state(TopicClass.NODE, path, encode_message(descriptor)))
        for name, places in self.jobs.items():
            job = JobMessage(
                job=name,
                kind="training",
                state=self.states.get(name, "running"),
                ts="2026-01-05T00:00:00Z",
                on=places,
                steps_per_s=0.125,
                mfu=0.4,
                display_name=self.display_names.get(name),
            )
            messages.append(self._state(TopicClass.JOB, name, encode_message(job)))
        return messages

    def _spec(self, path: str) -> InstanceSpec:
        number = self.layout.instance_index[path]
        kind = self.layout.type_of(number)
        lnc = kind.chip.logical_neuroncore_config
        ec2_id = self.ec2_ids.get(path, f"i-{number:08x}{self.generation:09x}")
        shown = self.display_names.get(path, UNSET)
        return InstanceSpec(path=path, type=kind.name, ec2_id=ec2_id, display_name=shown, lnc=lnc)

    def reservation(
        self, reservation_id: str, on: str | tuple[str, ...] = (), **rest: Any
    ) -> Envelope:
        """Return a reservation's message: an active block from two days ago to two days ahead.

        `rest` overrides fields.
        """
        places = (on,) if isinstance(on, str) else on
        fields: dict[str, Any] = {
            "id": reservation_id,
            "state": "active",
            "ts": "2026-01-03T11:30:00Z",
            "instance_type": "trn2.48xlarge",
            "zone": "us-east-2b",
            "instances": 1,
            "created": "2026-01-01T11:30:00Z",
            "start": "2026-01-03T11:30:00Z",
            "end": "2026-01-06T11:30:00Z",
            "terminates": "2026-01-06T11:00:00Z",
            "fee": "7200.00",
            "on": places,
            "boot": self.boot,
        }
        payload = json.dumps(fields | rest).encode()
        return self._state(TopicClass.RESERVATION, reservation_id, payload)

    def event(
        self, path: str = "", text: str = "something happened", severity: str = "info", **rest: Any
    ) -> Envelope:
        """Return an event at the present time; `rest` are further fields of its message."""
        self.told += 1
        fields = {
            "id": f"{self.boot}-{self.told}",
            "source": "kernel",
            "name": "test",
            "severity": Severity(severity),
        }
        stamp = {"ts": format_rfc3339(self.clock.wall_ns())}
        message = EventMessage(**{"path": path, "text": text, **fields, **stamp, **rest})
        topic = build_topic(self.fleet, TopicClass.EVENT, path or FLEET_PATH)
        return Envelope(topic, encode_message(message), qos=1)

    def publisher_envelope(self, state: Any) -> Envelope:
        """Return the publisher's own message."""
        message = PublisherMessage(client=self.publisher, state=state, boot=self.boot)
        return self._state(TopicClass.PUBLISHER, self.publisher, encode_message(message))

    def telemetry(
        self, paths: list[str] | None = None, *, ts_ns: int | None = None
    ) -> list[Envelope]:
        """Return one tick's telemetry and count the tick.

        The default time is the wall clock's.
        """
        ts_ns = self.clock.wall_ns() if ts_ns is None else ts_ns
        head = Head(self.boot, self.seq, ts_ns)
        self.seq += 1
        messages: list[Envelope] = []
        if self.grouped:
            starts = self.layout.ultraserver_start.tolist()
            for path, first, last in zip(
                self.layout.ultraservers, starts, starts[1:], strict=False
            ):
                messages.append(self._frame(path, slice(first, last), head))
            return messages
        for number, path in enumerate(self.layout.instances):
            if paths is not None and path not in paths:
                continue
            chips = slice(
                int(self.layout.chip_start[number]), int(self.layout.chip_start[number + 1])
            )
            if self.json:
                values = [(path, encode_instance(head, path, None, self.columns, number))]
                values.extend(encode_chips(head, path, None, self.columns, chips))
                messages.extend(
                    self._telemetry(where, dump(value), CONTENT_TYPE_JSON)
                    for where, value in values
                )
                continue
            messages.append(self._frame(path, slice(number, number + 1), head))
        return messages

    def _frame(self, path: str, instances: slice, head: Head) -> Envelope:
        starts = self.layout.chip_start
        encoder = FrameEncoder(
            path,
            self.boot,
            revision=self.revision,
            columns=self.columns,
            chips=slice(int(starts[instances.start]), int(starts[instances.stop])),
            instances=instances,
        )
        return self._telemetry(path, encoder.encode(head.seq, head.ts_ns), CONTENT_TYPE_CBOR)

    def series(self, path: str, key: str) -> list[float]:
        """Return the monitor's history of an address."""
        layout = self.monitor.store.layout
        node = layout.find(path)
        assert node is not None
        return [float(value) for value in self.monitor.history.series(layout, node, key)]

    def silence(self, instance: str) -> None:
        """Make all values of an instance and its chips not available, as while booting."""
        number = self.layout.instance_index[instance]
        chips = slice(int(self.layout.chip_start[number]), int(self.layout.chip_start[number + 1]))
        for metric in SIMULATED:
            self.columns[metric.name][chips if metric.scope is Scope.CHIP else number] = metric.top

    def tick(self, paths: list[str] | None = None) -> None:
        """Send one tick's telemetry and compute."""
        self.receive(self.telemetry(paths))

    def receive(self, messages: list[Envelope]) -> None:
        """Apply messages and compute."""
        self.monitor.apply(messages)
        self.monitor.compute()

    async def advance(self, seconds: float) -> None:
        """Let time pass and compute."""
        await self.clock.advance(seconds)
        self.monitor.compute()

    def _telemetry(self, path: str, payload: bytes, content_type: str) -> Envelope:
        topic = build_topic(self.fleet, TopicClass.TELEMETRY, path)
        return Envelope(
            topic, payload, content_type=content_type, received_s=self.clock.monotonic_s()
        )

    def _state(self, topic_class: TopicClass, path: str, payload: bytes) -> Envelope:
        return Envelope(build_topic(self.fleet, topic_class, path), payload, qos=1, retain=True)


DEMO = ultraservers(2) + standalone(4)
"""Instances of a small fleet of both kinds: 192 chips."""


def one_instance() -> Feed:
    """Return a feed whose monitor knows one instance."""
    feed = described_feed([("uc1/us-0001/trn2u-0001-0", "trn2u.48xlarge")])
    feed.tick()
    return feed


def described_feed(instances: list[tuple[str, str]], **options: Any) -> Feed:
    """Return a feed whose monitor knows the layout; no value is set."""
    feed = Feed(instances, **options)
    feed.describe()
    return feed


def ready(instances: list[tuple[str, str]] = DEMO, **options: Any) -> Feed:
    """Return a feed with plausible values: the monitor knows the layout, but not the values."""
    feed = Feed(instances, **options)
    feed.scatter()
    feed.describe()
    return feed


def live_feed(instances: list[tuple[str, str]] = DEMO, **options: Any) -> Feed:
    """Return a feed with plausible values whose monitor has received a tick."""
    feed = ready(instances, **options)
    feed.tick()
    return feed
