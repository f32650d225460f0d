from __future__ import annotations

import pytest

from trnfleet.domain import address
from trnfleet.domain.address import Level


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("", Level.FLEET),
        ("uc1", Level.CLUSTER),
        ("uc1/us-0001", Level.ULTRASERVER),
        ("uc1/standalone/trn2-0001", Level.INSTANCE),
        ("uc1/us-0001/trn2u-0001-2/chip05", Level.CHIP),
        ("uc1/us-0001/trn2u-0001-2/chip05/nc3", Level.CORE),
    ],
)
def test_level_and_parts(text: str, level: Level) -> None:
    """An address's level is the number of its segments."""
    assert address.level_of(text) is level
    assert "/".join(address.split(text)) == text


@pytest.mark.parametrize(
    "text", ["a//b", "a/b c", "a/b.c", "a/é", "a/b/c/d/e/f", "/a", "a/" + "x" * 65, "a\x1b/b"]
)
def test_bad_addresses(text: str) -> None:
    """Characters that no segment may have are refused."""
    with pytest.raises(ValueError, match="address"):
        address.split(text)


def test_chip_and_core_names_are_pairs() -> None:
    """Formatting and parsing a chip's or core's segment are inverses."""
    assert [address.parse_chip(address.format_chip(chip)) for chip in range(144)] == list(
        range(144)
    )
    assert [address.parse_core(address.format_core(core)) for core in range(8)] == list(range(8))
    assert address.parse_chip("chip5") is None
    assert address.parse_core("ncx") is None


def test_parent() -> None:
    """The parent of a cluster is the fleet."""
    assert address.parent("uc1/us-0001") == "uc1"
    assert address.parent("uc1") == ""
