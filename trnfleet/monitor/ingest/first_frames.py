"""The first frames of topics, of which tens of thousands come in one second where a monitor joins hosts that are there already.

A topic begins here with its first frame, so that this is applied with those of others (`frame_rows.py`). Where anything is not as
expected nothing has happened, and the frame goes the usual way by itself, with all that this finds.
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
    batch: list[Envelope], part: Iterable[int], found: list[TopicState | None], topics: Topics, layout: Layout, telemetry: str
) -> bool:  # fmt: skip  # one line of what is given
    """Begin the topics of first frames; return whether any has a table now.

    Args:
        batch: Messages.
        part: Places in it of messages whose topics have no table, or which have not its form.
        found: The topic of each message, as far as it is known; topics that begin are added.
        topics: All topics.
        layout: The layout.
        telemetry: What the topics of the fleet's telemetry begin with.
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
