from __future__ import annotations

import dataclasses

import pytest

from trnfleet.domain.hardware import catalogue
from trnfleet.domain.hardware.catalogue import CHIP_TYPES, TRAINIUM2, TRAINIUM3, Figure, totals
from trnfleet.errors import ConfigError


@pytest.mark.parametrize(
    ("instances", "ultraservers", "neuroncores", "torus_links", "z_links", "efa_gb"),
    [
        ({"trn1.32xlarge": 1}, {}, 32, 32, 0, 800),
        ({"trn2.48xlarge": 1}, {}, 128, 32, 0, 3_200),
        ({"trn2u.48xlarge": 4}, {"u-trn2x64": 1}, 512, 128, 64, 12_800),
    ],
)
def test_cores_links_and_network_add_up(
    instances: dict[str, int],
    ultraservers: dict[str, int],
    neuroncores: int,
    torus_links: int,
    z_links: int,
    efa_gb: int,
) -> None:
    """The totals beside those of the published tables of all generations."""
    got = totals(instances, ultraservers)
    assert (got.neuroncores, got.torus_links, got.z_links) == (neuroncores, torus_links, z_links)
    assert got.efa_bytes_per_s * 8 == pytest.approx(efa_gb * 1e9)


@pytest.mark.parametrize("chip", CHIP_TYPES.values(), ids=CHIP_TYPES)
def test_every_figure_has_a_source(chip: catalogue.ChipType) -> None:
    """Each figure of a chip has a source and a unit."""
    figures = [
        getattr(part, field.name)
        for part in (chip, chip.air, chip.liquid)
        for field in dataclasses.fields(part)
    ]
    figures = [figure for figure in figures if isinstance(figure, Figure)]
    assert len(figures) >= 13
    assert all(figure.source and figure.unit for figure in figures)
    assert chip.power_max_w.evidence == ("derived" if chip is TRAINIUM3 else "assumed")


def test_trainium3s_watts_follow_from_trainium2s() -> None:
    """1.94 x the FP8 peak at 1.4 x the work for a joule: 692 W, rounded.

    The differing source is listed, and the background's share is Trainium2's.
    """
    peaks = TRAINIUM3.fp8_dense_flops.value / TRAINIUM2.fp8_dense_flops.value
    assert peaks == pytest.approx(1.94, abs=0.005)
    assert TRAINIUM2.power_max_w.value * peaks / 1.4 == pytest.approx(692, abs=1)
    assert TRAINIUM3.power_max_w.value == 700
    shares = [
        chip.power_background_w.value / chip.power_max_w.value for chip in (TRAINIUM2, TRAINIUM3)
    ]
    assert shares == pytest.approx([0.18, 0.18])
    (claim,) = [claim for claim in TRAINIUM3.claims if "power" in claim.subject]
    assert (claim.used, claim.others[0].value) == (TRAINIUM3.power_max_w, 1_000)


def test_unknown_type_names_the_nearest() -> None:
    """An unknown type is refused with the nearest known one."""
    with pytest.raises(ConfigError, match=r"trn2\.48xlarge"):
        catalogue.find_instance_type("trn2.48xlrge")


@pytest.mark.parametrize("chip", CHIP_TYPES.values(), ids=CHIP_TYPES)
def test_no_wattage_or_temperature_is_published(chip: catalogue.ChipType) -> None:
    """AWS publishes no wattage, and no Neuron interface has a temperature.

    All are assumed, or derived from what is.
    """
    figures = [
        chip.power_background_w,
        chip.power_max_w,
        chip.throttle_start_c,
        chip.throttle_limit_c,
    ]
    for cooling in (chip.air, chip.liquid):
        figures += [cooling.thermal_resistance_c_per_w, cooling.thermal_time_constant_s]
    assert {figure.evidence for figure in figures} <= {"assumed", "derived"}


@pytest.mark.parametrize("chip", CHIP_TYPES.values(), ids=CHIP_TYPES)
def test_liquid_takes_more_heat_from_a_chip_than_air(chip: catalogue.ChipType) -> None:
    """A cold plate has less resistance and stores less heat.

    Throttling starts below its limit, above full load.
    """
    air = chip.cooling("air")
    liquid = chip.cooling("liquid")
    assert liquid.thermal_resistance_c_per_w.value < air.thermal_resistance_c_per_w.value
    assert liquid.thermal_time_constant_s.value < air.thermal_time_constant_s.value
    hottest_c = 27.0 + 1.5 + air.thermal_resistance_c_per_w.value * chip.power_max_w.value
    assert hottest_c < chip.throttle_start_c.value < chip.throttle_limit_c.value


def test_trainium2_draws_about_500_w() -> None:
    """SemiAnalysis estimates about 500 W per Trainium2 chip.

    64 of them are 32 kW per UltraServer.
    """
    got = totals({"trn2u.48xlarge": 4}, ultraservers={"u-trn2x64": 1})
    assert got.chip_power_max_w == pytest.approx(32_000)
