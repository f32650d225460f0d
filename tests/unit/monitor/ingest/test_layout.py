"""Descriptors from the wire, and the resulting layout and rows."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.monitor.feed import (
    DEMO,
    Feed,
    described_feed,
    live_feed,
    ready,
    standalone,
    ultraservers,
)
from support.monitor.state import unpacked

from trnfleet.domain.layout import Layout
from trnfleet.domain.metrics import BY_NAME
from trnfleet.monitor.freshness import Freshness
from trnfleet.monitor.ingest import ingest as ingest_module
from trnfleet.monitor.ingest.layout import LayoutPatch, find_patch
from trnfleet.monitor.pipeline.traffic import _COLUMNS, _RINGS
from trnfleet.monitor.replay.packed_snapshot import PackedSnapshot
from trnfleet.monitor.slices import DONE, finish
from trnfleet.monitor.sources.clocks import _COLUMNS as CLOCK_COLUMNS
from trnfleet.wire.messages import STANDARD_COLUMNS
from trnfleet.wire.ports import Envelope
from trnfleet.wire.topics import TopicClass, build_topic

if TYPE_CHECKING:
    from trnfleet.monitor.ingest.ingest import Ingest
    from trnfleet.monitor.sources.descriptors import Descriptors
    from trnfleet.monitor.store.store import Store


PATHS = [
    path
    for cluster in ("a", "b")
    for path, _ in ultraservers(3, cluster) + standalone(3, cluster=cluster)
]


@pytest.fixture
def patches(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return whether each layout was made by a few changes."""
    found: list[bool] = []

    def noted(store: Store, descriptors: Descriptors) -> LayoutPatch | None:
        patch = find_patch(store, descriptors)
        found.append(patch is not None)
        return patch

    monkeypatch.setattr(ingest_module, "find_patch", noted)
    return found


class Fleet:
    """Hosts that join, leave, reboot and change type, with whole UltraServers.

    The UltraServers describe themselves.
    """

    def __init__(self) -> None:
        self.feed = Feed([(path, "trn2.48xlarge") for path in PATHS])
        self.feed.scatter()
        self.other = Feed([(path, "trn1.32xlarge") for path in PATHS])
        self.whole = Feed([(path, "trn2.48xlarge") for path in PATHS], grouped=True)
        self.ingest = self.feed.monitor.ingest
        self.boots = dict.fromkeys(PATHS, 0)
        self.present: dict[str, Feed] = {}
        """The describing feed of each path, a host's or an UltraServer's."""

    def _of(self, feed: Feed, path: str) -> Feed:
        feed.publisher, feed.boot = (
            f"p-{path.replace('/', '-')}",
            f"{path.rpartition('/')[2]}-{self.boots.get(path, 0)}",
        )
        return feed

    def join(self, path: str, feed: Feed, *, state: str = "online") -> list[Envelope]:
        """Return the messages describing a path."""
        self.present[path] = feed
        made = self._of(feed, path).announcements(None if feed.grouped else [path])
        return [
            feed.publisher_envelope(state),
            *(each for each in made if each.topic.endswith(f"/{path}")),
        ]

    def leave(self, path: str) -> list[Envelope]:
        """Return the messages that remove a path."""
        feed = self._of(self.present.pop(path), path)
        offline = feed.publisher_envelope("offline")
        return [offline, feed._state(TopicClass.NODE, path, b"")]

    def telemetry(self, chosen: list[str]) -> list[Envelope]:
        """Return a tick's telemetry of some feeds.

        One host publishes JSON, with a topic per chip.
        """
        found: list[Envelope] = []
        for path in chosen:
            feed = self.present[path]
            feed.seq, feed.json = self.feed.told, path == PATHS[7]
            made = self._of(feed, path).telemetry(None if feed.grouped else [path])
            found += [each for each in made if f"/{path}" in each.topic]
        self.feed.told += 1
        return found


def known(ingest: Ingest) -> dict[str, Any]:
    """Return an ingest's state, with names instead of numbers."""
    store = ingest.store
    publishers = ingest.publishers
    topics = ingest.topics
    clocks = {clock.row: key for key, clock in ingest.timebase._clocks.items()}
    boots = {-1: None} | {state.number: key for key, state in publishers._boots.items()}
    traffic = publishers.traffic
    online = publishers.online()
    assert sorted(boots)[1:] == sorted(
        {*range(len(boots) - 1 + len(publishers._free))} - {*publishers._free}
    )
    found: dict[str, Any] = {
        field.name: getattr(store.layout, field.name) for field in dataclasses.fields(Layout)
    }
    found |= store.columns
    names = (
        "chip_seen_s",
        "chip_ts_ns",
        "described_s",
        "instance_seen_s",
        "period_s",
        "links_of",
        "is_forwarded",
    )
    found |= {name: getattr(store, name) for name in names}
    found["publisher_of"] = [boots[number] for number in store.publisher_of.tolist()]
    found["online"] = online[store.publisher_of]
    found["boots"] = {
        key: (state.described, state.announced, state.online)
        for key, state in publishers._boots.items()
    }
    found["rooms"] = (
        publishers._room._by_owner,
        publishers._undescribed._by_owner,
        topics._room._by_owner,
    )
    found["nameless"] = set(publishers._nameless)
    found["clients"] = publishers._announced.keys(), publishers._online.keys()
    order = np.argsort(traffic.names)
    found["traffic"] = {
        name: traffic.column(name)[..., order].tolist() for name in (*_COLUMNS, *_RINGS)
    }
    found["traffic"]["names"] = sorted(traffic.names)
    columns = ingest.timebase.columns
    found["clocks"] = {
        key: {name: columns[name][row] for name in CLOCK_COLUMNS} for row, key in clocks.items()
    }
    for topic, state in topics.states.items():
        entered: list[int] = []
        if state.frame_rows is not None:
            rows = {
                name: int(column[state.number])
                for name, column in state.frame_rows._columns.items()
            }
            entered = [rows[name] for name in ("chip", "instance", "publisher", "clock", "row")]
        topics.catch_up(state, store.layout)
        own = [
            boots[state.publisher],
            traffic.names[state.row],
            clocks[state.clock],
            state.descriptor,
        ]
        found[topic] = *own, state.chips, state.instances
        if entered:
            assert isinstance(state.chips, slice)
            assert isinstance(state.instances, slice)
            firsts = [state.chips.start, state.instances.start]
            assert entered == [*firsts, state.publisher, state.clock, state.row]
    return found


def assert_same(one: Ingest, other: Ingest) -> None:
    """Raise AssertionError unless two know the same."""
    mine = known(one)
    theirs = known(other)
    assert mine.keys() == theirs.keys()
    for name, value in mine.items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(value, theirs[name], err_msg=name)
        else:
            assert (
                repr(value) == repr(theirs[name]) if "nan" in repr(value) else value == theirs[name]
            ), name


@pytest.mark.parametrize("seed", range(4))
async def test_a_layout_with_changes_is_the_one_from_nothing(
    seed: int, patches: list[bool]
) -> None:
    """A patched layout equals a rebuilt one after any joins, leaves, reboots and changes."""
    random = np.random.default_rng(seed)
    fleet = Fleet()
    ingest = fleet.ingest
    clock = fleet.feed.clock
    ultraserver_paths = ("a/us-0002", "b/us-0001")
    messages = [each for path in PATHS for each in fleet.join(path, fleet.feed)]
    for step in range(30):
        await clock.advance(1.0)
        for path in random.choice([*PATHS, *ultraserver_paths], 3, replace=False).tolist():
            if path in fleet.present:
                action = random.integers(4)
                if action < 2:
                    messages += fleet.leave(path)
                elif action == 2 and path in fleet.boots:
                    fleet.boots[path] += 1
                    messages += fleet.join(
                        path, fleet.present[path], state=str(random.choice(["online", "offline"]))
                    )
                continue
            below = path in ultraserver_paths
            for other in [*fleet.present]:
                # Who describes an instance in the place of another one takes that one's descriptor
                # away.
                if other.startswith(f"{path}/") or path.startswith(f"{other}/"):
                    messages += fleet.leave(other)
            host = fleet.other if random.random() < 0.3 else fleet.feed
            messages += fleet.join(path, fleet.whole if below else host)
        if step % 5 == 4:
            # Boots that nothing describes.
            fleet.feed.publisher = f"lone-{step}"
            fleet.feed.boot = "b"
            messages.append(fleet.feed.publisher_envelope("offline" if step % 2 else "online"))
        now_s = clock.monotonic_s()
        wall_ns = clock.wall_ns()
        ingest.apply(messages, now_s, wall_ns)
        twin = unpacked(ingest)
        assert twin.descriptors.changed.take() is not None
        for each in (ingest, twin):
            finish(each.rebuilding(now_s, wall_ns))
        messages = []
        telemetry = fleet.telemetry(
            [path for path in sorted(fleet.present) if random.random() < 0.85]
        )
        # The copy has no tables, and gets the rows of topics one by one.
        for each in (ingest, twin):
            each.apply(telemetry, now_s, wall_ns)
        assert (ingest.counts.lost, ingest.counts.undescribed) == (
            twin.counts.lost,
            twin.counts.undescribed,
        )
        assert_same(ingest, twin)
    assert patches.count(True) >= 25


def test_what_has_more_than_one_description_is_made_from_nothing(patches: list[bool]) -> None:
    """An instance with another descriptor stays when one is removed.

    Too many changes cause a rebuild.
    """
    fleet = Fleet()
    for messages, is_patch, count in (
        ([each for path in PATHS for each in fleet.join(path, fleet.feed)], True, len(PATHS)),
        (fleet.join("a/us-0001", fleet.whole), False, len(PATHS)),
        (fleet.leave("a/us-0001/trn2u-0001-1"), False, len(PATHS)),
        (fleet.leave("a/us-0001"), False, len(PATHS) - 1),
        (fleet.join("a/us-0001/trn2u-0001-1", fleet.feed), True, len(PATHS)),
    ):
        fleet.ingest.apply(messages, 0.0, 0)
        finish(fleet.ingest.rebuilding(0.0, 0))
        assert (patches.pop(), len(fleet.ingest.store.layout.instances)) == (is_patch, count)
    many = described_feed(standalone(100))
    assert patches == [False]
    assert len(many.monitor.store.layout.instances) == 100
    topic = build_topic("demo", TopicClass.NODE, many.layout.instances[50])
    gone = [each for each in many.announcements() if each.topic == topic]
    many.receive([each._replace(payload=b"") for each in gone])
    assert patches == [False, True]
    assert len(many.monitor.store.layout.instances) == 99


def test_a_boot_that_is_forgotten_is_named_by_no_row() -> None:
    """A removed boot leaves no rows or topics, even if its number was reused."""
    feed = Feed(standalone(4))
    monitor, paths = feed.monitor, feed.layout.instances
    store, publishers = monitor.store, monitor.ingest.publishers

    def leave(path: str) -> None:
        feed.receive([feed._state(TopicClass.NODE, path, b"")])

    feed.publisher = "one"
    feed.boot = "b-1"
    feed.receive(feed.announcements(list(paths))[1:])
    feed.tick()
    (state,) = [each for each in monitor.ingest.topics.states.values() if each.path == paths[1]]
    frame = next(each for each in feed.telemetry() if each.topic == state.topic)
    monitor.ingest.topics.enter_frame_rows(state, frame.payload)
    leave(paths[3])
    feed.boot = "b-2"
    monitor.apply(feed.announcements([paths[0]])[1:])
    named = publishers.find("one", "b-2")
    former = publishers.find("one", "b-1")
    assert named is not None
    assert former is not None
    assert store.publisher_of.tolist() == [named.number, former.number, former.number]
    leave(paths[0])
    assert publishers.find("one", "b-2") is None
    assert store.publisher_of.tolist() == [former.number] * 2
    assert state.frame_rows is not None
    assert state.frame_rows._columns["publisher"][state.number] == former.number
    feed.boot = "b-1"
    monitor.apply([frame])
    assert store.publisher_of.tolist() == [former.number] * 2


def test_rows_of_a_topic_may_be_parted(patches: list[bool]) -> None:
    """An instance inserted into a descriptor's rows splits them; removal joins them."""
    every = [path for path, _ in ultraservers(1)]
    between = every[2]
    wide = [*every[:2], every[3]]
    alone = Feed(ultraservers(1))
    feed = Feed([(path, "trn2u.48xlarge") for path in wide], grouped=True)
    feed.scatter()
    monitor = feed.monitor
    feed.describe()
    for _ in range(3):
        feed.tick()
    (state,) = monitor.ingest.topics.states.values()
    monitor.ingest.topics.enter_frame_rows(state, feed.telemetry()[0].payload)
    assert state.frame_rows is not None
    alone.publisher = "alone"
    descriptor = [each for each in alone.announcements([between]) if each.topic.endswith(between)]
    for messages, rows in (
        (descriptor, [0, 1, 3]),
        ([each._replace(payload=b"") for each in descriptor], [0, 1, 2]),
    ):
        feed.receive(messages)
        feed.set("power_w", 100.0 + len(monitor.store.layout.instances))
        feed.tick()
        assert np.arange(4)[state.instances].tolist() == rows
        chips = monitor.store.layout.chip_rows(np.array(rows))
        assert np.array_equal(monitor.store.columns["power_w"][chips], feed.columns["power_w"])
    assert all(patches)


def test_an_instance_without_a_publisher_gets_its_own_with_the_next_layout(
    patches: list[bool],
) -> None:
    """A described row without a publisher causes a rebuild and receives its publisher."""
    fleet = Fleet()
    store = fleet.ingest.store
    fleet.ingest.apply([each for path in PATHS for each in fleet.join(path, fleet.feed)], 0.0, 0)
    finish(fleet.ingest.rebuilding(0.0, 0))
    store.publisher_of[2] = -1

    fleet.ingest.apply(fleet.leave(PATHS[-1]), 0.0, 0)
    finish(fleet.ingest.rebuilding(0.0, 0))

    assert patches.pop() is False
    assert len(set(store.publisher_of.tolist())) == len(PATHS) - 1
    assert store.publisher_of.min() >= 0


@pytest.mark.parametrize("step", ["shift", "_keep_decoders"])
def test_a_layout_that_failed_midway_is_followed_by_one_from_nothing(
    step: str, patches: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed patch is followed by a full rebuild.

    Topics and others not updated yet would have rows of the former layout.
    """
    fleet = Fleet()
    ingest = fleet.ingest
    ingest.apply([each for path in PATHS for each in fleet.join(path, fleet.feed)], 0.0, 0)
    finish(ingest.rebuilding(0.0, 0))

    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    with monkeypatch.context() as broken:
        broken.setattr(ingest.topics, step, fail)
        ingest.apply(fleet.leave(PATHS[0]), 0.0, 0)
        with pytest.raises(RuntimeError, match="a bug"):
            finish(ingest.rebuilding(0.0, 0))
    assert patches.pop()
    ingest.apply(fleet.leave(PATHS[-1]), 0.0, 0)
    finish(ingest.rebuilding(0.0, 0))
    assert patches.pop() is False
    assert len(ingest.store.layout.instances) == len(PATHS) - 2


def test_hierarchy_stands_before_the_first_frame() -> None:
    """Descriptors alone draw the whole fleet, with values unknown and n/a."""
    feed = ready()
    store = feed.monitor.store
    assert store.layout.chips == 192
    assert store.count(Freshness.UNKNOWN) == 192
    assert np.isnan(store.values(BY_NAME["power_w"], slice(None))).all()


def test_a_grown_fleet_keeps_its_values() -> None:
    """In a grown fleet, old instances have their values and freshness at new rows."""
    feed = Feed(DEMO)
    feed.scatter()
    some = [path for path in feed.layout.instances if "us-0001" not in path]
    feed.describe(some)
    feed.tick(some)
    generation = feed.monitor.store.generation
    feed.describe()
    store = feed.monitor.store
    assert store.generation == generation + 1
    assert store.count(Freshness.LIVE) == 128
    rows = store.layout.find_instances("uc1/us-0002")
    assert rows is not None
    chips = slice(int(store.layout.chip_start[rows.start]), int(store.layout.chip_start[rows.stop]))
    assert np.array_equal(store.columns["power_w"][chips], feed.columns["power_w"][chips])
    feed.tick()
    assert store.count(Freshness.LIVE) == 192
    assert feed.monitor.counts.lost == 0


def test_a_removed_descriptor_removes_its_instances() -> None:
    """An empty retained descriptor removes its instances."""
    feed = live_feed()
    topic = build_topic("demo", TopicClass.NODE, "uc1/us-0001/trn2u-0001-0")
    feed.receive([Envelope(topic, b"", qos=1, retain=True)])
    assert feed.monitor.store.layout.chips == 176
    assert feed.monitor.store.count(Freshness.LIVE) == 176


def test_repeated_descriptors_change_nothing() -> None:
    """Descriptors repeated every minute cause no new layout."""
    feed = ready()
    generation = feed.monitor.store.generation
    feed.describe()
    assert feed.monitor.store.generation == generation


def test_a_former_publishers_descriptor_does_not_take_rows_offline() -> None:
    """Instances described twice belong to the live publisher, in either order."""
    for first, second in (("dead", "alive"), ("alive", "dead")):
        feed = Feed(DEMO)
        feed.scatter()
        for name in (first, second):
            feed.publisher = name
            feed.boot = f"boot-{name}"
            messages = feed.announcements()
            if name == "dead":
                messages[0] = feed.publisher_envelope("offline")
                # The dead one spoke for whole UltraServers, so its descriptors were not replaced.
                messages = [each for each in messages if "us-000" not in each.topic]
            feed.monitor.apply(messages)
        feed.monitor.compute()
        feed.publisher = "alive"
        feed.boot = "boot-alive"
        feed.describe()
        feed.tick()
        assert feed.monitor.store.count(Freshness.LIVE) == 192, first


async def test_what_never_comes_is_not_healthy() -> None:
    """Silent described chips become stale after three periods.

    If their publisher is offline, they become offline.
    """
    feed = ready()
    feed.tick(["uc1/us-0001/trn2u-0001-0"])
    assert feed.monitor.store.count(Freshness.UNKNOWN) == 176
    await feed.clock.advance(3.5)
    feed.tick(["uc1/us-0001/trn2u-0001-0"])
    assert feed.monitor.store.count(Freshness.UNKNOWN) == 0
    assert feed.monitor.store.count(Freshness.STALE) == 176
    silent = Feed(DEMO)
    messages = silent.announcements()
    messages[0] = silent.publisher_envelope("offline")
    silent.receive(messages)
    assert silent.monitor.store.count(Freshness.OFFLINE) == 192


def test_a_column_that_is_gone_is_not_available() -> None:
    """A metric that a new descriptor does not announce any more shows no former value."""
    feed = live_feed(json=True)
    feed.revision = 1
    feed.columns_described = tuple(
        column for column in STANDARD_COLUMNS if column.name != "power_w"
    )
    feed.describe()
    assert np.isnan(feed.monitor.store.values(BY_NAME["power_w"], slice(None))).all()
    assert not np.isnan(feed.monitor.store.values(BY_NAME["tflops"], slice(None))).any()


def test_the_narrower_descriptor_knows_better() -> None:
    """A block's other instance type does not override the instance's own descriptor."""
    feed = live_feed()
    wide = feed.announcements(["uc1/us-0001/trn2u-0001-0"])[1]
    payload = wide.payload.replace(
        b'"path":"uc1/us-0001/trn2u-0001-0"', b'"path":"uc1/block-0001"', 1
    )
    payload = payload.replace(b"trn2u.48xlarge", b"trn1.2xlarge").replace(
        b'"period_s":1.0', b'"period_s":86400.0'
    )
    feed.receive(
        [
            Envelope(
                build_topic("demo", TopicClass.NODE, "uc1/block-0001"), payload, qos=1, retain=True
            )
        ]
    )
    feed.tick()
    assert feed.monitor.store.layout.chips == 192
    assert feed.monitor.store.count(Freshness.LIVE) == 192
    assert set(feed.monitor.store.period_s) == {1.0}


def test_of_several_publishers_the_last_that_is_there_has_an_instance() -> None:
    """An instance belongs to its last online publisher, in any descriptor order.

    Offline publishers have it only if none is online.
    """
    for states, wanted in (
        (("online", "offline", "online", "offline"), 2),
        (("offline", "offline"), 0),
        (("offline", "online"), 1),
    ):
        feed = Feed(standalone(1))
        path = feed.layout.instances[0]
        cluster, _, _ = path.partition("/")
        for number, state in enumerate(states):
            feed.publisher, feed.boot = f"p{number}", f"b{number}"
            _, descriptor = feed.announcements()
            block = f"{cluster}/block-{number}"
            payload = descriptor.payload.replace(
                f'"path":"{path}"'.encode(), f'"path":"{block}"'.encode(), 1
            )
            feed.monitor.apply(
                [
                    feed.publisher_envelope(state),
                    Envelope(build_topic("demo", TopicClass.NODE, block), payload, 1, retain=True),
                ]
            )
        feed.monitor.compute()
        publisher = feed.monitor.ingest.publishers.names()[int(feed.monitor.store.publisher_of[0])]
        assert publisher == f"p{wanted}", states


def test_a_layout_in_slices_is_seen_as_a_whole() -> None:
    """Between slices the former layout is visible; a message completes the new one."""
    slices = 1
    while True:
        feed = Feed(ultraservers(2))
        later = Feed(standalone(3, cluster="uc0"))
        feed.scatter()
        feed.describe()
        feed.tick()
        ingest = feed.monitor.ingest
        store = feed.monitor.store
        before = store.columns["power_w"].tolist()
        ingest.apply(later.announcements(), 1.0, 0)
        work = ingest.rebuilding(1.0, 0)
        done = 0
        while done < slices and next(work, DONE) is not DONE:
            done += 1
            chips = store.layout.chips
            assert len(store.columns["power_w"]) == len(store.chip_state) == chips
            assert len(store.publisher_of) == len(store.layout.instances)
            assert store.columns["power_w"].tolist()[-128:] == before
            assert feed.monitor.ingest.publishers.online()[store.publisher_of].all()
        feed.scatter(2)
        ingest.apply(feed.telemetry(), 2.0, 0)
        assert not ingest.layout_work.is_going_on
        assert list(work) == []
        assert len(store.layout.instances) == 11
        assert store.columns["power_w"].tolist()[-128:] == feed.columns["power_w"].tolist()
        assert (ingest.counts.lost, ingest.counts.undescribed) == (0, 0)
        if done < slices:
            break
        slices += 3
    assert slices > 30


def test_telemetry_that_waits_for_a_layout_is_applied_before_what_comes_after_it() -> None:
    """A message during a rebuild completes it first, with pending telemetry in order."""
    feed = Feed(ultraservers(2))
    feed.scatter()
    ingest = feed.monitor.ingest
    ingest.apply(feed.announcements(), 1.0, 0)
    ingest.apply(feed.telemetry(), 1.0, 0)
    assert ingest.pending == 8
    work = ingest.rebuilding(1.0, 0)
    next(work)
    feed.scatter(2)
    ingest.apply(feed.telemetry(), 2.0, 0)
    assert (ingest.counts.messages, ingest.counts.late, ingest.pending) == (16, 0, 0)
    assert feed.monitor.store.columns["power_w"].tolist() == feed.columns["power_w"].tolist()


def test_who_was_overtaken_ends_no_work_of_others() -> None:
    """An overtaken rebuild does not end a later one."""
    feed = Feed(ultraservers(2))
    later = Feed(standalone(3, cluster="uc0"))
    ingest = feed.monitor.ingest
    ingest.apply(feed.announcements(), 1.0, 0)
    overtaken = ingest.rebuilding(1.0, 0)
    next(overtaken)
    ingest.apply(later.announcements(), 2.0, 0)
    work = ingest.rebuilding(2.0, 0)
    next(work)
    assert list(overtaken) == []
    assert ingest.layout_work.is_going_on
    assert list(work)
    assert len(feed.monitor.store.layout.instances) == 11


def test_a_copy_amid_the_slices_is_of_the_new_layout() -> None:
    """A copy during a rebuild has the new layout and is independent."""
    feed = Feed(ultraservers(2))
    feed.scatter()
    feed.monitor.ingest.apply(feed.announcements(), 1.0, 0)
    work = feed.monitor.ingest.rebuilding(1.0, 0)
    next(work)
    twin = PackedSnapshot(feed.monitor).unpack().ingest
    twin.apply(feed.telemetry(), 2.0, 0)
    assert len(twin.store.layout.instances) == 8
    assert twin.counts.messages == 8
    assert feed.monitor.counts.messages == 0
