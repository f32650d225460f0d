"""MQTT 5 readers.

A test's requirements apply to each of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trnfleet.transport.connection import ClientName

READERS: tuple[ClientName, ...] = ("mqtt5", "aiomqtt")
