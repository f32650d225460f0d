"""Message handlers: a rejected message changes nothing, a new retained class is one row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import pytest
from support.monitor.feed import Feed, SilentSource
from support.monitor.top import BOOT, OTHER_PATH, PATH, POWER_W, ROWS, Top, framed_top

from trnfleet.domain.address import Level
from trnfleet.domain.layout import Node
from trnfleet.errors import WireError
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.ingest import messages
from trnfleet.monitor.ingest.ingest import Ingest
from trnfleet.monitor.ingest.messages import MESSAGE_HANDLERS, RetainedHandler
from trnfleet.monitor.ingest.rejects import MisplacedError, RejectedError
from trnfleet.monitor.minutes.minutes import Minutes
from trnfleet.monitor.monitor import Monitor
from trnfleet.monitor.pipeline.counts import PipelineCounts
from trnfleet.monitor.replay.packed_snapshot import PackedSnapshot
from trnfleet.services.files.rules import load_rules
from trnfleet.tui.chip.reading import chip_at
from trnfleet.wire.limits import Limits
from trnfleet.wire.messages import (
    ClockSpec,
    Descriptor,
    InstanceSpec,
    JobMessage,
    PublisherMessage,
    WatchMessage,
    encode_message,
    message_envelope,
)
from trnfleet.wire.ports import Envelope
from trnfleet.wire.rollups import RollupDescriptor, RollupRow
from trnfleet.wire.structs import Message
from trnfleet.wire.topics import (
    HISTORY_SUBSCRIPTIONS,
    RETAINED,
    SUBSCRIPTIONS,
    TopicClass,
    build_topic,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def test_totals_of_every_level_come_from_roll_ups() -> None:
    """The fleet's hardware is counted from the catalogue, and no row counts as a chip."""
    top = framed_top(stale=14)
    seen = top.look()
    assert (seen.chips, seen.instances, seen.ultraservers) == (144, 9, 2)
    assert (seen.live_chips, seen.stale_chips, seen.rolled_chips, seen.cells) == (
        130,
        14,
        144,
        ("cell-a",),
    )
    assert seen.power_w == 34_000.0
    rollups = top.monitor.rollups
    layout = top.monitor.store.layout
    assert rollups.value("power_w", Level.ULTRASERVER).tolist() == [4_000.0, 20_000.0, 10_000.0]
    assert rollups.value("power_w", Level.CLUSTER).tolist() == [34_000.0]
    assert layout.find("uc1/us-0001/trn2u-1-1") is None
    assert layout.find("uc1/standalone/trn2-1/chip00") is None
    assert list(layout.children(Node(Level.ULTRASERVER, 1))) == []


def test_every_chip_has_one_state() -> None:
    """The states add up to all chips, even without a pass.

    A row counts for all chips of its instances.
    """
    top = framed_top(stale=14)
    seen = top.look()
    assert seen.chip_states[:2] == ((130, "live"), (14, "stale"))
    assert sum(chips for chips, _ in seen.chip_states) == 144
    assert sum(top.monitor.store.chips_by_state()) == 144


def test_a_later_frame_replaces_states_coverage_and_alerts() -> None:
    """A later frame replaces states, coverage and alerts, even with unchanged totals."""
    top = Top()
    for stale in (0, 14, 0):
        top.frame(POWER_W, stale=stale, critical=stale)
        seen = top.look()
        assert top.monitor.store.rolled.alerts.tolist() == [[0, 0, 0], [0, 0, 0], [stale, 0, 0]]
        assert (seen.live_chips, seen.stale_chips) == (144 - stale, stale)
        assert top.monitor.rollups.covered("power_w", Level.INSTANCE).tolist() == [
            16,
            64,
            64 - stale,
        ]


def test_rows_have_their_own_figures_whatever_block_they_are_in() -> None:
    """A later block may have rows between another block's."""
    top = framed_top()
    top.describe_row("uc1/us-0000")
    top.frame_of_row(3_000.0)
    top.look()
    assert top.monitor.rollups.value("power_w", Level.ULTRASERVER).tolist() == [
        4_000.0,
        3_000.0,
        20_000.0,
        10_000.0,
    ]
    top.show((1.0, 2.0, 3.0))
    assert top.monitor.rollups.value("power_w", Level.INSTANCE).tolist() == [1.0, 3_000.0, 2.0, 3.0]
    assert top.monitor.rollups.value("power_w", Level.CLUSTER).tolist() == [3_006.0]


async def test_rows_without_a_relay_are_not_observed() -> None:
    """Rows of a lost relay are not observed, with last known figures, never stale.

    They are lost at once by last will, otherwise after three periods.
    """
    top = framed_top()
    await top.clock.advance(2.0)
    assert top.look().live_chips == 144
    await top.clock.advance(2.0)
    assert (top.look().unobserved_chips, top.look().stale_chips, top.look().power_w) == (
        144,
        0,
        34_000.0,
    )
    top.frame(POWER_W)
    assert top.look().live_chips == 144
    top.take(
        TopicClass.PUBLISHER,
        "relay-1",
        PublisherMessage(client="relay-1", state="online", boot=BOOT),
    )
    top.take(
        TopicClass.PUBLISHER,
        "relay-1",
        PublisherMessage(client="relay-1", state="offline", boot=BOOT),
    )
    assert (top.look().unobserved_chips, top.look().offline_chips) == (144, 0)


def test_chips_take_a_row_s_place_once_all_of_it_are_described() -> None:
    """Chips replace a row only if all are described, and the row returns after them."""
    top = framed_top()
    top.describe_hosts((0, 1), relay_boot=BOOT)
    assert (top.look().chips, top.look().rolled_chips, top.look().power_w) == (144, 144, 34_000.0)
    top.describe_hosts((2, 3), relay_boot=BOOT)
    assert (top.look().chips, top.look().rolled_chips, top.look().power_w) == (144, 80, 14_000.0)
    for name in range(4):
        topic = build_topic("demo", TopicClass.NODE, f"uc1/us-0001/trn2u-1-{name}")
        top.monitor.apply([Envelope(topic, b"")])
    assert (top.look().chips, top.look().rolled_chips, top.look().power_w) == (144, 144, 34_000.0)


def test_frames_are_counted_and_old_ones_left_out() -> None:
    """Duplicate, undescribed and late frames are counted and add up."""
    top = framed_top((1.0, 2.0, 3.0))
    top.seq = 0
    top.frame((9.0, 9.0, 9.0))
    top.seq = 3
    seen = top.show((4.0, 5.0, 6.0))
    assert (seen.messages, seen.duplicates, seen.lost, seen.power_w) == (2, 1, 2, 15.0)
    top.boot = "unknown"
    top.frame((9.0, 9.0, 9.0))
    top.describe("next", "relay-2")
    top.frame((7.0, 8.0, 9.0))
    top.boot = BOOT
    top.seq = 4
    top.frame((9.0, 9.0, 9.0))
    counts = top.monitor.counts
    assert (counts.messages, counts.undescribed, counts.late, top.look().power_w) == (3, 1, 1, 24.0)
    assert top.monitor.counts.unaccounted(top.monitor.ingest.pending) == 0


def test_frames_count_after_the_counts_began_again() -> None:
    """A replay sets new counts after a keyframe."""
    top = framed_top((1.0, 2.0, 3.0))
    top.monitor.ingest.counts = PipelineCounts()
    top.frame((4.0, 5.0, 6.0))
    counts = top.monitor.counts
    assert (counts.read, counts.messages, counts.unaccounted(0)) == (1, 1, 0)


async def test_a_snapshot_keeps_its_roll_ups() -> None:
    top = framed_top()
    snapshot = PackedSnapshot(top.monitor)
    await top.clock.advance(1.0)
    top.frame((1.0, 1.0, 1.0))
    assert top.look().power_w == 3.0
    top.monitor.restore(snapshot.unpack())
    assert top.look().power_w == 34_000.0


def test_a_reservation_of_an_ultraserver_counts_all_of_its_instances() -> None:
    """A row counts for all instances of its UltraServer."""
    top = framed_top()
    envelope = Feed([]).reservation("cb-1", "uc1/us-0001", instances=4)
    top.monitor.apply([envelope])
    top.look()
    (seen,) = top.monitor.reservations.table()
    assert (seen.used, seen.unknown) == (4, 0)


def test_the_row_of_an_ultraserver_is_no_chip() -> None:
    """A row of an UltraServer is neither in the chip view nor in minutes."""
    top = framed_top()
    top.look()
    store = top.monitor.store
    assert [chip_at(store.layout, path) for path in ("", "uc1", *ROWS)] == [None] * 5
    minutes = Minutes()
    for _ in range(2):
        top.show()
        minutes.take(store, now_s=1.0, speed=1.0, job_of=store.job_of, jobs=())
    assert minutes.samples == 0


def test_an_instance_of_an_ultraserver_that_another_block_has_is_not_counted_twice() -> None:
    top = Top()
    row = RollupRow(path=f"{ROWS[1]}/trn2u-1-1", type="trn2u.48xlarge", instances=1)
    path = "uc1/cell-b/0000"
    top.take(
        TopicClass.NODE,
        path,
        RollupDescriptor(
            path=path,
            publisher="relay-2",
            boot="other",
            period_s=1.0,
            cell="cell-b",
            rows=(row,),
            clock=ClockSpec(epoch="2026-01-05T00:00:00Z"),
            origin="neuron",
        ),
    )
    assert (top.look().chips, top.look().instances) == (144, 9)


def test_a_frame_of_other_rows_is_never_taken_for_the_rows_of_before() -> None:
    """A frame with changed rows is not applied to the former rows.

    A relay publishes them before they are in the layout.
    """
    for changed in (
        {"uc1/us-0002": 3_000.0},
        {"uc1/us-0000": 1_000.0, "uc1/us-0001": 2_000.0, "uc1/us-0002": 3_000.0},
    ):
        top = framed_top()
        top.look()
        top.change_rows(changed)
        rolled = top.monitor.store.rolled
        index = top.monitor.store.layout.instance_index
        power_w = dict(
            zip(rolled.numbers.tolist(), rolled.parts("power_w")[0].tolist(), strict=True)
        )
        assert power_w[index["uc1/us-0002"]] == 3_000.0
        assert power_w[index["uc1/us-0001"]] == changed.get("uc1/us-0001", 20_000.0)
        seen = top.look()
        assert (seen.undecodable, seen.live_chips) == (0, 64 * len(changed))
        assert top.monitor.rollups.value("power_w", Level.ULTRASERVER).tolist() == list(
            changed.values()
        )


def test_other_metrics_of_the_same_rows_take_effect() -> None:
    """Columns of another relay release are read by name, not by former position."""
    top = Top()
    top.change_rows({"uc1/us-0001": 1_000.0})
    top.look()
    top.change_rows({"uc1/us-0001": 2_000.0}, totals=("temperature_c", "power_w"))
    seen = top.look()
    assert (seen.undecodable, seen.power_w) == (0, 2_000.0)
    assert top.monitor.rollups.covered("power_w", Level.INSTANCE).tolist() == [64]


def block(
    path: str, relay: str, rows: dict[str, int], kind: str = "trn2u.48xlarge"
) -> RollupDescriptor:
    """Return a relay descriptor of another cell, with rows and their instances."""
    return RollupDescriptor(
        path=path,
        publisher=relay,
        boot=f"boot-{relay}",
        period_s=1.0,
        cell=path.split("/")[1],
        rows=tuple(RollupRow(path=row, type=kind, instances=count) for row, count in rows.items()),
        clock=ClockSpec(epoch="2026-01-05T00:00:00Z"),
        origin="neuron",
    )


def test_chips_take_a_row_s_place_in_a_block_of_ultraservers_alone() -> None:
    """A partly described UltraServer is not shown as chips; a whole one is shown once."""
    top = Top()
    top.change_rows({"uc1/us-0001": 1_000.0, "uc1/us-0002": 2_000.0})
    assert (top.look().chips, top.look().rolled_chips) == (128, 128)
    top.describe_hosts((0, 1), relay_boot=BOOT)
    assert (top.look().chips, top.look().rolled_chips, top.look().power_w) == (128, 128, 3_000.0)
    top.describe_hosts((2, 3), relay_boot=BOOT)
    assert (top.look().chips, top.look().rolled_chips, top.look().power_w) == (128, 64, 2_000.0)


@pytest.mark.parametrize("beside", [(), ("uc1/standalone/trn2-1",)])
def test_of_two_blocks_with_the_same_row_the_first_has_it(beside: tuple[str, ...]) -> None:
    """A row in two blocks has the first one's size and figures, and counts once.

    A cell may have two names, or somebody makes one up.
    """
    top = Top()
    top.change_rows({"uc1/us-0001": 1_000.0, "uc1/us-0002": 2_000.0})
    rows = {"uc1/us-0001": 4, **dict.fromkeys(beside, 1)}
    top.take(TopicClass.NODE, OTHER_PATH, block(OTHER_PATH, "relay-2", rows))
    seen = top.look()
    assert (seen.chips, seen.power_w) == (128 + 16 * len(beside), 3_000.0)
    smaller = block("uc1/cell-c/0000", "relay-3", {"uc1/us-0002": 2, **dict.fromkeys(beside, 1)})
    top.take(TopicClass.NODE, smaller.path, smaller)
    seen = top.look()
    assert (seen.chips, seen.power_w, seen.internal_errors) == (128 + 16 * len(beside), 3_000.0, 0)
    assert len(top.monitor.store.rolled) == 2 + len(beside)


def test_an_instance_that_is_described_has_no_row_beside_it() -> None:
    """A standalone one under a lease: its chips are shown, and its row waits."""
    top = framed_top()
    path = ROWS[0]
    top.take(
        TopicClass.NODE,
        path,
        Descriptor(
            path=path,
            publisher="host",
            boot="h",
            period_s=1.0,
            clock=ClockSpec(epoch="2026-01-05T00:00:00Z"),
            instances=(InstanceSpec(path=path, type="trn2.48xlarge"),),
            columns=(),
        ),
    )
    assert (top.look().chips, top.look().rolled_chips, top.look().power_w) == (144, 128, 30_000.0)
    top.monitor.apply([Envelope(build_topic("demo", TopicClass.NODE, path), b"")])
    assert (top.look().rolled_chips, top.look().power_w) == (144, 34_000.0)


def test_a_frame_that_came_before_its_layout_counts_for_that_descriptor_alone() -> None:
    """A pending frame is dropped if its descriptor changed before the layout."""
    top = framed_top()
    top.look()
    top.change_rows({"uc1/us-0002": 3_000.0})
    top.describe(top.boot)
    assert (top.look().chips, top.look().power_w) == (144, None)
    top.seq = 9
    top.frame((1.0, 2.0, 3.0))
    assert top.look().power_w == 6.0
    top.change_rows({"uc1/us-0001": 7_000.0})
    assert top.look().power_w == 7_000.0
    top.monitor.apply([Envelope(build_topic("demo", TopicClass.NODE, PATH), b"")])
    assert top.look().chips == 0
    top.take(TopicClass.NODE, PATH, block(PATH, "relay-1", {"uc1/us-0001": 4}))
    assert (top.look().chips, top.look().power_w) == (64, None)


async def test_a_relay_whose_new_rows_wait_for_a_layout_is_heard() -> None:
    """A relay with frames for rows not in the layout yet counts as heard.

    Chips described beside them stay observed.
    """
    top = Top()
    top.change_rows({"uc1/us-0001": 1_000.0})
    top.describe_hosts((0, 1, 2, 3))
    top.look()
    rolled = top.monitor.store.rolled
    instances = 4
    await top.clock.advance(5.0)
    top.change_rows({"uc1/us-0001": 1_000.0, "uc1/us-0002": 2_000.0})
    now_s = top.clock.monotonic_s()
    every = np.ones(instances, np.bool_)
    unseen = rolled.observe(np.full(instances, now_s), every, ~every, now_s, np.ones(3, np.bool_))
    assert unseen.tolist() == []
    await top.clock.advance(5.0)
    now_s = top.clock.monotonic_s()
    unseen = rolled.observe(np.full(instances, now_s), every, ~every, now_s, np.ones(3, np.bool_))
    assert unseen.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("is_row_first", [True, False])
@pytest.mark.parametrize("relay", ["", "offline", "online"])
@pytest.mark.parametrize("instances", [1, 3, 4, 63])
async def test_chips_with_a_descriptor_of_their_own_are_never_out_of_sight(
    relay: Literal["", "online", "offline"], instances: int, *, is_row_first: bool
) -> None:
    """Chips with their own descriptor are live or silent, whatever a row reports.

    The order of arrival does not matter.
    """
    hosts = Feed([(f"uc1/us-0001/trn2u-1-{name}", "trn2u.48xlarge") for name in range(3)])
    hosts.monitor = Monitor(SilentSource(), "demo", clock=hosts.clock, rules=load_rules(()))
    row = "uc1/us-0001" if instances > 1 else hosts.layout.instances[2]
    made = block("uc1/evil/0000", "relay-9", {row: instances})
    messages = [
        message_envelope(build_topic("demo", TopicClass.NODE, made.path), made, retain=True)
    ]
    if relay:
        presence = WatchMessage(
            client="relay-9", state=relay, boot=made.boot, role="relay", cell="evil", hears=True
        )
        topic = build_topic("demo", TopicClass.PUBLISHER, "evil/relay-9")
        messages.append(message_envelope(topic, presence, retain=True))
    if is_row_first:
        hosts.monitor.apply(messages)
        hosts.monitor.compute()
    hosts.monitor.apply(hosts.announcements())
    hosts.tick()
    if not is_row_first:
        hosts.monitor.apply(messages)
    states = set()
    for second in range(12):
        await hosts.clock.advance(1.0)
        hosts.tick(list(hosts.layout.instances[:2]) if second > 4 else None)
        if second == 4:
            rest = 16 * (instances - 3) if relay and instances > 3 else 0
            seen = hosts.monitor.summary()
            assert (seen.live_chips, seen.unobserved_chips, seen.chips) == (48, rest, 48 + rest)
        if second == 8:
            # Descriptors are repeated, and the same is true in this order.
            hosts.monitor.apply([*hosts.announcements(), *messages])
        states |= set(hosts.monitor.store.chip_state[-48:].tolist())
    seen = hosts.monitor.summary()
    assert (seen.live_chips, seen.stale_chips, seen.internal_errors) == (32, 16, 0)
    assert states == {Freshness.LIVE, Freshness.STALE}
    assert "instance-silent" in {each.name for each in hosts.monitor.alerts.active()}


def test_a_row_counts_once_its_relay_has_announced_itself() -> None:
    """A row exists only with its relay's presence."""
    top = framed_top()
    assert top.look().chips == 144
    presence = build_topic("demo", TopicClass.PUBLISHER, "cell-a/relay-1")
    top.monitor.apply([Envelope(presence, b"", retain=True)])
    assert (top.look().chips, top.monitor.store.rolled.blocks) == (0, 0)
    online = WatchMessage(client="relay-1", state="online", boot=BOOT, role="relay", cell="cell-a")
    top.take(TopicClass.PUBLISHER, "cell-a/relay-1", online)
    top.look()
    top.frame(POWER_W)
    assert (top.look().live_chips, top.look().power_w) == (144, 34_000.0)


def test_the_rest_of_an_ultraserver_is_not_observed_beside_hosts_that_publish_here() -> None:
    """Beside hosts with own telemetry, the rest of an UltraServer is not observed.

    The row's figures cannot be split. It returns when the hosts leave.
    """
    top = framed_top()
    top.describe_hosts((0, 1))
    top.look()
    layout = top.monitor.store.layout
    node = layout.find("uc1/us-0001")
    assert node is not None
    assert [layout.instances[number] for number in layout.children(node)] == [
        "uc1/us-0001/trn2u-1-0",
        "uc1/us-0001/trn2u-1-1",
    ]
    seen = top.show()
    assert (seen.chips, seen.rolled_chips, seen.power_w) == (144, 112, 14_000.0)
    for name in (0, 1):
        topic = build_topic("demo", TopicClass.NODE, f"uc1/us-0001/trn2u-1-{name}")
        top.monitor.apply([Envelope(topic, b"")])
    assert (top.look().rolled_chips, top.look().power_w) == (144, 34_000.0)


def handler_of(ingest: Ingest, topic_class: TopicClass) -> Callable[[str, bytes], None]:
    """Return a function to handle payloads of a class by path."""

    def handle(path: str, payload: bytes) -> None:
        MESSAGE_HANDLERS[topic_class](ingest, path, Envelope("any", payload, retain=True), 0.0)

    return handle


def job(name: str, *places: str) -> bytes:
    """Return the payload of a job's message."""
    return encode_message(
        JobMessage(job=name, kind="training", state="running", ts="2026-01-05T00:00:00Z", on=places)
    )


def test_every_class_but_telemetry_has_a_handler() -> None:
    assert set(TopicClass) - {TopicClass.TELEMETRY, TopicClass.ROLLUP} == set(MESSAGE_HANDLERS)
    assert {
        each for each, handler in MESSAGE_HANDLERS.items() if isinstance(handler, RetainedHandler)
    } < RETAINED


def test_a_monitor_subscribes_to_what_it_handles() -> None:
    """A monitor subscribes to every class except commands, replies and backlog.

    The first two are between clients and simulators, and backlog is for recorders and history.
    """
    subscribed = [each for each, _ in SUBSCRIPTIONS]
    others = {TopicClass.COMMAND, TopicClass.REPLY, TopicClass.BACKLOG}
    assert sorted(subscribed) == sorted(set(TopicClass) - others)
    assert subscribed[-1] is TopicClass.TELEMETRY
    assert (*SUBSCRIPTIONS, (TopicClass.BACKLOG, 1)) == HISTORY_SUBSCRIPTIONS


def test_backlog_changes_nothing_that_is_live() -> None:
    """As in a recording that is replayed: no value, no lag, no late or lost message."""
    feed = Feed([(PATH, "trn2u.48xlarge")], period_s=1.0)
    feed.describe()
    old = [
        each._replace(topic=each.topic.replace("/telemetry/", "/backlog/"))
        for each in feed.telemetry()
    ]
    feed.set("power_w", 300.0)
    feed.monitor.apply(feed.telemetry())
    monitor = feed.monitor
    power_w = monitor.store.columns["power_w"].copy()
    counts = monitor.counts.copy()
    monitor.apply(old)
    assert (monitor.store.columns["power_w"] == power_w).all()
    assert monitor.counts.others == counts.others + len(old)
    assert (monitor.counts.late, monitor.counts.lost) == (counts.late, counts.lost)


def test_a_rejected_job_leaves_what_stood_there() -> None:
    """A rejected job changes nothing; a cleared one makes room.

    Rejected are a foreign name, garbage, and jobs or places beyond the limit.
    """
    ingest = Ingest("demo", limits=Limits(jobs=2, places=3))
    handle = handler_of(ingest, TopicClass.JOB)
    handle("a", job("a", "uc1"))
    handle("b", job("b", "uc1"))
    before = dict(ingest.jobs)
    for name, payload, error, text in (
        ("a", job("b", "uc2"), MisplacedError, "the job's name is not its topic's"),
        ("c", job("c", "uc1"), RejectedError, "more than 2 jobs"),
        ("a", job("a", "uc1", "uc2", "uc3"), RejectedError, "jobs name over 3 places"),
        ("a", b"{", WireError, "JobMessage is not JSON"),
    ):
        with pytest.raises(error, match=text):
            handle(name, payload)
        assert ingest.jobs == before
    # A job that moves gives its former places back.
    handle("a", job("a", "uc1", "uc2"))
    handle("b", b"")
    handle("c", job("c", "uc3"))
    assert list(ingest.jobs) == ["a", "c"]


def test_publishers_beyond_the_limit_are_rejected_and_a_watch_is_none() -> None:
    """Publishers beyond the limit are rejected; known boots and watches do not count."""
    ingest = Ingest("demo", limits=Limits(publishers=1))
    handle = handler_of(ingest, TopicClass.PUBLISHER)

    def say(
        client: str,
        state: Literal["online", "offline"],
        role: Literal["telemetry", "watch"] = "telemetry",
    ) -> None:
        handle(
            client,
            encode_message(PublisherMessage(client=client, state=state, boot="1", role=role)),
        )

    say("w", "online", "watch")
    assert ingest.publishers.clients() == {}
    say("a", "online")
    with pytest.raises(RejectedError, match="more than 1 publishers"):
        say("b", "online")
    say("a", "offline")
    assert ingest.publishers.clients() == {"a": False}


class NoteMessage(Message, frozen=True, kw_only=True):
    """A made-up kind of retained message."""

    id: str
    text: str


def test_a_retained_class_is_a_row_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """A class without its own collection is stored, replaced, limited and cleared."""
    row = RetainedHandler(NoteMessage, "note", "id", most=lambda _limits: 2)
    monkeypatch.setitem(messages.MESSAGE_HANDLERS, TopicClass.COMMAND, row)
    ingest = Ingest("demo")

    def note(name: str, payload: bytes) -> None:
        ingest.apply(
            [Envelope(build_topic("demo", TopicClass.COMMAND, name), payload, retain=True)], 0.0, 0
        )

    for name, text in (("a", "one"), ("b", "two"), ("a", "three"), ("c", "four")):
        note(name, encode_message(NoteMessage(id=name, text=text)))
    kept = ingest.retained[NoteMessage]
    assert {name: message.text for name, message in kept.by_key.items()} == {
        "a": "three",
        "b": "two",
    }
    assert (ingest.counts.rejected, kept.revision) == (1, 3)
    note("b", encode_message(NoteMessage(id="a", text="misplaced")))
    note("a", b"")
    note("a", b"")
    assert (list(kept.by_key), ingest.counts.misplaced, kept.revision) == (["b"], 1, 4)
