"""A monitor on a top broker, and the relay of one cell, message by message."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from support.monitor.queue_source import QueueSource
from trnfleet.clock import ManualClock
from trnfleet.monitor.monitor import Monitor
from trnfleet.wire.messages import (
    ClockSpec,
    Descriptor,
    ForwardedBy,
    InstanceSpec,
    PublisherMessage,
    WatchMessage,
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
    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.monitor.summary import Summary

PATH = "uc1/cell-a/0000"
BOOT = "b00t"
OTHER_PATH = "uc1/cell-b/0000"
ROWS = ("uc1/standalone/trn2-1", "uc1/us-0001", "uc1/us-0002")
INSTANCES = (1, 4, 4)
CHIPS = np.array([16, 64, 64])


class Top:
    """A monitor on a top broker, and one relay, message by message."""

    def __init__(self, rules: tuple[Rule, ...] = ()) -> None:
        self.clock = ManualClock()
        self.monitor = Monitor(QueueSource(), "demo", clock=self.clock, rules=rules)
        self.boot = BOOT
        self.seq = 0
        self.describe()

    def describe(self, boot: str = BOOT, relay: str = "relay-1") -> None:
        """Apply a descriptor of a relay's rows.

        Later frames have its boot.
        """
        self.boot = boot
        self.seq = 0
        rows = tuple(
            RollupRow(
                path=path, type="trn2u.48xlarge" if count > 1 else "trn2.48xlarge", instances=count
            )
            for path, count in zip(ROWS, INSTANCES, strict=True)
        )
        self.take(
            TopicClass.NODE,
            PATH,
            RollupDescriptor(
                path=PATH,
                publisher=relay,
                boot=boot,
                period_s=1.0,
                cell="cell-a",
                rows=rows,
                clock=ClockSpec(epoch="2026-01-05T00:00:00Z"),
                origin="neuron",
            ),
        )

    def take(
        self,
        topic_class: TopicClass,
        path: str,
        message: RollupDescriptor | Descriptor | PublisherMessage,
    ) -> None:
        """Take a message; a relay announces itself before it describes rows."""
        if isinstance(message, RollupDescriptor):
            presence = WatchMessage(
                client=message.publisher,
                state="online",
                boot=message.boot,
                role="relay",
                cell=message.cell,
            )
            self.take(TopicClass.PUBLISHER, f"{message.cell}/{message.publisher}", presence)
        self.monitor.apply(
            [message_envelope(build_topic("demo", topic_class, path), message, retain=False)]
        )

    def frame(self, power_w: tuple[float, ...], stale: int = 0, critical: int = 0) -> None:
        """Apply a frame with one power per row.

        The last row has the stale chips and critical alerts.
        """
        states = np.zeros((3, STATES), np.uint16)
        states[:, 0] = CHIPS
        states[2, :2] = 64 - stale, stale
        totals = np.zeros((len(TOTALS), 3), np.float32)
        covered = np.zeros((len(TOTALS) + len(COUNTERS), 3), np.uint16)
        totals[TOTALS.index("power_w")], covered[TOTALS.index("power_w")] = power_w, states[:, 0]
        totals[TOTALS.index("nc_util_pct")], covered[TOTALS.index("nc_util_pct")] = (
            50.0 * CHIPS,
            CHIPS,
        )
        alerts = np.zeros((3, len(SEVERITIES)), np.uint16)
        alerts[2, 0] = critical
        ts_ns = self.clock.wall_ns()
        frame = RollupFrame(
            Head(self.boot, self.seq, ts_ns),
            totals,
            np.zeros((len(COUNTERS), 3)),
            covered,
            states,
            alerts,
            ["", "trn2u-1-1/chip03", ""],
        )
        self.seq += 1
        topic = build_topic("demo", TopicClass.ROLLUP, PATH)
        self.monitor.apply(
            [Envelope(topic, encode_rollup(PATH, 0, frame), content_type=CONTENT_TYPE_CBOR)]
        )

    def describe_row(self, path: str) -> None:
        """Apply the descriptor of another cell's relay with one UltraServer."""
        self.take(
            TopicClass.NODE,
            OTHER_PATH,
            RollupDescriptor(
                path=OTHER_PATH,
                publisher="relay-2",
                boot=BOOT,
                period_s=1.0,
                cell="cell-b",
                rows=(RollupRow(path=path, type="trn2u.48xlarge", instances=4),),
                clock=ClockSpec(epoch="2026-01-05T00:00:00Z"),
                origin="neuron",
            ),
        )

    def frame_of_row(self, power_w: float, seq: int = 0) -> None:
        """Take a frame of that relay."""
        totals = np.zeros((len(TOTALS), 1), np.float32)
        covered = np.zeros((len(TOTALS) + len(COUNTERS), 1), np.uint16)
        totals[TOTALS.index("power_w")], covered[TOTALS.index("power_w")] = power_w, 64
        frame = RollupFrame(
            Head(BOOT, seq, self.clock.wall_ns()),
            totals,
            np.zeros((len(COUNTERS), 1)),
            covered,
            np.array([[64, 0, 0, 0, 0]], np.uint16),
            np.zeros((1, len(SEVERITIES)), np.uint16),
            [""],
        )
        topic = build_topic("demo", TopicClass.ROLLUP, OTHER_PATH)
        self.monitor.apply(
            [Envelope(topic, encode_rollup(OTHER_PATH, 0, frame), content_type=CONTENT_TYPE_CBOR)]
        )

    def describe_hosts(self, names: tuple[int, ...], relay_boot: str = "") -> None:
        """Apply descriptors of the first UltraServer's instances.

        They are forwarded by `relay_boot` if set.
        """
        forwarded = (
            ForwardedBy(cell="cell-a", relay="relay-1", boot=relay_boot) if relay_boot else None
        )
        for name in names:
            path = f"uc1/us-0001/trn2u-1-{name}"
            self.take(
                TopicClass.NODE,
                path,
                Descriptor(
                    path=path,
                    publisher="host",
                    boot="h",
                    period_s=1.0,
                    clock=ClockSpec(epoch="2026-01-05T00:00:00Z"),
                    instances=(InstanceSpec(path=path, type="trn2u.48xlarge"),),
                    columns=(),
                    forwarded=forwarded,
                ),
            )

    def change_rows(self, powers_w: dict[str, float], totals: tuple[str, ...] = TOTALS) -> None:
        """Apply another descriptor of the relay's block, and a frame of it.

        It has other UltraServers or metrics.
        """
        rows = tuple(RollupRow(path=path, type="trn2u.48xlarge", instances=4) for path in powers_w)
        self.take(
            TopicClass.NODE,
            PATH,
            RollupDescriptor(
                path=PATH,
                publisher="relay-1",
                boot=self.boot,
                revision=1,
                period_s=1.0,
                cell="cell-a",
                rows=rows,
                totals=totals,
                clock=ClockSpec(epoch="2026-01-05T00:00:00Z"),
                origin="neuron",
            ),
        )
        values = np.zeros((len(totals), len(rows)), np.float32)
        covered = np.zeros((len(totals) + len(COUNTERS), len(rows)), np.uint16)
        values[totals.index("power_w")], covered[totals.index("power_w")] = (
            list(powers_w.values()),
            64,
        )
        frame = RollupFrame(
            Head(self.boot, self.seq, self.clock.wall_ns()),
            values,
            np.zeros((len(COUNTERS), len(rows))),
            covered,
            np.array([[64, 0, 0, 0, 0]] * len(rows), np.uint16),
            np.zeros((len(rows), len(SEVERITIES)), np.uint16),
            [""] * len(rows),
        )
        self.seq += 1
        topic = build_topic("demo", TopicClass.ROLLUP, PATH)
        self.monitor.apply(
            [Envelope(topic, encode_rollup(PATH, 1, frame), content_type=CONTENT_TYPE_CBOR)]
        )

    def look(self) -> Summary:
        self.monitor.compute()
        return self.monitor.summary()
