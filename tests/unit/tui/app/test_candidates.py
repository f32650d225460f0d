"""Matches for a typed text.

The app's own names match fuzzily, names of a large fleet by a part. The number of matches is
limited.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from support.monitor.feed import ultraservers

from trnfleet.domain.address import NO_NAMES
from trnfleet.domain.layout import Layout
from trnfleet.tui.app.commands import having
from trnfleet.tui.app.palette import MOST, Candidate, Candidates
from trnfleet.tui.state.chip_table import ChipTable

if TYPE_CHECKING:
    from collections.abc import Iterable


def key(sign: str, text: str, *words: str, is_possible: bool = True) -> Candidate:
    return Candidate(sign, text, int, words=words, is_key=True, is_possible=is_possible)


OWN = (
    key("8", "Alerts"),
    key("2", "Hierarchy", "hierarchy", "tree"),
    key("P", "Sort by power", is_possible=False),
    key("s", "Sort by next column"),
    key("p", "Data sources"),
    key("/", "Filter: power>450"),
    Candidate("command", ":metric power", int, words=("power",)),
    Candidate("command", ":filter …", int, words=("filter",)),
)


def found(text: str, of_fleet: Iterable[str] = ()) -> list[str]:
    """Return the texts of the matches."""
    names = [Candidate("job", name, int) for name in of_fleet]
    return [
        each.candidate.text for each in Candidates(OWN, OWN[:2], lambda _text: names).find(text)
    ]


def test_nothing_typed_lists_what_is_offered_first() -> None:
    assert found("") == found("  ") == ["Alerts", "Hierarchy"]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("8", "Alerts"),
        ("p", "Data sources"),
        ("P", "Sort by power"),
        ("TREE", "Hierarchy"),
        ("power", ":metric power"),
        ("sort", "Sort by next column"),
        ("srpw", "Sort by power"),
        ("filter", "Filter: power>450"),
        (":filter", ":filter …"),
    ],
)
def test_what_is_probably_meant_comes_first(text: str, first: str) -> None:
    """The likeliest match comes first: key with case, prefix, other name, scattered letters.

    Available commands precede unavailable ones.
    """
    assert found(text)[0] == first


def test_names_of_the_fleet_stand_between() -> None:
    """Names of the fleet come after prefix matches and before scattered letters."""
    assert found("sort", ["resort"]) == ["Sort by next column", "Sort by power", "resort"]
    assert found("srpw", ["x"])[0] == "x"
    assert found("zzz") == []


def test_a_text_of_any_length_is_looked_at() -> None:
    assert found("a-" * 5_000) == found("e " * 40) == []


def test_names_that_begin_with_a_text_come_first_and_are_few() -> None:
    assert having("A", ["ba", "ab", "c", "AC"], 9) == ["ab", "AC", "ba"]
    assert having("a", (f"{letter}a" for letter in "xya"), 2) == ["aa", "xa"]
    assert having("", map(str, range(100_000)), MOST) == [str(number) for number in range(MOST)]


@pytest.fixture(scope="module")
def chips() -> ChipTable:
    """The chips of 2,000 UltraServers: 128,000."""
    monitor: Any = SimpleNamespace(
        store=SimpleNamespace(layout=Layout.of(ultraservers(2_000))),
        ingest=SimpleNamespace(names=NO_NAMES),
    )
    alerts: Any = None
    return ChipTable(monitor, alerts)


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("us-1999", ["uc1/us-1999", *(f"uc1/us-1999/trn2u-1999-{place}" for place in range(4))]),
        ("1999-2", ["uc1/us-1999/trn2u-1999-2"]),
        ("1999-2/07", ["uc1/us-1999/trn2u-1999-2/chip07"]),
        ("1999-2/", [f"uc1/us-1999/trn2u-1999-2/chip{number:02d}" for number in range(16)]),
        ("UC1/US-0003/TRN2U-0003-1/CHIP05", ["uc1/us-0003/trn2u-0003-1/chip05"]),
        ("uc1/us-0003/trn2u-0003-1/chip05", ["uc1/us-0003/trn2u-0003-1/chip05"]),
        ("nowhere", []),
        ("1999-2/16", []),
        ("x[/", []),
    ],
)
def test_places_are_found_by_a_part_of_their_address(
    chips: ChipTable, text: str, addresses: list[str]
) -> None:
    layout = chips._monitor.store.layout
    assert [layout.path(node) for node in chips.find(text, MOST)] == addresses


@pytest.mark.parametrize("text", ["u", "uc1", "chip07", "/chip", "us-", ""])
def test_no_more_places_than_asked_for(chips: ChipTable, text: str) -> None:
    nodes = chips.find(text, MOST)
    assert len(nodes) == len(set(nodes)) == MOST
