from __future__ import annotations

import dataclasses

import pytest

from trnfleet.domain.hardware import catalogue
from trnfleet.domain.hardware.catalogue import CHIP_TYPES, Figure, totals
from trnfleet.errors import ConfigError


def test_trn2_instance_totals() -> None:
    """Sixteen Trainium2 chips add up to the published totals of trn2.48xlarge."""
    got = totals({"trn2.48xlarge": 1})
    assert got.chips == 16
    assert got.neuroncores == 128
    assert got.hbm_bytes == 1_536 * 2**30
    assert got.hbm_bytes_per_s == pytest.approx(46.4e12)
    assert got.fp8_dense_flops == pytest.approx(20.8e15, rel=0.01)
    assert got.bf16_dense_flops == pytest.approx(10.7e15, rel=0.01)
    assert got.torus_links == 32
    assert got.z_links == 0
    assert got.efa_bytes_per_s * 8 == pytest.approx(3.2e12)


def test_ultraserver_totals() -> None:
    """Four trn2u.48xlarge add up to the published totals of a Trn2 UltraServer."""
    got = totals({"trn2u.48xlarge": 4}, ultraservers={"u-trn2x64": 1})
    assert got.chips == 64
    assert got.neuroncores == 512
    assert got.hbm_bytes == 6 * 2**40
    assert got.hbm_bytes_per_s == pytest.approx(185.6e12)
    assert got.fp8_dense_flops == pytest.approx(83.2e15, rel=0.01)
    assert got.bf16_dense_flops == pytest.approx(42.7e15, rel=0.001)
    assert got.torus_links + got.z_links == 192
    assert got.z_links == 64
    assert got.vcpus == 768
    assert got.host_memory_bytes == 8_192 * 2**30


def test_trn1_totals() -> None:
    """Sixteen Trainium1 chips add up to the published totals of trn1.32xlarge."""
    got = totals({"trn1.32xlarge": 1})
    assert got.hbm_bytes == 512 * 2**30
    assert got.hbm_bytes_per_s == pytest.approx(13.12e12)
    assert got.bf16_dense_flops == pytest.approx(3.04e15)
    assert got.efa_bytes_per_s * 8 == pytest.approx(800e9)


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
    assert chip.power_max_w.evidence == "assumed"


def test_unknown_type_names_the_nearest() -> None:
    """An unknown type is refused with the nearest known one."""
    with pytest.raises(ConfigError, match=r"trn2\.48xlarge"):
        catalogue.find_instance_type("trn2.48xlrge")


@pytest.mark.parametrize("chip", CHIP_TYPES.values(), ids=CHIP_TYPES)
def test_no_wattage_or_temperature_is_published(chip: catalogue.ChipType) -> None:
    """All are assumed: AWS publishes no wattage, and no Neuron interface has a temperature."""
    figures = [
        chip.power_background_w,
        chip.power_max_w,
        chip.throttle_start_c,
        chip.throttle_limit_c,
    ]
    for cooling in (chip.air, chip.liquid):
        figures += [cooling.thermal_resistance_c_per_w, cooling.thermal_time_constant_s]
    assert {figure.evidence for figure in figures} == {"assumed"}


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
