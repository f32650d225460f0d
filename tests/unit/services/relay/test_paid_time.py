"""Paid time of cells: relays publish it, and a top monitor adds it up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from support.monitor.feed import DEMO, Feed, SilentSource, live_feed
from support.monitor.relays import Top

from trnfleet.domain.goodput import TimeCause
from trnfleet.export.election import LISTEN_S
from trnfleet.monitor.goodput import MINUTES, Goodput
from trnfleet.monitor.goodput_report import CellReport, cell_reports
from trnfleet.monitor.monitor import Monitor
from trnfleet.wire.messages import JobMessage, encode_message
from trnfleet.wire.ports import Envelope
from trnfleet.wire.topics import TopicClass, build_topic

if TYPE_CHECKING:
    from collections.abc import Iterable

TRAINING = "uc1/us-0001"
OTHERS = "uc1/us-0002", "uc1/standalone"
CELLS = {
    "cell-a": [host for host in DEMO if host[0].startswith(TRAINING)],
    "cell-b": [host for host in DEMO if host[0].startswith(OTHERS)],
}


def messages(feed: Feed, step: int, places: Iterable[str]) -> list[Envelope]:
    """Return what is published in these places: a job, and a reservation of an idle instance."""
    job = JobMessage(
        job="train",
        kind="training",
        state="checkpointing" if step % 5 == 4 else "running",
        ts="2026-01-05T00:00:00Z",
        on=(TRAINING,),
        steps_completed=step // 3,
        steps_lost=0.0,
        ideal_step_s=2.0,
    )
    topic = build_topic("demo", TopicClass.JOB, "train")
    made = {
        TRAINING: Envelope(topic, encode_message(job), qos=1, retain=True),
        "uc1/standalone": feed.reservation("cb-1", "uc1/standalone/trn2-0001"),
    }
    return [made[place] for place in places]


async def published() -> tuple[Feed, dict[str, Top], Monitor]:
    """Return a monitor of the whole fleet after a minute, and of roll-ups of its two cells."""
    tops = {cell: Top() for cell in CELLS}
    relays = [
        await top.join(f"relay-{cell}", cell=cell, instances=CELLS[cell])
        for cell, top in tops.items()
    ]
    whole = live_feed()
    feeds = [whole, *(relay.feed for relay in relays)]
    for feed in feeds:
        feed.set("nc_util_pct", 0.0)
        feed.tick()
    for top in tops.values():
        await top.run(LISTEN_S + 1)
    await whole.clock.advance(LISTEN_S + 1)
    for feed in feeds:
        feed.tick()
        feed.monitor.goodput = Goodput()
    for step in range(60):
        places = [[TRAINING, "uc1/standalone"], [TRAINING], ["uc1/standalone"]]
        for feed, own in zip(feeds, places, strict=True):
            feed.receive(messages(feed, step, own))
            feed.tick()
        for top in tops.values():
            await top.run(1.0)
        await whole.clock.advance(1.0)
    monitor = Monitor(SilentSource(), "demo", clock=whole.clock)
    for top in tops.values():
        monitor.apply_messages([envelope for _, envelope in top.sent])
    return whole, tops, monitor


def reports(monitor: Monitor) -> list[CellReport]:
    monitor.compute()
    return cell_reports(monitor.store.rolled.paid_by_cell())


async def test_paid_time_of_two_cells_adds_up_to_the_fleets() -> None:
    whole, _, monitor = await published()
    together, *cells = reports(monitor)
    assert (together.title, [cell.cell for cell in cells]) == ("2 of 2", [*CELLS])
    expected = whole.monitor.goodput.report(MINUTES)
    assert together.report is not None
    assert together.report.lasts_s == expected.lasts_s > 50
    paid = together.report.fleet
    np.testing.assert_allclose(paid.seconds, expected.fleet.seconds, atol=1e-6)
    np.testing.assert_allclose(paid.usd, expected.fleet.usd, atol=1e-6)
    assert paid.unpriced_s == expected.fleet.unpriced_s > 0
    for cause in ("PRODUCTIVE", "SLOW", "CHECKPOINT", "IDLE_RESERVED", "IDLE"):
        assert paid.seconds[TimeCause[cause]] > 0, cause


async def test_a_cell_of_an_older_relay_or_without_one_is_not_known() -> None:
    _, tops, monitor = await published()
    reports(monitor)
    goodbye = tops["cell-b"].relays[0].service.farewell()
    monitor.apply_messages(goodbye)
    together, first, second = reports(monitor)
    assert together.title == "1 of 2"
    assert (first.report is None, second.report is None) == (False, True)
