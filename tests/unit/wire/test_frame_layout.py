"""Frames by their descriptor: required identity, and rows of each instance."""

from __future__ import annotations

import numpy as np
import pytest
from support.monitor.feed import Feed, ultraservers

from trnfleet.domain.metrics import SIMULATED
from trnfleet.errors import WireError
from trnfleet.wire.frames import Unit
from trnfleet.wire.messages import Descriptor, decode_message


@pytest.fixture
def feed() -> Feed:
    """An UltraServer that publishes as one."""
    made = Feed(ultraservers(1), grouped=True)
    made.scatter()
    return made


def unit_of(feed: Feed) -> Unit:
    """Return the unit of the feed's descriptor."""
    [node] = (each for each in feed.announcements() if "/node/" in each.topic)
    return Unit.of(decode_message(node.payload, Descriptor))


def test_a_frame_gives_every_column(feed: Feed) -> None:
    """Rows are the descriptor's instances, in its order."""
    unit = unit_of(feed)
    [frame] = feed.telemetry()
    codes = unit.codes(unit.decode(frame.payload))
    assert unit.chips == (0, 16, 32, 48, 64)
    assert [path for path, _ in unit.instances] == list(feed.layout.instances)
    for metric in SIMULATED:
        assert np.array_equal(codes[metric.name], feed.columns[metric.name]), metric.name


def test_units_of_one_form_share_what_is_learned(feed: Feed) -> None:
    """Tens of thousands of them would learn the same."""
    assert unit_of(feed).decoder is unit_of(Feed(ultraservers(1), grouped=True)).decoder


def test_frames_of_others_are_refused(feed: Feed) -> None:
    """Of another path, boot or revision."""
    unit = unit_of(feed)
    [frame] = feed.telemetry()
    for other, reason in (
        (unit._replace(path="uc1/us-0002"), "path is not its topic's"),
        (unit._replace(boot="other"), "another boot or revision"),
        (unit._replace(revision=7), "another boot or revision"),
    ):
        with pytest.raises(WireError, match=reason):
            other.decode(frame.payload)


def test_an_unknown_instance_type_is_named(feed: Feed) -> None:
    """Its chips cannot be counted."""
    [node] = (each for each in feed.announcements() if "/node/" in each.topic)
    descriptor = decode_message(
        node.payload.replace(b"trn2u.48xlarge", b"trn9u.48xlarge"), Descriptor
    )
    with pytest.raises(WireError, match=r"unknown instance type 'trn9u\.48xlarge'"):
        Unit.of(descriptor)
