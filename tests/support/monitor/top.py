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
    CellPaidTime,
    RollupDescriptor,
    RollupFrame,
    RollupRow,
    encode_rollup,
)
from trnfleet.wire.telemetry import Head
from trnfleet.wire.topics import TopicClass, build_topic

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.monitor.summary import Summary

PATH = "uc1/cell-a/0000"
BOOT = "b00t"
OTHER_PATH = "uc1/cell-b/0000"
ROWS = ("uc1/standalone/trn2-1", "uc1/us-0001", "uc1/us-0002")
INSTANCES = (1, 4, 4)
POWER_W = (4_000.0, 20_000.0, 10_000.0)
"""Power of the three rows."""
CHIPS = np.array([16, 64, 64])
LIVE_ULTRASERVER = np.array([[64, 0, 0, 0, 0]], np.uint16)


class Top:
    """A monitor on a top broker, and one relay, message by message."""

    def __init__(self, rules: tuple[Rule, ...] = ()) -> None:
        self.clock = ManualClock()
        self.monitor = Monitor(QueueSource(), "demo", clock=self.clock, rules=rules)
        self.boot = BOOT
        self.seq = 0
        self.paid: CellPaidTime | None = None
        """Paid time that the relay publishes."""
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
        alerts = np.zeros((3, len(SEVERITIES)), np.uint16)
        alerts[2, 0] = critical
        sums: dict[str, tuple[ArrayLike, ArrayLike]] = {
            "power_w": (power_w, states[:, 0]),
            "nc_util_pct": (50.0 * CHIPS, CHIPS),
        }
        self._publish(PATH, self.seq, sums, states, alerts, ["", "trn2u-1-1/chip03", ""])
        self.seq += 1

    def _publish(
        self,
        path: str,
        seq: int,
        sums: dict[str, tuple[ArrayLike, ArrayLike]],
        states: NDArray[np.uint16],
        alerts: NDArray[np.uint16] | None = None,
        chips: list[str] | None = None,
        totals: tuple[str, ...] = TOTALS,
        revision: int = 0,
    ) -> None:
        """Apply a frame with sums of some metrics, each with the chips it covers."""
        rows = len(states)
        values = np.zeros((len(totals), rows), np.float32)
        covered = np.zeros((len(totals) + len(COUNTERS), rows), np.uint16)
        for name, (value, cover) in sums.items():
            values[totals.index(name)] = value
            covered[totals.index(name)] = cover
        frame = RollupFrame(
            Head(self.boot if path == PATH else BOOT, seq, self.clock.wall_ns()),
            values,
            np.zeros((len(COUNTERS), rows)),
            covered,
            states,
            np.zeros((rows, len(SEVERITIES)), np.uint16) if alerts is None else alerts,
            chips or [""] * rows,
            self.paid if path == PATH else None,
        )
        topic = build_topic("demo", TopicClass.ROLLUP, path)
        payload = encode_rollup(path, revision, frame)
        self.monitor.apply([Envelope(topic, payload, content_type=CONTENT_TYPE_CBOR)])

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
        self._publish(OTHER_PATH, seq, {"power_w": (power_w, 64)}, LIVE_ULTRASERVER)

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
        sums: dict[str, tuple[ArrayLike, ArrayLike]] = {"power_w": (list(powers_w.values()), 64)}
        states = np.repeat(LIVE_ULTRASERVER, len(rows), axis=0)
        self._publish(PATH, self.seq, sums, states, totals=totals, revision=1)
        self.seq += 1

    def look(self) -> Summary:
        self.monitor.compute()
        return self.monitor.summary()

    def show(self, power_w: tuple[float, ...] = POWER_W) -> Summary:
        """Apply a frame and look at it."""
        self.frame(power_w)
        return self.look()


def framed_top(power_w: tuple[float, ...] = POWER_W, *, stale: int = 0) -> Top:
    """Return a top monitor after the first frame of its relay."""
    top = Top()
    top.frame(power_w, stale=stale)
    return top
