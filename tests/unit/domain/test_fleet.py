from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from trnfleet.config import validate
from trnfleet.domain.fleet import FleetFile, chip_at, expand, find_lane, instances_of
from trnfleet.domain.hardware.topology import EAST, Z_NEXT
from trnfleet.domain.layout import Layout
from trnfleet.domain.links import neighbour
from trnfleet.errors import ConfigError

SMALL: dict[str, Any] = {"name": "f", "clusters": [{"name": "uc1", "ultraservers": [{"count": 2}]}]}


def fleet(**changes: Any) -> FleetFile:
    return validate({**SMALL, **changes}, FleetFile, "fleet.toml")


def test_expand_names_instances() -> None:
    """A run of UltraServers becomes four numbered instances each."""
    pairs = expand(fleet())
    assert len(pairs) == 8
    assert pairs[0] == ("uc1/us-0001/trn2u-0001-0", "trn2u.48xlarge")
    assert pairs[-1] == ("uc1/us-0002/trn2u-0002-3", "trn2u.48xlarge")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"nmae": 1}, "unknown key 'nmae': did you mean 'name'?"),
        ({"name": "a b"}, "name = 'a b'"),
        ({"clusters": []}, "clusters"),
        (
            {"clusters": [{"name": "uc1", "ultraserver": [{"count": 1}]}]},
            "did you mean 'ultraservers'?",
        ),
        ({"clusters": [{"name": "uc1", "ultraservers": [{"count": 0}]}]}, "count = 0"),
        ({"clusters": [{"name": "uc1", "ultraservers": [{"count": True}]}]}, "count = True"),
        (
            {"clusters": [{"name": "uc1", "ultraservers": [{"count": 70_000, "digits": 5}]}]},
            "280000 instances",
        ),
        (
            {"clusters": [{"name": "uc1", "instances": [{"type": "trn2.48xl", "count": 1}]}]},
            "did you mean 'trn2.48xlarge'?",
        ),
        (
            {"clusters": [{"name": "uc1", "ultraservers": [{"count": 12_000}]}]},
            "digits = 4 is too few for number 12000",
        ),
        ({"start": datetime(9999, 12, 31, tzinfo=UTC)}, "year 9999"),
        ({"pue": 0.5}, "pue = 0.5"),
        ({"pue": float("nan")}, "pue = nan"),
        (
            {"jobs": [{"kind": "training", "name": "j", "on": ["uc1"], "mfuu": 0.4}]},
            "did you mean 'mfu'?",
        ),
        ({"jobs": [{"kind": "mining", "name": "j", "on": ["uc1"]}]}, "kind"),
        (
            {
                "jobs": [
                    {
                        "kind": "training",
                        "name": "j",
                        "on": ["uc1"],
                        "compute_share": 0.9,
                        "collective_share": 0.5,
                    }
                ]
            },
            "at most 1",
        ),
        (
            {"jobs": [{"kind": "training", "name": "j", "on": ["uc1"]}] * 2},
            "duplicate job 'j'",
        ),
    ],
)
def test_mistakes_are_explained(changes: dict[str, Any], said: str) -> None:
    """An error names the file, the key and a valid value."""
    with pytest.raises(ConfigError) as caught:
        fleet(**changes)
    assert str(caught.value).startswith("fleet.toml: ")
    assert said in str(caught.value)


def test_places_are_looked_up() -> None:
    """Targets, chips and links are found in the layout; an unknown one names the nearest."""
    layout = Layout.of(expand(fleet()))
    assert instances_of(layout, ("uc1/us-0001..us-0002",), "job j") == [range(8)]
    assert chip_at(layout, "uc1/us-0001/trn2u-0001-1/chip02", "straggler") == 18
    assert find_lane(layout, 18, "east") == EAST
    assert find_lane(layout, 18, "z_next") == Z_NEXT
    assert neighbour(layout, 18, EAST) == 19
    assert neighbour(layout, 18, Z_NEXT) == 34
    assert neighbour(layout, 50, Z_NEXT) == 2
    with pytest.raises(ValueError, match="us-0001"):
        instances_of(layout, ("uc1/us-0011",), "job j")
    with pytest.raises(ValueError, match="backwards"):
        instances_of(layout, ("uc1/us-0002..us-0001",), "job j")
    with pytest.raises(ValueError, match="straggler"):
        chip_at(layout, "uc1/us-0001/trn2u-0001-1", "straggler")


def test_links_that_a_type_lacks() -> None:
    """A standalone instance has no Z links."""
    layout = Layout.of([("uc1/standalone/trn2-0001", "trn2.48xlarge")])
    with pytest.raises(ValueError, match="no z_next link"):
        find_lane(layout, 0, "z_next")
