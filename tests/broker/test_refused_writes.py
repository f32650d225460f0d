"""Messages that a real Mosquitto refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.processes.waiting import running

from trnfleet.transport.mqtt import MqttPublisher
from trnfleet.wire.ports import Envelope, PublishResult, RefusedMessage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.processes.mosquitto import MosquittoProcess

pytestmark = pytest.mark.broker


async def test_access_list_refuses_with_its_reason(
    mosquitto_with: Callable[..., MosquittoProcess], tmp_path: Path
) -> None:
    """In MQTT 5 a refused message is told apart from one that was taken; in 3.1.1 the broker does not say."""
    lists = tmp_path / "acl"
    lists.write_text("topic write open/#\n", encoding="utf-8")
    lists.chmod(0o600)
    broker = mosquitto_with(f"acl_file {lists}")
    batch = [Envelope(topic, b"1", 1, retain=True) for topic in ("open/a", "closed/a", "closed/b", "open/b")]
    five, older = (
        MqttPublisher(broker.url, client_id=f"p{protocol}", protocol=protocol) for protocol in ("5", "3.1.1")
    )
    async with running(five.run(), older.run()):
        await five.wait_connected(5)
        await older.wait_connected(5)
        assert await five.publish(batch) == PublishResult(
            2, 2, 2, "the broker refuses closed/a: not authorised"
        )
        assert await older.publish(batch) == PublishResult(4)
    assert (five.status.sent, five.status.refused) == (2, 2)
    assert five.status.last_refusal == RefusedMessage("closed/b", "not authorised")
