"""What reads in MQTT 5: whatever a test asks of one of them holds for the other, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trnfleet.transport.connection import ClientName

READERS: tuple[ClientName, ...] = ("mqtt5", "aiomqtt")
