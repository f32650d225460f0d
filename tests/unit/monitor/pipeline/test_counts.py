from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st
from support.monitor.feed import Feed, standalone

from trnfleet.monitor.pipeline.traffic import SUMS

if TYPE_CHECKING:
    from trnfleet.wire.ports import Envelope

STEPS = (
    "tick",
    "lose",
    "twice",
    "backwards",
    "shed",
    "torn",
    "elsewhere",
    "retained",
    "restart",
    "revise",
    "describe",
    "lay out",
    "withdraw",
    "other fleet",
    "no topic",
    "event",
)


class Mishaps:
    """A fleet of two instances with every possible mishap of messages."""

    def __init__(self, *, json: bool) -> None:
        self.feed = Feed(standalone(2), json=json)
        self.kept: list[Envelope] = []

    def step(self, what: str) -> None:
        """Let one thing happen."""
        feed = self.feed
        apply = self.feed.monitor.apply
        if what == "restart":
            feed.restart(f"boot-{feed.seq + 2}")
        elif what == "revise":
            feed.revision += 1
        elif what == "describe":
            apply(feed.announcements())
        elif what == "lay out":
            feed.monitor.lay_out()
        elif what == "withdraw":
            apply([each._replace(payload=b"") for each in feed.announcements()[1:2]])
        elif what == "event":
            apply([feed.event("uc1")])
        else:
            # Two ticks before it were left out, as it says itself.
            feed.seq += 2 * (what == "shed")
            apply(self.changed(feed.telemetry(), what))

    def changed(self, sent: list[Envelope], what: str) -> list[Envelope]:
        """Return what comes of a tick's telemetry."""
        before = self.kept
        self.kept = sent
        ways = {
            "lose": [],
            "twice": [*sent, *sent],
            "backwards": [*sent, *before],
            "shed": [each._replace(shed=2) for each in sent],
            "torn": [each._replace(payload=each.payload[:-3]) for each in sent],
            "elsewhere": [each._replace(topic=f"{each.topic}x") for each in sent],
            "retained": [each._replace(retain=True) for each in sent],
            "other fleet": [
                each._replace(topic=each.topic.replace("/demo/", "/prod/")) for each in sent
            ],
            "no topic": [each._replace(topic="elsewhere") for each in sent],
        }
        return ways.get(what, sent)


@settings(max_examples=40, deadline=None)
@given(steps=st.lists(st.sampled_from(STEPS), min_size=1, max_size=25), json=st.booleans())
def test_every_message_is_counted_once_and_every_tick_too(steps: list[str], json: bool) -> None:
    """Every read message and every published tick is counted exactly once, in any order."""
    mishaps = Mishaps(json=json)
    for step in ("describe", "tick", "lay out", *steps):
        mishaps.step(step)
        monitor = mishaps.feed.monitor
        assert monitor.counts.unaccounted(monitor.ingest.pending) == 0, step
        assert monitor.counts.unaccounted_ticks == 0, step
        counts = monitor.counts
        traffic = monitor.ingest.publishers.traffic
        assert {name: int(traffic.column(name).sum()) for name in SUMS if name != "size_bytes"} == {
            "messages": counts.messages,
            "lost": counts.lost,
            "late": counts.late,
            "duplicates": counts.duplicates,
            "old": counts.old,
            "refused": counts.undecodable + counts.misplaced + counts.rejected,
        }, step
    assert mishaps.feed.monitor.counts.messages >= 2
