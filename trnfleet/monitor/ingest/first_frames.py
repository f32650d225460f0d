"""The first frames of topics, applied together.

Tens of thousands arrive in one second when a monitor joins running hosts. A topic starts here with
its first frame, so that the frame is applied with others (`frame_rows.py`). If anything is
unexpected, nothing is changed and the frame is applied alone as usual, with all its checks.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from trnfleet.errors import WireError
from trnfleet.wire.ports import CONTENT_TYPE_JSON

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trnfleet.domain.layout import Layout
    from trnfleet.monitor.ingest.topic_state import TopicState
    from trnfleet.monitor.ingest.topics import Topics
    from trnfleet.wire.ports import Envelope


def begin_topics(
    batch: list[Envelope],
    part: Iterable[int],
    found: list[TopicState | None],
    topics: Topics,
    layout: Layout,
    telemetry: str,
) -> bool:
    """Start the topics of first frames.

    Return whether any has a table now.

    Args:
        batch: Messages.
        part: Places in it of messages whose topics have no table, or one of another form.
        found: The topic of each message, if known. New topics are added.
        topics: All topics.
        layout: The layout.
        telemetry: The common start of the fleet's telemetry topics.
    """
    fresh: list[TopicState] = []
    payloads: list[bytes] = []
    for number in part:
        topic = found[number]
        if topic is not None and (topic.frame_rows is not None or topic.tracker.last is not None):
            continue
        envelope = batch[number]
        if envelope.retain or envelope.content_type == CONTENT_TYPE_JSON:
            continue
        if topic is None and envelope.topic.startswith(telemetry):
            # What goes wrong here does so again, and is counted, where the message goes by itself.
            with contextlib.suppress(WireError):
                topic = found[number] = topics.begin(
                    envelope.topic, envelope.topic[len(telemetry) :], layout
                )
        if topic is not None and topic.frame_rows is None:
            topics.catch_up(topic, layout)
            fresh.append(topic)
            payloads.append(envelope.payload)
    if fresh:
        topics.begin_frame_rows(fresh, payloads)
    return any(topic.frame_rows is not None for topic in fresh)
