from __future__ import annotations

import pytest

from trnfleet.errors import WireError
from trnfleet.wire.topics import Topic, TopicClass, build_filter, build_topic, is_root, parse_topic


@pytest.mark.parametrize("topic_class", TopicClass)
@pytest.mark.parametrize("root", ["trnfleet", "site/a/trnfleet"])
def test_build_and_parse_are_inverses(topic_class: TopicClass, root: str) -> None:
    """A built topic parses to what it was built of."""
    path = "uc1/us-0001/trn2u-0001-2/chip05"
    assert parse_topic(build_topic("demo", topic_class, path, root), root) == Topic("demo", topic_class, path)


def test_depth_is_what_aws_iot_core_takes() -> None:
    """The deepest topic has seven slashes."""
    topic = build_topic("demo", TopicClass.TELEMETRY, "uc1/us-0001/trn2u-0001-2/chip05")
    assert topic.count("/") == 7


@pytest.mark.parametrize(
    "topic",
    [
        "other/v1/demo/telemetry/uc1",
        "trnfleet/v2/demo/telemetry/uc1",
        "trnfleet/v1/demo/telemetry",
        "trnfleet/v1/demo/nonsense/uc1",
        "trnfleet/v1/demo/telemetry/a b",
        "trnfleet/v1/demo/telemetry/a/\x1b[0m",
        "trnfleet/v1/demo/telemetry/a.b",
        "trnfleet/v1/demo/telemetry/" + "x" * 65,
        "trnfleet/v1/demo/telemetry/a/b/c/d/e/f",
        "trnfleet/v1//telemetry/uc1",
        "",
    ],
)
def test_bad_topics(topic: str) -> None:
    """What is not one of ours is a WireError."""
    with pytest.raises(WireError):
        parse_topic(topic)


def test_filters_and_roots() -> None:
    """Filters cover a class; a root is made of segments."""
    assert build_filter("+", TopicClass.NODE) == "trnfleet/v1/+/node/#"
    assert is_root("a/b")
    assert not is_root("a/#")
    assert not is_root("")
