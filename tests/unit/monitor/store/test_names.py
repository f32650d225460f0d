"""Display names of jobs and instances."""

from __future__ import annotations

from support.monitor.feed import DEMO, Feed

from trnfleet.tui.bars.breadcrumbs import crumbs
from trnfleet.tui.fleet.jobs import JobPlan, row
from trnfleet.tui.widgets.cells import text_of, width_of
from trnfleet.wire.messages import (
    ClaimMessage,
    ClaimSpec,
    InstanceSpec,
    JobMessage,
    encode_message,
    message_envelope,
)
from trnfleet.wire.topics import TopicClass, build_topic

HOST = "uc1/standalone/trn2-0003"
NODE = "ip-10-0-1-7.ec2.internal"


def named_feed(job_name: str = "ns/llama3.1-8b") -> Feed:
    """Return a fleet whose job and instance have display names."""
    feed = Feed(DEMO)
    feed.jobs = {"tune": (HOST,)}
    feed.display_names = {"tune": job_name, HOST: NODE}
    feed.monitor.apply(feed.announcements())
    feed.monitor.compute()
    return feed


def test_names_beside_segments() -> None:
    """Places and jobs are shown by their display names; a cleared job's name is gone."""
    ingest = named_feed().monitor.ingest
    assert ingest.names.job("tune") == "ns/llama3.1-8b"
    assert ingest.names.address(f"{HOST}/chip05:east") == f"uc1/standalone/{NODE}/chip05:east"
    assert NODE in text_of(crumbs(f"{HOST}/chip05", 90, shown=ingest.names))
    ingest.job_table.remove("tune")
    ingest.descriptors.remove(next(iter(ingest.descriptors)).path)
    assert not ingest.names.jobs


def test_a_name_of_several_instances_has_the_segment_behind_it() -> None:
    """Instances of one Auto Scaling group have one name."""
    feed = Feed(DEMO)
    twins = feed.layout.instances[:2]
    feed.display_names = dict.fromkeys(twins, "worker")
    feed.monitor.apply(feed.announcements())
    names = feed.monitor.ingest.names
    assert [names.segment(path) for path in twins] == [
        f"worker {path.rpartition('/')[2]}" for path in twins
    ]
    feed.monitor.ingest.descriptors.remove(twins[1])
    assert names.segment(twins[0]) == "worker"


def test_a_name_drives_no_terminal_and_is_measured_in_cells() -> None:
    """Control characters are escaped, and a wide name does not move the columns."""
    ingest = named_feed("訓練 \x1b[2J").monitor.ingest
    shown = ingest.names.job("tune")
    assert "\x1b" not in shown
    plan = JobPlan.arrange(80, 24)
    job = ingest.jobs["tune"]
    assert width_of(row(job, plan, name=shown)) == width_of(row(job, plan))


def test_a_message_without_one_is_as_before() -> None:
    """Nothing is added to messages without display names."""
    job = JobMessage(job="a", kind="training", state="running", ts="2026-01-05T00:00:00Z", on=())
    assert b"display_name" not in encode_message(job)
    assert not InstanceSpec(path=HOST, type="trn2.48xlarge").display_name


def test_claims_name_jobs_until_a_message_does() -> None:
    """A tag that is no segment is shown as it is."""
    feed = Feed(DEMO)
    feed.jobs = {}
    feed.monitor.apply(feed.announcements())
    feed.monitor.compute()
    descriptor = next(each for each in feed.monitor.ingest.descriptors if HOST in each.instances)
    spec = ClaimSpec(job="ns-a-b", display_name="ns/a.b", chips=(0, 1), source="process-tag")
    claims = ClaimMessage(
        path=HOST, boot=descriptor.boot, ts="2026-01-05T00:00:00Z", claims=(spec,)
    )
    topic = build_topic("demo", TopicClass.CLAIM, HOST)
    feed.monitor.apply([message_envelope(topic, claims, retain=True)])
    feed.monitor.compute()
    assert feed.monitor.ingest.names.job("ns-a-b") == "ns/a.b"
