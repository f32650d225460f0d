"""Failing cells of the table, each with an explanatory note."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_NO_USERS = (
    "The fallback is for one machine: it listens on loopback, lets everybody in and knows no users."
    " Nothing is refused."
)
_FORGETS = (
    "It forgets what is retained at its end, silences and acknowledgements with it. Simulators"
    " announce descriptors, jobs and reservations again when they are back, and a running `watch`"
    " restores silences and acknowledgements; in the case none runs."
)
_WITHHOLDS = (
    "It gives retained messages to no subscription with wildcards, and ids of silences and"
    " reservations cannot be known. `silence list` and `alerts` say that they are not known (exit"
    " status 1), the alert `retained-withheld` fires; monitors that were there when a silence was"
    " added have it, and reservations come when they next change."
)
LIMITS: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("fallback", "refused-write"): _NO_USERS,
        ("fallback", "kept"): _FORGETS,
        ("ActiveMQ", "kept"): _FORGETS,
        ("aedes", "kept"): _FORGETS,
        ("RabbitMQ", "late-reservations"): _WITHHOLDS,
        ("RabbitMQ", "silence"): _WITHHOLDS,
        ("RabbitMQ", "kept"): _WITHHOLDS,
    }
)
"""By the broker's name and the case's."""
