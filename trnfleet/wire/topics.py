"""Topics: `{root}/v1/{fleet}/{class}/{path}`, built and taken apart here and nowhere else.

The class comes before the path, so that access lists and filters are short.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from trnfleet.domain.address import is_segment
from trnfleet.errors import WireError

DEFAULT_ROOT = "trnfleet"
VERSION = "v1"
MAX_SLASHES = 7
"""What AWS IoT Core allows in a topic; the deepest of ours has exactly as many."""


class TopicClass(enum.StrEnum):
    """What a topic carries."""

    NODE = "node"
    TELEMETRY = "telemetry"
    JOB = "job"
    PUBLISHER = "publisher"


class Topic(NamedTuple):
    """A topic taken apart."""

    fleet: str
    topic_class: TopicClass
    path: str
    """Address, job or client, by class."""


def build_topic(fleet: str, topic_class: TopicClass, path: str, root: str = DEFAULT_ROOT) -> str:
    """Return the topic of a class and path."""
    return f"{root}/{VERSION}/{fleet}/{topic_class.value}/{path}"


def build_filter(fleet: str, topic_class: TopicClass, root: str = DEFAULT_ROOT) -> str:
    """Return the topic filter for everything of a class; a fleet of `+` means every fleet."""
    return f"{root}/{VERSION}/{fleet}/{topic_class.value}/#"


def parse_topic(topic: str, root: str = DEFAULT_ROOT) -> Topic:
    """Take a topic apart.

    Raises:
        WireError: it is not one of ours: other root or version, unknown class, bad segment, too deep.
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
    if not all(is_segment(part) for part in (parts[1], *parts[3:])):
        raise WireError("topic has a segment that is not 1 to 64 of A-Z a-z 0-9 _ -")
    return Topic(parts[1], topic_class, "/".join(parts[3:]))


def is_root(text: str) -> bool:
    """Say whether `text` may be the topics' root: segments with slashes between them."""
    return bool(text) and all(is_segment(part) for part in text.split("/"))
