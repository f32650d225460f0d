"""Statements that are refused: nothing of them is kept, and what stood there stays."""

from __future__ import annotations

from typing import Literal

import pytest

from trnfleet.errors import WireError
from trnfleet.monitor.ingest.messages import take_job, take_publisher
from trnfleet.monitor.ingest.rejects import MisplacedError, RejectedError
from trnfleet.monitor.sources.clocks import Timebase
from trnfleet.monitor.sources.publishers import Publishers
from trnfleet.monitor.store.jobs import Jobs
from trnfleet.wire.limits import Limits
from trnfleet.wire.messages import JobMessage, PublisherMessage, encode_message


def job(name: str, *places: str) -> bytes:
    """Return the payload of a job's message."""
    return encode_message(
        JobMessage(job=name, kind="training", state="running", ts="2026-01-05T00:00:00Z", on=places)
    )


def test_a_refused_job_leaves_what_stood_there() -> None:
    """Another's name, one job too many, a place too many and garbage change nothing; one that is cleared makes room."""
    jobs, limits = Jobs(), Limits(jobs=2, job_places=3)
    take_job(jobs, "a", job("a", "uc1"), limits)
    take_job(jobs, "b", job("b", "uc1"), limits)
    before = dict(jobs.by_name)
    for name, payload, error in (
        ("a", job("b", "uc2"), MisplacedError),
        ("c", job("c", "uc1"), RejectedError),
        ("a", job("a", "uc1", "uc2", "uc3"), RejectedError),
        ("a", b"{", WireError),
    ):
        with pytest.raises(error):
            take_job(jobs, name, payload, limits)
        assert jobs.by_name == before
    # A job that moves gives its former places back.
    take_job(jobs, "a", job("a", "uc1", "uc2"), limits)
    take_job(jobs, "b", b"", limits)
    take_job(jobs, "c", job("c", "uc3"), limits)
    assert list(jobs.by_name) == ["a", "c"]


def test_publishers_beyond_the_limit_are_rejected_and_a_watch_is_none() -> None:
    """Who publishes no telemetry takes no number; a start that is known is heard however many there are."""
    publishers, timebase, limits = Publishers(), Timebase(), Limits(publishers=1)

    def say(
        client: str, state: Literal["online", "offline"], role: Literal["telemetry", "watch"] = "telemetry"
    ) -> None:
        message = PublisherMessage(client=client, state=state, boot="1", role=role)
        take_publisher(publishers, timebase, client, encode_message(message), limits)

    say("w", "online", "watch")
    assert publishers.clients() == {}
    say("a", "online")
    with pytest.raises(RejectedError, match="more than 1 publishers"):
        say("b", "online")
    say("a", "offline")
    assert publishers.clients() == {"a": False}
