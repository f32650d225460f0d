"""Schema versions of a recording's messages, and migrations from older ones.

A message is a CBOR map. A minor version only adds keys; older readers ignore them. A major version
changes existing keys, and `MIGRATIONS` has a function for every former one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from trnfleet.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

MAJOR = 1
MINOR = 2
"""1 adds the properties of MQTT 5, 2 how many messages were left out."""
SCHEMA = f"{MAJOR}.{MINOR}"
"""The schema of recordings of a broker."""
SCHEMA_OF_OWN = f"{MAJOR}.0"
"""Schema for recordings of our own messages. Their only property is the content type."""

MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""Migration of a message's map to the next major version, by major version."""

_VERSION = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})")


def read_major(text: str, where: str) -> int:
    """Return the major version of a readable schema.

    Args:
        text: The version, such as `1.0`.
        where: The file, for the message.

    Raises:
        ConfigError: it is no version, or this program is too old or too new for it.
    """
    match = _VERSION.fullmatch(text)
    if match is None:
        raise ConfigError(
            f"{where}: the recording's schema {text[:32]!r} is not a version such as {SCHEMA}"
        )
    major = int(match[1])
    if major > MAJOR:
        raise ConfigError(
            f"{where}: the recording has schema {text}, this trnfleet reads up to {MAJOR}; use a"
            " newer one"
        )
    missing = [number for number in range(major, MAJOR) if number not in MIGRATIONS]
    if missing:
        raise ConfigError(
            f"{where}: the recording has schema {text}, which this trnfleet no longer reads"
        )
    return major


def migrate(message: dict[str, Any], major: int) -> dict[str, Any]:
    """Return a message's map as the present version has it."""
    for number in range(major, MAJOR):
        message = MIGRATIONS[number](message)
    return message
