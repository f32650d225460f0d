from __future__ import annotations

import pytest

from trnfleet.monitor.problems.problem import Place, ProblemCounts
from trnfleet.tui.format.problems import badge, place_in
from trnfleet.tui.widgets.cells import text_of

LINK = Place(
    "uc1/us-0001/trn2u-0001-1/chip06",
    lane="south",
    other_end="uc1/us-0001/trn2u-0001-1/chip10:north",
)


def test_the_badge_of_the_header() -> None:
    """The badge shows the worst first, with sign and word, and is never empty.

    Acknowledged ones appear if there is room.
    """
    counts = ProblemCounts(critical=2, warning=5, info=1, acknowledged=1, pending=2)
    assert text_of(badge(counts)) == " ✖ 2 critical  ▲ 5 warning  1 ack  2 pending "
    assert text_of(badge(counts, short=True, with_quiet=False)) == " ✖ 2 crit  ▲ 5 warn "
    assert text_of(badge(counts, tight=True, with_quiet=False)) == " ✖ 2  ▲ 5 "
    assert text_of(badge(ProblemCounts(), tight=True)).strip() == "No problems"
    assert text_of(badge(ProblemCounts(acknowledged=2))) == " OK  2 ack "


@pytest.mark.parametrize(
    ("room", "text"),
    [
        (70, "us-0001/trn2u-0001-1/chip06:south ↔ chip10:north"),
        (44, "trn2u-0001-1/chip06:south ↔ chip10:north"),
        (34, "trn2u-0001-1 06:south↔10:north"),
        (26, "trn2u-0001-1/chip06:south"),
        (20, "…0001-1/chip06:south"),
        (12, "chip06:south"),
    ],
)
def test_a_link_in_little_room(room: int, text: str) -> None:
    assert place_in(LINK, room) == text
    assert len(text) <= room


def test_a_link_to_another_instance_names_it_in_little_room() -> None:
    link = Place(
        "uc1/us-0001/trn2u-0001-1/chip08",
        lane="z_next",
        other_end="uc1/us-0001/trn2u-0001-2/chip08:z_prev",
    )
    assert place_in(link, 36) == "trn2u-0001-1 08:z_next↔-2 08:z_prev"


def test_other_places() -> None:
    assert place_in(Place("uc1/us-0001", rack="rack-b"), 30) == "us-0001 rack B"
    assert place_in(Place("uc1/standalone/trn2-0002/chip11"), 30) == "trn2-0002/chip11"
    assert (
        place_in(Place("uc1/standalone/trn2-0002/chip11", lane="nc3"), 30) == "trn2-0002/chip11/nc3"
    )
    assert place_in(Place("uc1/us-0001", name="pretrain-70b"), 30) == "pretrain-70b"
    assert place_in(Place(), 30) == "fleet"


@pytest.mark.parametrize(
    ("room", "text"),
    [(40, "broker mqtt://west.example:1883"), (24, "west.example:1883"), (10, "…mple:1883")],
)
def test_a_broker_in_little_room(room: int, text: str) -> None:
    """Host and port stay.

    The slashes of its URL do not split it like a fleet's address.
    """
    assert place_in(Place(name="broker mqtt://west.example:1883"), room) == text
