"""Topics: `{root}/v1/{fleet}/{class}/{path}`, built and parsed only here.

The class comes before the path, so that access lists and filters are short.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from trnfleet.domain.address import Level, are_segments, is_segment
from trnfleet.errors import WireError, nearest

DEFAULT_ROOT = "trnfleet"
VERSION = "v1"
MAX_SLASHES = 7
"""Limit of AWS IoT Core; the deepest topic of ours has exactly as many."""

FLEET_PATH = "fleet"
"""Path of a topic about the fleet as a whole."""


class TopicClass(enum.StrEnum):
    """Class of a topic's messages."""

    NODE = "node"
    TELEMETRY = "telemetry"
    EVENT = "event"
    JOB = "job"
    RESERVATION = "reservation"
    ALERT = "alert"
    ACK = "ack"
    SILENCE = "silence"
    PUBLISHER = "publisher"
    COMMAND = "command"
    ROLLUP = "rollup"
    REPLY = "reply"
    CLAIM = "claim"
    BACKLOG = "backlog"
    """Telemetry of an outage, sent late: for recorders and history, never for live readers."""


RETAINED = frozenset(
    {
        TopicClass.NODE,
        TopicClass.JOB,
        TopicClass.RESERVATION,
        TopicClass.ALERT,
        TopicClass.ACK,
        TopicClass.SILENCE,
        TopicClass.PUBLISHER,
        TopicClass.CLAIM,
    }
)
"""Classes with messages retained by the broker: valid until replaced or cleared."""

VALUES = frozenset({TopicClass.TELEMETRY, TopicClass.ROLLUP})
"""Classes with present values in a topic's newest message, not retained by the broker."""

SUBSCRIPTIONS: tuple[tuple[TopicClass, int], ...] = (
    (TopicClass.PUBLISHER, 1),
    (TopicClass.RESERVATION, 1),
    (TopicClass.SILENCE, 1),
    (TopicClass.ACK, 1),
    (TopicClass.JOB, 1),
    (TopicClass.CLAIM, 1),
    (TopicClass.NODE, 0),
    (TopicClass.ALERT, 1),
    (TopicClass.EVENT, 1),
    (TopicClass.ROLLUP, 0),
    (TopicClass.TELEMETRY, 0),
)
"""Classes subscribed to by a monitor, each with its QoS, in this order. State comes first, so that
the layout exists when the telemetry arrives. Before the descriptors come the rare messages, because
they have no second way if a broker's queue is full of descriptors."""


HISTORY_SUBSCRIPTIONS = (*SUBSCRIPTIONS, (TopicClass.BACKLOG, 1))
"""Classes subscribed to by a writer of history, each with its QoS."""


class Topic(NamedTuple):
    """A parsed topic."""

    fleet: str
    topic_class: TopicClass
    path: str
    """Address, job, reservation, alert, silence or client, by class."""


def build_topic(fleet: str, topic_class: TopicClass, path: str, root: str = DEFAULT_ROOT) -> str:
    """Return the topic of a class and path."""
    return f"{root}/{VERSION}/{fleet}/{topic_class.value}/{path}"


def command_path(target: str) -> str:
    """Return the path of a command for `target`: the deepest address containing it.

    This is the target up to its first pattern segment (`uc1/us-0003` for `uc1/us-0003/*`), never
    deeper than a chip, and `fleet` if nothing is left. So a client allowed by an access list to
    publish to `command/uc1/us-0003/#` can reach only that UltraServer.
    """
    fixed: list[str] = []
    for segment in target.split("/")[: Level.CHIP]:
        if not is_segment(segment):
            break
        fixed.append(segment)
    return "/".join(fixed) or FLEET_PATH


def presence_path(client: str, cell: str | None) -> str:
    """Return the path of a presence message.

    Relays, and the watches they forward from a cell, are below their cell's name.
    """
    return client if cell is None else f"{cell}/{client}"


def covers(path: str, target: str) -> bool:
    """Return whether a command on `path` may be about `target`.

    The path must be the fleet's, or an address equal to or above the target. After a colon a target
    names a link of a chip, as in `chip05:east`; it belongs to the chip.
    """
    return path in {FLEET_PATH, target} or target.startswith((path + "/", path + ":"))


def reply_path(client: str, command_id: str) -> str:
    """Return the path of a command's reply; commands cause no other messages there.

    Raises:
        WireError: client or id is not one segment.
    """
    if not (is_segment(client) and is_segment(command_id)):
        raise WireError("a reply's client and id must each be 1 to 64 of A-Z a-z 0-9 _ -")
    return f"{client}/{command_id}"


def build_filter(fleet: str, topic_class: TopicClass, root: str = DEFAULT_ROOT) -> str:
    """Return the topic filter of a class; a fleet of `+` means every fleet."""
    return f"{root}/{VERSION}/{fleet}/{topic_class.value}/#"


def filter_parts(topic_filter: str, root: str = DEFAULT_ROOT) -> tuple[str, str]:
    """Return fleet and class of a filter.

    Empty if it has a wildcard or is not below `root`.
    """
    head, _, rest = topic_filter.partition(f"{root}/{VERSION}/")
    parts = [*rest.split("/"), "", ""][:2] if not head else ["", ""]
    fleet, topic_class = ("" if part in {"+", "#"} else part for part in parts)
    return fleet, topic_class


def class_hint(topic_filter: str, root: str = DEFAULT_ROOT) -> str:
    """Return the class probably meant by a filter without one; empty if it is right."""
    _, name = filter_parts(topic_filter, root)
    if not name or name in {topic_class.value for topic_class in TopicClass}:
        return ""
    return f"no class of topics {name!r}: {nearest(name, [topic_class.value for topic_class in TopicClass])}"  # noqa: E501


def parse_topic(topic: str, root: str = DEFAULT_ROOT) -> Topic:
    """Take a topic apart.

    Raises:
        WireError: it is not one of ours: other root or version, unknown class, bad segment, too
            deep.
    """
    if not topic.startswith(root + "/"):
        raise WireError(f"topic is not under {root}/")
    parts = topic[len(root) + 1 :].split("/")
    if len(parts) < 4 or parts[0] != VERSION:
        raise WireError(f"topic is not {root}/{VERSION}/fleet/class/path")
    if topic.count("/") - root.count("/") > MAX_SLASHES:
        raise WireError(f"topic has more than {MAX_SLASHES} slashes")
    try:
        topic_class = TopicClass(parts[2])
    except ValueError:
        raise WireError("topic has an unknown class") from None
    path = "/".join(parts[3:])
    if not (is_segment(parts[1]) and are_segments(path)):
        raise WireError("topic has a segment that is not 1 to 64 of A-Z a-z 0-9 _ -")
    return Topic(parts[1], topic_class, path)


def is_root(text: str) -> bool:
    """Return whether `text` may be the topics' root: segments with slashes between them."""
    return are_segments(text)
