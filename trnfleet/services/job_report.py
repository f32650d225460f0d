"""One retained message about a job, published or cleared, for scripts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from trnfleet.errors import BrokerError
from trnfleet.services.publishing import cleared
from trnfleet.services.read_back import ReadBackPublisher
from trnfleet.services.session import CONNECT_LIMIT_S, BrokerSession
from trnfleet.tasks import background
from trnfleet.wire.messages import JobMessage, message_envelope
from trnfleet.wire.topics import TopicClass, build_topic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trnfleet.wire.ports import Envelope


async def report_job(session: BrokerSession, fleet: str, message: JobMessage) -> None:
    """Publish a job's message.

    Raises:
        BrokerError: the broker cannot be reached, or refused it.
        NotConfirmedError: in MQTT 3.1.1, nothing shows that it was written.
    """
    topic = build_topic(fleet, TopicClass.JOB, message.job, session.root)
    await _publish(session, [message_envelope(topic, message, retain=True)])


async def clear_job(session: BrokerSession, fleet: str, job: str) -> None:
    """Clear a job's message; raises as `report_job`."""
    await _publish(session, cleared([build_topic(fleet, TopicClass.JOB, job, session.root)]))


async def _publish(session: BrokerSession, messages: Iterable[Envelope]) -> None:
    publisher = session.publisher(f"trnfleet-job-{os.urandom(6).hex()}")
    async with background(job=publisher.run()):
        await publisher.wait_connected(CONNECT_LIMIT_S)
        result = await ReadBackPublisher(session, publisher).publish(messages)
    if result.unsent:
        role = "; it needs the user of a role that writes job/" if result.refused else ""
        raise BrokerError(f"{session.url}: {result.error}{role}")
