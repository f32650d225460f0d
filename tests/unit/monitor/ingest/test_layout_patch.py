"""Layouts with a few changes against the same made from all descriptors."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.monitor.feed import Feed, standalone, ultraservers
from support.monitor.state import unpacked

from trnfleet.domain.layout import Layout
from trnfleet.monitor.ingest import ingest as ingest_module
from trnfleet.monitor.ingest.layout_patch import find_patch
from trnfleet.monitor.pipeline.traffic import _COLUMNS, _RINGS
from trnfleet.monitor.slices import finish
from trnfleet.monitor.sources.clock_columns import _COLUMNS as CLOCK_COLUMNS
from trnfleet.wire.topics import TopicClass, build_topic

if TYPE_CHECKING:
    from trnfleet.monitor.ingest.ingest import Ingest
    from trnfleet.monitor.ingest.layout_patch import LayoutPatch
    from trnfleet.monitor.sources.descriptors import Descriptors
    from trnfleet.monitor.store.store import Store
    from trnfleet.wire.ports import Envelope

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
            finish(each.rebuilding(now_s, wall_ns, at_once=True))
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
        finish(fleet.ingest.rebuilding(0.0, 0, at_once=True))
        assert (patches.pop(), len(fleet.ingest.store.layout.instances)) == (is_patch, count)
    many = Feed(standalone(100))
    many.describe()
    assert patches == [False]
    assert len(many.monitor.store.layout.instances) == 100
    topic = build_topic("demo", TopicClass.NODE, many.layout.instances[50])
    gone = [each for each in many.announcements() if each.topic == topic]
    many.monitor.apply([each._replace(payload=b"") for each in gone])
    many.monitor.compute()
    assert patches == [False, True]
    assert len(many.monitor.store.layout.instances) == 99


def test_a_boot_that_is_forgotten_is_named_by_no_row() -> None:
    """A removed boot leaves no rows or topics, even if its number was reused."""
    feed = Feed(standalone(4))
    monitor, paths = feed.monitor, feed.layout.instances
    store, publishers = monitor.store, monitor.ingest.publishers

    def leave(path: str) -> None:
        monitor.apply([feed._state(TopicClass.NODE, path, b"")])
        monitor.compute()

    feed.publisher = "one"
    feed.boot = "b-1"
    monitor.apply(feed.announcements(list(paths))[1:])
    monitor.compute()
    feed.tick()
    (state,) = [each for each in monitor.ingest.topics.states.values() if each.path == paths[1]]
    frame = next(each for each in feed.telemetry() if each.topic == state.topic)
    monitor.ingest.topics.enter_frame_rows(state, frame.payload)
    leave(paths[3])
    feed.boot = "b-2"
    monitor.apply(feed.announcements([paths[0]])[1:])
    named = publishers.find("one", "b-2")
    assert named is not None
    assert store.publisher_of.tolist() == [named.number] * 3
    leave(paths[0])
    assert len(publishers) == 0
    assert store.publisher_of.tolist() == [-1, -1]
    assert state.frame_rows is not None
    assert state.frame_rows._columns["publisher"][state.number] == -1
    feed.boot = "b-1"
    monitor.apply([frame])
    assert store.publisher_of.tolist() == [-1, -1]


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
        monitor.apply(messages)
        monitor.compute()
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
    finish(fleet.ingest.rebuilding(0.0, 0, at_once=True))
    store.publisher_of[2] = -1

    fleet.ingest.apply(fleet.leave(PATHS[-1]), 0.0, 0)
    finish(fleet.ingest.rebuilding(0.0, 0, at_once=True))

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
    finish(ingest.rebuilding(0.0, 0, at_once=True))

    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    with monkeypatch.context() as broken:
        broken.setattr(ingest.topics, step, fail)
        ingest.apply(fleet.leave(PATHS[0]), 0.0, 0)
        with pytest.raises(RuntimeError, match="a bug"):
            finish(ingest.rebuilding(0.0, 0, at_once=True))
    assert patches.pop()
    ingest.apply(fleet.leave(PATHS[-1]), 0.0, 0)
    finish(ingest.rebuilding(0.0, 0, at_once=True))
    assert patches.pop() is False
    assert len(ingest.store.layout.instances) == len(PATHS) - 2
