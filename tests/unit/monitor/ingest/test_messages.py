"""Message handlers: a rejected message changes nothing, a new retained class is one row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest

from trnfleet.errors import WireError
from trnfleet.monitor.ingest import messages
from trnfleet.monitor.ingest.ingest import Ingest
from trnfleet.monitor.ingest.messages import MESSAGE_HANDLERS, RetainedHandler
from trnfleet.monitor.ingest.rejects import MisplacedError, RejectedError
from trnfleet.wire.limits import Limits
from trnfleet.wire.messages import JobMessage, Message, PublisherMessage, encode_message
from trnfleet.wire.ports import Envelope
from trnfleet.wire.topics import RETAINED, SUBSCRIPTIONS, TopicClass, build_topic

if TYPE_CHECKING:
    from collections.abc import Callable


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
    """A monitor subscribes to every class except commands and replies.

    Those are only between clients and simulators.
    """
    subscribed = [each for each, _ in SUBSCRIPTIONS]
    assert sorted(subscribed) == sorted(set(TopicClass) - {TopicClass.COMMAND, TopicClass.REPLY})
    assert subscribed[-1] is TopicClass.TELEMETRY


def test_a_rejected_job_leaves_what_stood_there() -> None:
    """A rejected job changes nothing; a cleared one makes room.

    Rejected are a foreign name, garbage, and jobs or places beyond the limit.
    """
    ingest = Ingest("demo", limits=Limits(jobs=2, job_places=3))
    handle = handler_of(ingest, TopicClass.JOB)
    handle("a", job("a", "uc1"))
    handle("b", job("b", "uc1"))
    before = dict(ingest.jobs)
    for name, payload, error, text in (
        ("a", job("b", "uc2"), MisplacedError, "the job's name is not its topic's"),
        ("c", job("c", "uc1"), RejectedError, "more than 2 jobs"),
        ("a", job("a", "uc1", "uc2", "uc3"), RejectedError, "jobs name over 3 places"),
        ("a", b"{", WireError, "Invalid JSON"),
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


class NoteMessage(Message):
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
