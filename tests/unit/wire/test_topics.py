from __future__ import annotations

import pytest

from trnfleet.errors import WireError
from trnfleet.wire.topics import (
    Topic,
    TopicClass,
    build_filter,
    build_topic,
    class_hint,
    command_path,
    covers,
    filter_parts,
    is_root,
    parse_topic,
    reply_path,
)


@pytest.mark.parametrize("topic_class", TopicClass)
@pytest.mark.parametrize("root", ["trnfleet", "site/a/trnfleet"])
def test_build_and_parse_are_inverses(topic_class: TopicClass, root: str) -> None:
    """A built topic parses to its parts."""
    path = "uc1/us-0001/trn2u-0001-2/chip05"
    assert parse_topic(build_topic("demo", topic_class, path, root), root) == Topic(
        "demo", topic_class, path
    )


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
    """A foreign topic is a WireError."""
    with pytest.raises(WireError):
        parse_topic(topic)


def test_filters_and_roots() -> None:
    """Filters cover a class; a root is made of segments."""
    assert build_filter("+", TopicClass.NODE) == "trnfleet/v1/+/node/#"
    assert is_root("a/b")
    assert not is_root("a/#")
    assert not is_root("")


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("", "fleet"),
        ("random(2)", "fleet"),
        ("*/us-0001", "fleet"),
        ("uc1", "uc1"),
        ("uc1/us-0003/*/chip05", "uc1/us-0003"),
        ("uc1/us-0001..us-0004", "uc1"),
        ("uc1/us-0001/../us-0002", "uc1/us-0001"),
        ("uc1/us-0001/trn2u-0001-2/chip05/nc3", "uc1/us-0001/trn2u-0001-2/chip05"),
        ("a\u202e/b", "fleet"),
        ("llama-405b", "llama-405b"),
        ("uc1/us-0001/trn2u-0001-2/chip05:east", "uc1/us-0001/trn2u-0001-2"),
        ("random(1) of uc1/us-000[123]/*/*", "fleet"),
    ],
)
def test_a_command_goes_to_the_path_that_holds_its_target(target: str, path: str) -> None:
    """The path is the target without patterns, so that an access list can restrict it."""
    assert command_path(target) == path
    assert covers(path, target)
    topic = build_topic("demo", TopicClass.COMMAND, path)
    assert parse_topic(topic).path == path
    assert topic.count("/") <= 7


def test_a_chip_holds_its_links() -> None:
    """A chip's path includes its links, named after a colon in a target."""
    assert covers("uc1/us-0001/trn2u-0001-2/chip05", "uc1/us-0001/trn2u-0001-2/chip05:east")


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("uc1", ""),
        ("uc1", "uc2"),
        ("uc1", "uc10"),
        ("uc1/us-0001", "uc1"),
        ("uc1/us-0001", "uc1/*"),
    ],
)
def test_a_path_does_not_reach_beside_or_above_itself(path: str, target: str) -> None:
    """Permission for a part of a fleet covers nothing beside or above it."""
    assert not covers(path, target)


def test_replies_have_one_place() -> None:
    """A reply's topic has two segments, and no part that could leave it."""
    assert (
        build_topic("demo", TopicClass.REPLY, reply_path("ops", "42"))
        == "trnfleet/v1/demo/reply/ops/42"
    )
    for client, number in (("..", "1"), ("a/b", "1"), ("ops", ""), ("ops", "+"), ("ops", "1\n")):
        with pytest.raises(WireError):
            reply_path(client, number)


@pytest.mark.parametrize(
    ("topic_filter", "parts", "hint"),
    [
        ("trnfleet/v1/lab/telemetry/#", ("lab", "telemetry"), ""),
        ("trnfleet/v1/lab/telemtry/#", ("lab", "telemtry"), "did you mean 'telemetry'?"),
        ("trnfleet/v1/+/jobs/a", ("", "jobs"), "did you mean 'job'?"),
        ("trnfleet/v1/lab/#", ("lab", ""), ""),
        ("trnfleet/#", ("", ""), ""),
        ("other/v1/lab/telemtry", ("", ""), ""),
    ],
)
def test_what_a_filter_names(topic_filter: str, parts: tuple[str, str], hint: str) -> None:
    """Fleet and class are the parts without wildcards; an invalid class has a nearest one."""
    assert filter_parts(topic_filter) == parts
    assert class_hint(topic_filter).endswith(hint)
    assert bool(class_hint(topic_filter)) == bool(hint)
