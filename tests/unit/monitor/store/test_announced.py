"""Metrics that descriptors announce, and the rules that see them."""

from __future__ import annotations

import numpy as np
from support.monitor.feed import Feed, standalone
from support.monitor.top import POWER_W, Top

from trnfleet.domain.metrics import BY_NAME, METRICS
from trnfleet.monitor.alerting.coverage import Coverage, blind_text, read_coverage
from trnfleet.monitor.store.announced import Announced
from trnfleet.services.files.rules import load_rules
from trnfleet.wire.messages import (
    STANDARD_COLUMNS,
    ClaimMessage,
    ClaimSpec,
    ColumnSpec,
    message_envelope,
)
from trnfleet.wire.topics import TopicClass, build_topic

HOST = ("nc_util_pct", "hbm_used_bytes", "vcpu_util_pct")
COLUMNS = tuple(ColumnSpec.of(BY_NAME[name]) for name in HOST)


def mixed() -> Feed:
    """Return a fleet whose third host announces only `HOST`."""
    feed = Feed(standalone(3))
    first, second, third = feed.layout.instances
    feed.describe([first, second])
    feed.columns_described = COLUMNS
    feed.publisher = "host"
    feed.describe([third])
    feed.monitor.compute()
    return feed


def announced(feed: Feed) -> Announced:
    feed.monitor.compute()
    return feed.monitor.summary().announced


def test_a_fleet_counts_chips_by_what_their_source_announces() -> None:
    """Figures of several metrics need all of them."""
    counts = announced(mixed())

    assert counts.chips(["nc_util_pct"]) == 48
    assert counts.chips(["power_w"]) == 32
    assert counts.chips(["nc_util_pct", "power_w"]) == 32
    assert (counts.instances(HOST), counts.instances(["power_w"])) == (3, 2)
    assert counts.knows(["power_w"])


def test_as_many_kinds_of_sources_as_hosts_are_counted_at_once() -> None:
    """Each host announces other metrics; counts are still of all of them."""
    layout = Feed(standalone(2_000)).layout
    bits = np.arange(2_000, dtype=np.uint64)
    counts = Announced.read(bits, layout)

    first = METRICS[0].name
    assert len(counts.kinds) == 2_000
    assert (counts.instances([first]), counts.chips([first])) == (1_000, 16_000)
    assert counts.key == Announced.read(bits, layout).key


def test_columns_that_change_are_counted_again() -> None:
    """A new descriptor of the same host has its own columns."""
    feed = mixed()
    feed.columns_described = STANDARD_COLUMNS
    feed.revision += 1
    feed.describe([feed.layout.instances[2]])

    assert announced(feed).chips(["power_w"]) == 48


def test_rows_of_a_relay_announce_what_has_come_from_them() -> None:
    """All rows of a relay have the same columns; the chips covered tell which hosts lack some."""
    top = Top()
    top.frame(POWER_W)
    top.monitor.compute()
    counts = top.monitor.summary().announced

    assert counts.chips(["power_w"]) == 144
    assert not counts.knows(["temperature_c"])


def test_json_without_columns_may_have_every_metric() -> None:
    """Such messages name their values themselves."""
    feed = Feed(standalone(1), json=True)
    feed.columns_described = ()
    feed.describe()

    assert announced(feed).chips([metric.name for metric in METRICS]) == 16


def test_a_new_layout_keeps_what_is_announced() -> None:
    """Hosts that stay keep their columns when others come."""
    feed = mixed()
    more = Feed(standalone(1, cluster="uc2"))
    feed.receive(more.announcements())
    counts = announced(feed)

    assert (counts.chips(["power_w"]), counts.chips(HOST)) == (48, 64)


def coverage(feed: Feed) -> list[Coverage]:
    """Return the coverage of the shipped rules."""
    return read_coverage(load_rules(), feed.monitor.store, feed.monitor.ingest.job_table)


def test_coverage_of_rules_in_a_mixed_fleet() -> None:
    """A rule sees the instances that know its figures; the others are named."""
    feed = mixed()
    seen = {rule.rule: rule for rule in coverage(feed)}

    assert seen["overheated"] == Coverage("overheated", 2, 3, ("temperature_c",))
    assert seen["hbm-nearly-full"].instances == 3
    assert seen["publisher-offline"].instances == 3
    assert not seen["job-hung"].applies
    assert seen["job-hung"].lacks == ("job messages",)
    assert seen["job-no-progress"].lacks == ("tflops", "jobs")

    path = feed.layout.instances[0]
    claim = ClaimMessage(
        path=path,
        boot="boot-1",
        ts="2026-01-05T00:00:00Z",
        claims=(ClaimSpec(job="a", chips=(0,), source="job-mapping"),),
    )
    feed.receive(
        [message_envelope(build_topic("demo", TopicClass.CLAIM, path), claim, retain=True)]
    )
    seen = {rule.rule: rule for rule in coverage(feed)}
    assert [seen[name].instances for name in ("job-no-progress", "job-idle")] == [1, 1]
    assert (seen["job-slow"].applies, seen["job-slow"].lacks) == (False, ("job messages",))


def test_rules_that_see_nothing_are_counted() -> None:
    """With job messages and a simulator's columns all rules apply but those on hosts' metrics."""
    feed = Feed(standalone(1))
    feed.columns_described = COLUMNS
    feed.describe()
    feed.monitor.compute()
    blind = coverage(feed)
    assert blind_text(blind).endswith(f" of {len(load_rules())} rules do not apply here")

    feed = Feed(standalone(1))
    feed.jobs = {"train": feed.layout.instances}
    feed.describe()
    feed.monitor.compute()
    blind = coverage(feed)
    assert blind_text(blind) == f"2 of {len(load_rules())} rules do not apply here"


def test_nothing_is_covered_without_instances() -> None:
    """Before the first descriptor nothing is said of rules."""
    feed = Feed(standalone(1))
    assert coverage(feed) == []
    assert feed.monitor.summary().announced.knows(["power_w"])
