"""Hosts publishing an instance each, with losses, clocks and silences set by a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.monitor.feed import START_NS, Feed, standalone
from trnfleet.clock import NS_PER_S, format_rfc3339

if TYPE_CHECKING:
    from trnfleet.monitor.pipeline.health import PipelineHealth
    from trnfleet.wire.ports import Envelope


class Hosts:
    """Hosts publishing an instance each to one monitor."""

    def __init__(self, number: int, *, origin: str = "simulated") -> None:
        self.feed = Feed(standalone(number))
        self.feed.origin = "neuron" if origin == "neuron" else "simulated"
        self.feed.epoch = format_rfc3339(START_NS)
        self.paths = list(self.feed.layout.instances)
        self.names = [f"host-{number + 1}" for number in range(number)]
        for name, path in zip(self.names, self.paths, strict=True):
            self.feed.publisher = name
            self.feed.monitor.apply(self.feed.announcements([path])[:1])
            self.feed.monitor.apply(
                [each for each in self.feed.announcements([path]) if each.topic.endswith(path)]
            )
        self.feed.monitor.compute()

    async def tick(
        self, *, without: tuple[str, ...] = (), ahead_s: dict[str, float] | None = None
    ) -> None:
        """Advance a second, and publish from all hosts except some.

        Some hosts may have a clock ahead.
        """
        feed = self.feed
        await feed.clock.advance(1.0)
        sent: list[Envelope] = []
        seq = feed.seq
        for name, path in zip(self.names, self.paths, strict=True):
            feed.seq = seq
            ts_ns = feed.clock.wall_ns() + round((ahead_s or {}).get(name, 0.0) * NS_PER_S)
            message = [each for each in feed.telemetry(ts_ns=ts_ns) if each.topic.endswith(path)]
            sent += [] if name in without else message
        feed.seq = seq + 1
        feed.monitor.apply(sent)
        feed.monitor.compute()

    def health(self) -> PipelineHealth:
        """Return the pipeline at this moment."""
        return self.feed.monitor.pipeline(at_once=True)


def line_of(health: PipelineHealth, name: str) -> str:
    """Return the line of a problem; empty for none."""
    return next((each.text for each in health.problems if each.name == name), "")
