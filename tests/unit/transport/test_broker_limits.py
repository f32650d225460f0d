from __future__ import annotations

import pytest

from trnfleet.transport.broker_limits import BrokerLimits, publish_bytes
from trnfleet.wire.ports import Envelope


@pytest.mark.parametrize(
    ("remaining", "header"),
    [(127, 2), (128, 3), (16_383, 3), (16_384, 4), (2_097_151, 4), (2_097_152, 5)],
)
def test_the_header_grows_with_the_length(remaining: int, header: int) -> None:
    """A packet's length takes one byte up to 127, then two to four.

    Topics count in bytes, not in characters.
    """
    payload = bytes(remaining - 2 - 2 - 2 - 1)
    envelope = Envelope("ü", payload, 1)
    assert publish_bytes(envelope, 1) == header + remaining
    limits = BrokerLimits(packet_bytes=header + remaining)
    assert not limits.reason_against(envelope, 1)
    assert (
        limits.reason_against(envelope, 2)
        == f"a packet of {publish_bytes(envelope, 2):,} bytes, over the broker's limit of"
        f" {header + remaining:,}"
    )


def test_a_broker_that_states_nothing_takes_all() -> None:
    """MQTT 3.1.1 states no limits, and MQTT 5 only existing ones."""
    assert BrokerLimits.of(None) == BrokerLimits()
    assert not BrokerLimits().reason_against(Envelope("a", bytes(1_000), 1, retain=True), 0)
    assert "retained" in BrokerLimits(retains=False).reason_against(
        Envelope("a", b"", 1, retain=True), 1
    )


def test_a_message_without_acknowledgement_has_no_number() -> None:
    """QoS 0 saves two bytes.

    A broker without retained messages accepts unretained ones.
    """
    assert (
        publish_bytes(Envelope("a", bytes(10), 1), 0)
        == publish_bytes(Envelope("a", bytes(10), 0), 0) + 2
    )
    assert not BrokerLimits(retains=False).reason_against(Envelope("a", b"", 1), 1)
