"""Traffic columns: once read they never change, and without messages they stay the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.monitor.hosts import Hosts

from trnfleet.monitor.pipeline.traffic import Presence, PublisherTraffic
from trnfleet.monitor.slices import finish

if TYPE_CHECKING:
    from collections.abc import Callable

COLUMNS = (
    "messages",
    "size_bytes",
    "lost",
    "late",
    "duplicates",
    "old",
    "refused",
    "restarts",
    "paths",
    "presence",
    "heard_s",
    "changed_s",
    "period_s",
    "former_s",
    "former_messages",
    "former_bytes",
    "second",
    "slot",
    "lag_sum_s",
    "lag_count",
)


def _go_on(traffic: PublisherTraffic) -> None:
    """Let three messages of each come until the next rates are due."""
    for at_s in (21.0, 22.0, 23.0):
        traffic.take([1, 2], [9, 9], [0.1, 0.1], [0.1, 0.1], at_s)
    traffic.marks(24.0)


CHANGES: dict[str, Callable[[PublisherTraffic], None]] = {
    "a message": lambda traffic: traffic.take([1], [100], [0.5], [0.5], 21.0),
    "a message of the same second": lambda traffic: traffic.take([2], [100], [0.5], [0.5], 10.0),
    "presence": lambda traffic: traffic.announce(1, Presence.OFFLINE, "", 5.0),
    "another boot": lambda traffic: traffic.announce(1, Presence.ONLINE, "boot-2", 5.0),
    "a period": lambda traffic: traffic.describe(2, 30.0, "boot-1"),
    "paths": lambda traffic: traffic.count_paths({"a": 2, "x": 1}),
    "what is missing": lambda traffic: traffic.miss(1, -1, 2, 3),
    "what many miss": lambda traffic: traffic.miss_many(np.array([1, 1, 2]), np.array([1, 2, 3])),
    "a refusal": lambda traffic: traffic.refuse(2, 5.0),
    "a delay": lambda traffic: traffic.delay(2),
    "another row": lambda traffic: traffic.announce(
        traffic.add("c"), Presence.ONLINE, "boot-1", 5.0
    ),
    "rows that go": lambda traffic: traffic.keep({"b"}),
    "another mark of rates": _go_on,
}


def _traffic() -> PublisherTraffic:
    """Return the traffic of two publishers after a message each."""
    traffic = PublisherTraffic()
    for name in ("a", "b"):
        traffic.announce(traffic.add(name), Presence.ONLINE, "boot-1", 1.0)
    traffic.take([1, 2], [10, 20], [0.25, 0.5], [0.25, 0.5], 10.0)
    traffic.marks(10.0)
    return traffic


@pytest.mark.parametrize("change", CHANGES)
def test_columns_that_were_read_stay_as_they_were(change: str) -> None:
    """Columns read before a change are the same after it.

    Those read after it equal columns of traffic never read before.
    """
    traffic = _traffic()
    never_read = _traffic()
    read = {name: traffic.column(name) for name in COLUMNS}
    before = {name: column.copy() for name, column in read.items()}
    names = traffic.client_names()
    boots = traffic.last_boots()

    CHANGES[change](traffic)
    CHANGES[change](never_read)

    for name in COLUMNS:
        assert np.array_equal(read[name], before[name], equal_nan=True), name
        assert np.array_equal(traffic.column(name), never_read.column(name), equal_nan=True), name
    assert (names, boots) == (("a", "b"), ("boot-1", "boot-1"))
    assert list(traffic.client_names()) == traffic.names[1:]
    assert list(traffic.last_boots()) == traffic.boots[1:]
    assert traffic.client_names().places == {name: at for at, name in enumerate(traffic.names[1:])}


def test_columns_in_which_nothing_changes_are_not_copied_again() -> None:
    """A message makes new copies only of its columns.

    Read columns are read-only.
    """
    traffic = _traffic()
    before = {name: traffic.column(name) for name in COLUMNS}
    traffic.take([1], [100], [0.5], [0.5], 11.0)
    same = {name for name in COLUMNS if traffic.column(name) is before[name]}
    assert same == {
        "lost",
        "late",
        "duplicates",
        "old",
        "refused",
        "restarts",
        "paths",
        "presence",
        "changed_s",
        "period_s",
        "former_s",
        "former_messages",
        "former_bytes",
    }
    with pytest.raises(ValueError, match="read-only"):
        before["lost"][1] = 1


async def test_the_pipeline_that_is_read_in_slices_is_of_the_first_one() -> None:
    """Messages applied between two slices count in no column, sum or state."""
    hosts = Hosts(3)
    for _ in range(5):
        await hosts.tick()
    monitor = hosts.feed.monitor
    clock = hosts.feed.clock
    await clock.advance(0.5)
    begun_s = clock.monotonic_s()
    work = monitor._reading_pipeline(at_once=True)
    next(work)
    counted = monitor.counts.messages

    await hosts.tick(without=("host-3",))
    made = finish(work)

    assert made.counts.messages == counted == int(made.publishers.messages.sum()) == 15
    assert made.at_s == begun_s
    assert made.publishers.quiet_s.tolist() == [0.5, 0.5, 0.5]
    later = hosts.health()
    assert later.counts.messages == int(later.publishers.messages.sum()) == 17
    assert later.publishers.quiet_s.tolist() == [0.0, 0.0, 1.5]
