from __future__ import annotations

import numpy as np
import pytest

from trnfleet.domain.hardware.catalogue import TRN2_ULTRASERVER
from trnfleet.domain.layout import EMPTY_LAYOUT, Layout
from trnfleet.domain.power import Racks, facility_w
from trnfleet.domain.site import PUE


def layout_of(ultraservers: int = 2, alone: int = 2) -> Layout:
    joined = [
        (f"c/us-{number:04d}/trn2u-{number:04d}-{place}", "trn2u.48xlarge")
        for number in range(ultraservers)
        for place in range(4)
    ]
    return Layout.of(
        [
            *joined,
            *((f"c/standalone/trn2-{number:04d}", "trn2.48xlarge") for number in range(alone)),
        ]
    )


def test_an_ultraserver_stands_in_two_racks() -> None:
    """Nodes 0 and 1 share a rack, 2 and 3 the other.

    The ring is 0-1-2-3 and 2 is diagonal to 0 (driver).
    """
    assert [TRN2_ULTRASERVER.rack_of(place) for place in range(4)] == [0, 0, 1, 1]
    racks = Racks.of(layout_of())
    assert racks.of_instance.tolist() == [0, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert [racks.label(number) for number in range(len(racks))] == [
        "c/standalone/trn2-0000",
        "c/standalone/trn2-0001",
        "c/us-0000/rack-a",
        "c/us-0000/rack-b",
        "c/us-0001/rack-a",
        "c/us-0001/rack-b",
    ]


@pytest.mark.parametrize(
    ("kind", "count"),
    [("trn2u.48xlarge", 5), ("trn2.48xlarge", 4)],
    ids=["too many", "of another type"],
)
def test_an_ultraserver_that_cannot_be_has_racks_named_by_their_first_instance(
    kind: str, count: int
) -> None:
    """Two publishers describing one UltraServer cause no index error and no duplicate name."""
    us = "c/us-0000"
    racks = Racks.of(
        Layout.of(
            [(f"{us}/a-{place}", "trn2u.48xlarge") for place in range(4)]
            + [(f"{us}/b-{n}", kind) for n in range(count)]
        )
    )
    names = [racks.label(number) for number in range(len(racks))]
    assert names[:2] == [f"{us}/a-0", f"{us}/a-2"]
    assert len(set(names)) == len(names) == 2 + (count if kind == "trn2.48xlarge" else 3)


def test_racks_add_up_to_the_fleet() -> None:
    """Every instance is in one rack."""
    layout = layout_of()
    watts = np.arange(10.0) * 1_000
    racks = Racks.of(layout)
    of_rack = racks.total(watts)
    assert racks.label(2) == "c/us-0000/rack-a"
    assert of_rack.tolist() == [0, 1_000, 5_000, 9_000, 13_000, 17_000]
    assert of_rack.sum() == watts.sum()


def test_what_is_not_known_counts_as_nothing_unless_nothing_is() -> None:
    """A rack with one silent instance shows the other.

    With only silent ones it is unknown.
    """
    watts = np.array([np.nan, 2_000, np.nan, 3_000, np.nan, np.nan, 1, 1, 1, 1])
    of_rack = Racks.of(layout_of()).total(watts)
    assert np.isnan(of_rack[[0, 3]]).all()
    assert of_rack[[1, 2, 4, 5]].tolist() == [2_000, 3_000, 2, 2]


def test_a_facility_draws_pue_times_its_it() -> None:
    """1.14 is AWS's global PUE for 2025 (published)."""
    assert PUE == 1.14
    assert facility_w(1_000.0) == pytest.approx(1_140)
    assert facility_w(np.array([1_000.0, 0.0]), 1.04).tolist() == [1_040.0, 0.0]


def test_an_empty_fleet_has_no_racks() -> None:
    """Before the first descriptor there is nothing to add up."""
    racks = Racks.of(EMPTY_LAYOUT)
    assert len(racks) == 0
    assert racks.total(np.zeros(0)).shape == (0,)
