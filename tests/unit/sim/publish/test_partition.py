from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import pytest

from trnfleet.domain.fleet import FleetFile, Publishing, expand
from trnfleet.domain.layout import Layout
from trnfleet.errors import ConfigError
from trnfleet.sim.publish.partition import partition

if TYPE_CHECKING:
    from collections.abc import Callable


CLUSTERS: list[dict[str, Any]] = [
    {
        "name": "a",
        "ultraservers": [{"count": 5}],
        "instances": [{"type": "trn2.48xlarge", "count": 2}],
    },
    {
        "name": "b",
        "ultraservers": [{"count": 1}],
        "instances": [{"type": "trn2.3xlarge", "count": 1}],
    },
]

ALONE = ("a/standalone/trn2-0001", "a/standalone/trn2-0002")


@pytest.mark.parametrize(
    ("settings", "paths"),
    [
        (
            Publishing(format="cbor"),
            [*ALONE, *(f"a/us-000{n}" for n in range(1, 6)), "b/standalone/trn2-0001", "b/us-0001"],
        ),
        (
            Publishing(format="cbor", granularity="block", block_ultraservers=2),
            [
                *ALONE,
                "a/block-0001",
                "a/block-0002",
                "a/block-0003",
                "b/standalone/trn2-0001",
                "b/block-0001",
            ],
        ),
    ],
)
def test_standalone_instances_publish_alone_and_the_rest_together(
    make_fleet: Callable[..., FleetFile], settings: Publishing, paths: list[str]
) -> None:
    """UltraServers and blocks of them within a cluster; instances outside at their own level."""
    layout = Layout.of(expand(make_fleet(clusters=CLUSTERS)))
    assert [unit.path for unit in partition(layout, settings)] == paths


@pytest.mark.parametrize("granularity", ["instance", "ultraserver", "block"])
def test_units_cover_every_row_once_in_order(
    make_fleet: Callable[..., FleetFile], granularity: Literal["instance", "ultraserver", "block"]
) -> None:
    """Each unit begins where the one before ended."""
    layout = Layout.of(expand(make_fleet(clusters=CLUSTERS)))
    chip = instance = 0
    for unit in partition(
        layout, Publishing(format="cbor", granularity=granularity, block_ultraservers=3)
    ):
        assert (unit.chips.start, unit.instances.start) == (chip, instance)
        chip = unit.chips.stop
        instance = unit.instances.stop
    assert (chip, instance) == (layout.chips, len(layout.instances))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            Publishing(format="json", granularity="ultraserver"),
            r"'ultraserver': format 'json' publishes by chip$",
        ),
        (Publishing(format="cbor", granularity="chip"), "by block or instance or ultraserver$"),
    ],
)
def test_formats_have_their_granularities(
    make_fleet: Callable[..., FleetFile], settings: Publishing, message: str
) -> None:
    """JSON publishes chips, CBOR does not; the message names the valid choices."""
    layout = Layout.of(expand(make_fleet()))
    with pytest.raises(ConfigError, match=message):
        partition(layout, settings)
