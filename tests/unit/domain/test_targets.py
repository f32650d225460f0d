from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from trnfleet.domain.faults.table import FAULTS
from trnfleet.domain.layout import Layout
from trnfleet.domain.targets import MOST_TARGETS, resolve
from trnfleet.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

ULTRASERVERS = 12


def of(*instances: tuple[str, str]) -> Layout:
    return Layout.of(instances)


LAYOUT = of(
    *(
        (f"uc1/us-{number:04d}/trn2u-{number:04d}-{place}", "trn2u.48xlarge")
        for number in range(1, ULTRASERVERS + 1)
        for place in range(4)
    ),
    *((f"uc1/standalone/trn2-{number:04d}", "trn2.48xlarge") for number in (1, 2, 3)),
    ("uc1/standalone/small-0001", "trn2.3xlarge"),
    ("uc2/standalone/trn2-0001", "trn2.48xlarge"),
)


def drawing(seed: int) -> Callable[[int, int], list[int]]:
    generator = random.Random(seed)  # noqa: S311  a test's own choice
    return lambda count, limit: sorted(generator.sample(range(limit), count))


def addresses(fault: str, text: str, seed: int = 1, layout: Layout = LAYOUT) -> list[str]:
    return [
        target.address(layout) for target in resolve(layout, FAULTS[fault], text, drawing(seed))
    ]


@pytest.mark.parametrize(
    ("fault", "text", "expected"),
    [
        ("straggler", "uc1/us-0001/trn2u-0001-2/chip05", ["uc1/us-0001/trn2u-0001-2/chip05"]),
        ("straggler", " uc1/us-0001/trn2u-0001-2/chip05 ", ["uc1/us-0001/trn2u-0001-2/chip05"]),
        (
            "straggler",
            "uc1/us-0003/*/chip05",
            [f"uc1/us-0003/trn2u-0003-{n}/chip05" for n in range(4)],
        ),
        (
            "straggler",
            "uc2/*/*/chip0?",
            [f"uc2/standalone/trn2-0001/chip{n:02d}" for n in range(10)],
        ),
        (
            "straggler",
            "uc1/us-000[12]/*-3/chip1[45]",
            [f"uc1/us-{u:04d}/trn2u-{u:04d}-3/chip{c}" for u in (1, 2) for c in (14, 15)],
        ),
        (
            "straggler",
            "*/standalone/*/chip15",
            [f"uc1/standalone/trn2-{n:04d}/chip15" for n in (1, 2, 3)]
            + ["uc2/standalone/trn2-0001/chip15"],
        ),
        (
            "nic_down",
            "uc1/*/trn2u-*-1",
            [f"uc1/us-{n:04d}/trn2u-{n:04d}-1" for n in range(1, ULTRASERVERS + 1)],
        ),
        (
            "nic_down",
            "uc1/us-0002..us-0003",
            [f"uc1/us-{u:04d}/trn2u-{u:04d}-{n}" for u in (2, 3) for n in range(4)],
        ),
        (
            "nic_down",
            "uc1/us-0002/trn2u-0002-1..trn2u-0002-2",
            ["uc1/us-0002/trn2u-0002-1", "uc1/us-0002/trn2u-0002-2"],
        ),
        (
            "ultraserver_split",
            "uc1/us-0002..us-0004",
            ["uc1/us-0002", "uc1/us-0003", "uc1/us-0004"],
        ),
        ("ultraserver_split", "uc1/us-001*", ["uc1/us-0010", "uc1/us-0011", "uc1/us-0012"]),
        ("storage_slow", "*", ["uc1", "uc2"]),
        (
            "link_degraded",
            "uc1/us-0001/trn2u-0001-2/chip06:east",
            ["uc1/us-0001/trn2u-0001-2/chip06:east"],
        ),
        (
            "z_link_down",
            "uc1/us-0001/*/chip06:z_next",
            [f"uc1/us-0001/trn2u-0001-{n}/chip06:z_next" for n in range(4)],
        ),
    ],
)
def test_an_address_names_things_of_the_faults_scope(
    fault: str, text: str, expected: list[str]
) -> None:
    """Segments may have patterns, siblings may be a range, and a link has its direction."""
    assert addresses(fault, text) == expected


def test_standalone_is_no_ultraserver() -> None:
    """Patterns and random choices never match the segment of standalone instances."""
    every = [f"uc1/us-{number:04d}" for number in range(1, ULTRASERVERS + 1)]
    assert addresses("ultraserver_split", "*") == every
    assert addresses("ultraserver_split", f"random({ULTRASERVERS})") == every
    with pytest.raises(ConfigError, match=r"no ultraserver is there"):
        addresses("ultraserver_split", "uc1/standalone")


def test_a_pattern_over_all_chips_respects_instances_of_other_sizes() -> None:
    """A trn2.3xlarge has one chip: no other instance's chip is taken for its second."""
    assert addresses("straggler", "uc1/standalone/small-0001/*") == [
        "uc1/standalone/small-0001/chip00"
    ]
    found = addresses("straggler", "*")
    assert len(found) == len(set(found)) == LAYOUT.chips
    assert found == sorted(found)


def test_a_random_choice_takes_what_it_draws() -> None:
    """The draw alone chooses distinct members of the fleet or a pattern."""
    chips = addresses("straggler", "random(5)")
    assert len(set(chips)) == 5
    assert chips == addresses("straggler", "random(5)")
    assert chips != addresses("straggler", "random(5)", seed=2)
    some = addresses("straggler", "random(3) of uc1/us-0002/*/chip1?")
    assert len(set(some)) == 3
    assert all(each.startswith("uc1/us-0002/") and "/chip1" in each for each in some)
    assert addresses("storage_slow", "random(1) of uc2") == ["uc2"]


def test_a_links_direction_is_drawn_where_it_is_not_said() -> None:
    """An omitted direction is drawn from the fault's directions on that chip."""
    torus = {
        addresses("link_down", "uc1/us-0001/trn2u-0001-2/chip06", seed=n)[0].partition(":")[2]
        for n in range(40)
    }
    assert torus == {"north", "south", "west", "east"}
    cable = {
        addresses("z_link_down", "uc1/us-0001/trn2u-0001-2/chip06:*", seed=n)[0].partition(":")[2]
        for n in range(20)
    }
    assert cable == {"z_prev", "z_next"}
    alone = {
        addresses("link_degraded", "uc2/standalone/trn2-0001/chip00", seed=n)[0].partition(":")[2]
        for n in range(40)
    }
    assert alone == torus


@pytest.mark.parametrize(
    ("fault", "text", "chips"),
    [
        ("z_link_down", "*", 64 * ULTRASERVERS),
        ("z_link_down", "uc1/*/*/chip05", 4 * ULTRASERVERS),
        ("link_degraded", "*/*/*/chip05:z_next", 4 * ULTRASERVERS),
        ("link_degraded", "*/*/*/chip05:east", 4 * ULTRASERVERS + 4),
        ("link_down", "uc1/standalone/*/*", 3 * 16),
    ],
)
def test_of_many_chips_those_without_such_a_link_are_left_out(
    fault: str, text: str, chips: int
) -> None:
    """Instances that stand alone have no Z links, and a trn2.3xlarge has none at all."""
    found = addresses(fault, text)
    assert len({each.partition(":")[0] for each in found}) == len(found) == chips


def test_a_random_link_is_drawn_among_those_that_there_are() -> None:
    """Every draw is an existing link; more than exist are refused."""
    for seed in range(20):
        for text in ("random(9)", "random(9) of uc1/*/*/*", "random(9) of *:z_next"):
            found = addresses("z_link_down", text, seed=seed)
            assert len(set(found)) == 9
            assert all(each.startswith("uc1/us-") for each in found)
    with pytest.raises(ConfigError, match=f"1 to {64 * ULTRASERVERS} are there to choose from"):
        addresses("z_link_down", f"random({64 * ULTRASERVERS + 1})")
    with pytest.raises(ConfigError, match=r"a trn2.48xlarge has no NeuronLink between instances"):
        addresses("z_link_down", "random(2) of uc2/*/*/*")


@pytest.mark.parametrize(
    ("fault", "text", "message"),
    [
        (
            "straggler",
            "uc1/us-0001/trn2u-0001-22/chip05",
            r"did you mean 'uc1/us-0001/trn2u-0001-2/chip05'",
        ),
        ("straggler", "uc1/us-0001/trn2u-0001-2/chip16", r"has the chips chip00 to chip15"),
        (
            "straggler",
            "uc1/us-0001",
            r"uc1/us-0001 is above a chip; all below it: uc1/us-0001/\*/\*",
        ),
        ("straggler", "uc1/us-0001/*/chip16", r"no chip has such an address"),
        ("straggler", "uc1/us-0001/trn2u-0001-2/chip05/nc3", r"name a chip, such as"),
        ("straggler", "", r"name a chip, such as"),
        (
            "nic_down",
            "uc1/us-0001/trn2u-0001-2/chip05",
            r"no instance has such an address; name an instance",
        ),
        ("nic_down", "uc1/us-0001/trn2u-0001-7", r"did you mean 'uc1/us-0001/trn2u-0001-"),
        ("nic_down", "uc1/us-0009..us-0003", r"no instance"),
        ("ultraserver_split", "uc1/us-0099", r"did you mean 'uc1/us-0009'"),
        ("ultraserver_split", "uc1", r"uc1 is above an ultraserver; all below it: uc1/\*"),
        ("storage_slow", "uc3", r"did you mean 'uc"),
        (
            "link_down",
            "uc1/us-0001/trn2u-0001-2/chip05:eats",
            r"no such link 'eats' for this fault: did you mean 'east'",
        ),
        ("link_down", "uc1/us-0001/trn2u-0001-2/chip05:z_next", r"no such link 'z_next'"),
        (
            "z_link_down",
            "uc2/standalone/trn2-0001/chip05",
            r"a trn2.48xlarge has no NeuronLink between instances",
        ),
        ("link_down", "uc1/standalone/small-0001/chip00", r"a trn2.3xlarge has no NeuronLink"),
        ("straggler", "random(0)", r"1 to 833 are there to choose from"),
        ("straggler", "random(4096)", r"1 to 833 are there to choose from"),
        ("straggler", "random(5) of uc1/us-0001/*/chip05", r"1 to 4 are there to choose from"),
        ("straggler", "random(2) of uc9/*/*/*", r"no chip has such an address"),
        ("straggler", "random(5000)", r"names 5,000 things; at most 4,096"),
    ],
)
def test_what_is_not_there_is_refused(fault: str, text: str, message: str) -> None:
    """The message names the target and the nearest existing one, or the limit."""
    with pytest.raises(ConfigError, match=message) as refused:
        addresses(fault, text)
    assert repr(text) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_too_much_at_once_is_refused() -> None:
    """The limit itself is allowed."""
    large = of(
        *(
            (f"c/us-{n:04d}/trn2u-{n:04d}-{place}", "trn2u.48xlarge")
            for n in range(65)
            for place in range(4)
        )
    )
    assert len(addresses("straggler", f"random({MOST_TARGETS})", layout=large)) == MOST_TARGETS
    with pytest.raises(ConfigError, match=r"names 4,160 things; at most 4,096 at once"):
        addresses("straggler", "c/*/*/*", layout=large)


def test_a_fleet_without_ultraservers_is_named() -> None:
    """There is nothing to name."""
    alone = of(("c/standalone/trn2-0001", "trn2.48xlarge"))
    with pytest.raises(ConfigError, match="the fleet has no ultraserver"):
        addresses("ultraserver_split", "*", layout=alone)
    with pytest.raises(ConfigError, match="1 to 0 are there"):
        addresses("ultraserver_split", "random(1)", layout=alone)
