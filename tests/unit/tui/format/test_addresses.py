from __future__ import annotations

import pytest

from trnfleet.tui.format.addresses import last_segments, shortened, without_start

CHIP = "uc1/us-0001/trn2u-0001-0/chip05"


@pytest.mark.parametrize(
    ("room", "text"),
    [
        (31, CHIP),
        (30, "us-0001/trn2u-0001-0/chip05"),
        (20, "trn2u-0001-0/chip05"),
        (18, "chip05"),
        (1, "chip05"),
    ],
)
def test_addresses_lose_segments_from_the_left(room: int, text: str) -> None:
    """No segment is cut, and the last one stays however little room there is."""
    assert shortened(CHIP, room) == text


@pytest.mark.parametrize(
    ("room", "text"), [(9, "trn2-0001"), (8, "…n2-0001"), (2, "…1"), (1, "…"), (0, "…")]
)
def test_names_lose_characters_from_the_left(room: int, text: str) -> None:
    """A cut name is marked and fits the room."""
    assert without_start("trn2-0001", room) == text
    assert len(text) <= max(room, 1)


def test_a_chip_goes_with_its_instance() -> None:
    """Shorter addresses stay whole."""
    assert last_segments(CHIP) == "trn2u-0001-0/chip05"
    assert last_segments("uc1") == "uc1"
    assert last_segments("broker mqtt://b1.example:1883") == "broker mqtt://b1.example:1883"
    assert last_segments("") == ""
