"""The catalogue's generations against published values and conflicting sources."""

from __future__ import annotations

import pytest

from trnfleet.config import validate
from trnfleet.domain.fleet import FleetFile, expand, instances_of, lnc_by_instance
from trnfleet.domain.hardware.catalogue import (
    INSTANCE_TYPES,
    ULTRASERVER_TYPES,
    find_instance_type,
    find_ultraserver_type,
    links_bytes_per_s,
    present_name,
    totals,
    ultraserver_type_of,
)
from trnfleet.domain.hardware.claims import PUBLISHED_CLAIMS
from trnfleet.domain.hardware.comparators import ACCELERATED_TYPES
from trnfleet.domain.hardware.topology import DIRECTIONS, TopologyKind
from trnfleet.domain.layout import Layout
from trnfleet.domain.reservations.market import Market
from trnfleet.errors import ConfigError

PUBLISHED_INSTANCES = {
    # chips, vCPUs, host GiB, dense BF16 PF, FP32 PF, HBM GiB, HBM TB/s; AWS Neuron SDK 2.32,
    # architecture pages.
    "trn1.2xlarge": (1, 8, 32, 0.19, 0.0475, 32, 0.82),
    "trn1.32xlarge": (16, 128, 512, 3.04, 0.76, 512, 13.12),
    "trn1n.32xlarge": (16, 128, 512, 3.04, 0.76, 512, 13.12),
    "inf2.xlarge": (1, 4, 16, 0.19, 0.0475, 32, 0.82),
    "inf2.8xlarge": (1, 32, 128, 0.19, 0.0475, 32, 0.82),
    "inf2.24xlarge": (6, 96, 384, 1.14, 0.285, 192, 4.92),
    "inf2.48xlarge": (12, 192, 768, 2.28, 0.57, 384, 9.84),
    "trn2.3xlarge": (1, 12, 128, 0.667, 0.181, 96, 2.9),
    "trn2.48xlarge": (16, 192, 2_048, 10.7, 2.9, 1_536, 46.4),
    "trn2u.48xlarge": (16, 192, 2_048, 10.7, 2.9, 1_536, 46.4),
}
PUBLISHED_ULTRASERVERS = {
    # instances, chips, vCPUs, host GiB, dense FP8 PF, dense BF16 PF, FP32 PF, HBM GiB, HBM TB/s,
    # EFA Gb/s
    "u-trn2x64": (4, 64, 768, 8_192, 83.2, 42.8, 11.6, 6_144, 185.6, 12_800),
    "u-trn3x64": (4, 64, 768, 8_192, 161.1, 42.9, 11.7, 9_216, 313.6, 12_800),
    "u-trn3x144": (36, 144, 2_304, 27_648, 362.4, 96.6, 26.4, 20_736, 705.6, 28_800),
}


@pytest.mark.parametrize("name", PUBLISHED_INSTANCES)
def test_instances_add_up_to_what_is_published(name: str) -> None:
    got = totals({name: 1})
    kind = INSTANCE_TYPES[name]
    chips, vcpus, host_gib, bf16_pf, fp32_pf, hbm_gib, hbm_tb = PUBLISHED_INSTANCES[name]
    assert (got.chips, got.vcpus, got.host_memory_bytes >> 30) == (chips, vcpus, host_gib)
    assert got.hbm_bytes == hbm_gib * 2**30
    assert got.bf16_dense_flops == pytest.approx(bf16_pf * 1e15, rel=0.005)
    assert got.fp32_flops == pytest.approx(fp32_pf * 1e15, rel=0.005)
    assert got.hbm_bytes_per_s == pytest.approx(hbm_tb * 1e12)
    for figure, value in kind.published.items():
        assert getattr(got, figure) == pytest.approx(value, rel=0.005), figure


@pytest.mark.parametrize("name", PUBLISHED_ULTRASERVERS)
def test_ultraservers_add_up_to_what_is_published(name: str) -> None:
    kind = ULTRASERVER_TYPES[name]
    got = totals({kind.instance.name: kind.instances}, {name: 1})
    instances, chips, vcpus, host_gib, fp8_pf, bf16_pf, fp32_pf, hbm_gib, hbm_tb, efa_gb = (
        PUBLISHED_ULTRASERVERS[name]
    )
    assert (kind.instances, got.chips, got.vcpus, got.host_memory_bytes >> 30) == (
        instances,
        chips,
        vcpus,
        host_gib,
    )
    assert got.fp8_dense_flops == pytest.approx(fp8_pf * 1e15, rel=0.001)
    assert got.bf16_dense_flops == pytest.approx(bf16_pf * 1e15, rel=0.003)
    assert got.fp32_flops == pytest.approx(fp32_pf * 1e15, rel=0.003)
    assert got.hbm_bytes == hbm_gib * 2**30
    assert got.hbm_bytes_per_s == pytest.approx(hbm_tb * 1e12)
    assert got.efa_bytes_per_s * 8 == pytest.approx(efa_gb * 1e9)
    for figure, value in kind.published.items():
        assert getattr(got, figure) == pytest.approx(value, rel=0.003), figure


def test_trn3_gen1_has_the_lanes_of_trn2_and_twice_their_bandwidth() -> None:
    """By the Neuron driver: the same torus and ring.

    Its lanes add up to NeuronLink-v4's 2,560 GB/s a chip, both ways.
    """
    gen1 = INSTANCE_TYPES["trn3p.48xlarge"]
    trn2 = INSTANCE_TYPES["trn2u.48xlarge"]
    assert gen1.lane_names == trn2.lane_names == DIRECTIONS
    assert 2 * links_bytes_per_s(gen1.chip) == pytest.approx(2_560e9)
    assert links_bytes_per_s(gen1.chip) == pytest.approx(2 * links_bytes_per_s(trn2.chip))


def test_trn3_gen2_joins_all_to_all_through_ports() -> None:
    """Each level of switches is one lane of a chip.

    4, 5 and 2 links of PCIe Gen6 x8, with 64 GB/s each way.
    """
    kind = INSTANCE_TYPES["trn3e.24xlarge"]
    assert kind.lane_names == ("sled", "server", "rack")
    rates = [figure.value for lane in range(3) if (figure := kind.lane_bytes_per_s(lane))]
    assert rates == [256e9, 320e9, 128e9]
    assert all(kind.is_port(lane) for lane in range(3))
    assert [kind.is_between(lane) for lane in range(3)] == [False, True, True]
    assert find_ultraserver_type("u-trn3x144").topology.neighbours(0) == set(range(1, 36))


def test_inferentia2_is_a_ring_or_a_line() -> None:
    assert INSTANCE_TYPES["inf2.48xlarge"].topology.kind is TopologyKind.RING
    line = INSTANCE_TYPES["inf2.24xlarge"]
    assert (line.topology.kind, line.topology.links, line.lane_names) == (
        TopologyKind.LINE,
        5,
        ("prev", "next"),
    )
    assert not any(
        INSTANCE_TYPES[name].has_efa for name in INSTANCE_TYPES if name.startswith("inf2")
    )


def test_sources_that_differ_have_both_figures_with_their_source() -> None:
    """The SDK's value is used; the launch's is listed beside it."""
    chip = INSTANCE_TYPES["trn2.48xlarge"].chip
    sparse = next(claim for claim in chip.claims if "sparse" in claim.subject)
    assert chip.sparse_flops is not None
    assert sparse.used.value == chip.sparse_flops.value
    assert [figure.value for figure in sparse.others] == [5.2e15]
    kinds = [kind.chip for kind in INSTANCE_TYPES.values()] + list(ULTRASERVER_TYPES.values())
    claims = [claim for kind in kinds for claim in kind.claims]
    assert all(figure.source for claim in claims for figure in (claim.used, *claim.others))
    subjects = [claim.subject for claim in dict.fromkeys(claims)]
    assert len(set(subjects)) == len(subjects), "two figures under one name"


def test_claims_are_computed_and_disagreements_named() -> None:
    """The catalogue's value for each claim, and whether it agrees within a tenth."""
    found = {
        (claim.claim, claim.basis): claim
        for claim in PUBLISHED_CLAIMS
        if claim.subject.startswith("trn2.48xlarge over trn1")
    }
    speed = found["4 x the speed", "dense BF16"]
    fp8 = found["4 x the speed", "dense FP8"]
    assert speed.value == pytest.approx(3.51, abs=0.01)
    assert (speed.verdict, fp8.verdict) == ("disagrees: lower", "disagrees: higher")
    assert found["4 x the HBM bandwidth", "HBM bandwidth"].value == pytest.approx(3.54, abs=0.01)
    assert found["3 x the memory", "HBM"].verdict == "agrees"
    by_claim = {claim.claim: claim for claim in PUBLISHED_CLAIMS}
    assert by_claim["4.4 x the compute"].value == pytest.approx(4.36, abs=0.01)
    assert by_claim["4.4 x the compute"].agrees
    assert by_claim["65 EFLOP/s"].agrees
    weeks = by_claim["a model of 300B parameters in weeks, not months"]
    assert (weeks.unit, weeks.verdict, weeks.agrees) == ("days", "sooner", False)
    assert weeks.value == pytest.approx(4.69, abs=0.01)
    watts = by_claim["40 % better energy efficiency"]
    assert (watts.verdict, "derived from this claim" in watts.note) == ("agrees", True)
    assert all("price" in claim.note for claim in PUBLISHED_CLAIMS if "p5" in claim.subject)


def fleet(**cluster: object) -> FleetFile:
    return validate({"name": "f", "clusters": [{"name": "uc1", **cluster}]}, FleetFile, "f.toml")


def test_lnc_of_a_fleet_file() -> None:
    """A run sets the physical cores per logical core; other instances have the chip's default."""
    file = fleet(
        ultraservers=[{"count": 1, "lnc": 1}], instances=[{"type": "trn2.48xlarge", "count": 2}]
    )
    assert lnc_by_instance(file) == {f"uc1/us-0001/trn2u-0001-{place}": 1 for place in range(4)}
    assert len(expand(file)) == 6


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ({"type": "trn1.32xlarge", "count": 1, "lnc": 2}, r"lnc = 2: a Trainium1 .*choose 1"),
        ({"type": "trn2.48xlarge", "count": 1, "lnc": 4}, r"lnc = 4: a Trainium2 .*choose 1 or 2"),
        ({"type": "p5en.48xlarge", "count": 1}, r"for comparison only \(trnfleet fleet compare\)"),
        ({"type": "inf2.48xlrge", "count": 1}, r"did you mean 'inf2.48xlarge'\?"),
        (
            {"type": "trn2.48xlarge", "count": 1, "lnc": "1"},
            r"lnc = '1': a Trainium2 .*choose 1 or 2",
        ),
        ({"type": "trn1.32xlarge", "count": 1, "lnc": "1"}, r"lnc = '1': a Trainium1 .*choose 1$"),
        (
            {"type": "trn2.48xlarge", "count": 1, "lnc": True},
            r"lnc = True: a Trainium2 .*choose 1 or 2",
        ),
        (
            {"type": "trn2.48xlrge", "count": 1, "lnc": 3},
            r"type = 'trn2.48xlrge'.*did you mean 'trn2.48xlarge'",
        ),
        (
            {"type": "inf1.xlarge", "count": 1},
            r"does not know inf1; it knows inf2, trn1, trn2, trn3$",
        ),
        ({"type": "trn3.49xlarge", "count": 1}, r"did you mean 'trn3.48xlarge'\?"),
    ],
)
def test_wrong_hardware_is_refused_with_what_is_right(run: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        fleet(instances=[run])


@pytest.mark.parametrize(
    ("other", "name", "chips"),
    [
        ("trn2n.48xlarge", "trn2u.48xlarge", 16),
        ("trn3s.16xlarge", "trn3e.24xlarge", 4),
        ("trn3sn.48xlarge", "trn3.48xlarge", 16),
        ("trn3s-es.48xlarge", "trn3.48xlarge", 16),
        ("trn3sn-es.48xlarge", "trn3.48xlarge", 16),
        ("trn3sn.3xlarge", "trn3pd98.3xlarge", 1),
        ("trn3p.48xlarge", "trn3p.48xlarge", 16),
        ("trn9.48xlarge", "trn9.48xlarge", 0),
    ],
)
def test_other_names_are_those_of_the_catalogue(other: str, name: str, chips: int) -> None:
    """Names that older files and the Neuron driver have; an unknown one stays as it is."""
    assert present_name(other) == name
    if chips:
        assert find_instance_type(other).chips == chips


def test_a_fleet_file_may_have_other_names_of_a_type() -> None:
    """An older file makes the same instances, and its addresses and prices are understood."""
    older = {"type": "trn3s.16xlarge", "count": 1, "lnc": 1}
    layout = Layout.of(expand(fleet(instances=[older])))
    assert [kind.name for kind in layout.types] == ["trn3e.24xlarge"]
    assert instances_of(layout, ("uc1/standalone/trn3s-0001",), "job") == [range(1)]
    market = Market(prices={"trn3s.16xlarge": "7"}, sells=("trn3s.16xlarge",))
    assert market.price_per_h("trn3e.24xlarge") == 7
    assert market.sells == ("trn3e.24xlarge",)


def test_trn3_gen1_is_switched_with_all_of_a_chips_bandwidth() -> None:
    """The torus of trn3p.48xlarge, as in older recordings, has an UltraServer of its own."""
    gen1 = find_ultraserver_type("u-trn3x64")
    assert gen1.instance.name == "trn3.48xlarge"
    lanes = range(len(gen1.instance.lanes))
    assert all(gen1.instance.is_port(lane) for lane in lanes)
    rates = [figure.value for lane in lanes if (figure := gen1.instance.lane_bytes_per_s(lane))]
    assert 2 * sum(rates) == pytest.approx(2_560e9)
    torus = ultraserver_type_of("trn3p.48xlarge")
    assert torus is not None
    assert (torus.name, torus.topology.kind) == ("u-trn3px64", TopologyKind.RING)


def test_an_ultraserver_by_its_alias_is_refused_with_its_type() -> None:
    """What `trnfleet fleet compare` calls `trn3` is Gen2."""
    with pytest.raises(
        ConfigError, match=r"unknown UltraServer type 'trn3': did you mean 'u-trn3x144'\?"
    ):
        fleet(ultraservers=[{"type": "trn3", "count": 1}])


def test_other_accelerators_are_catalogue_only() -> None:
    """They have figures with sources, and are no type that an instance can be of."""
    for name, kind in ACCELERATED_TYPES.items():
        with pytest.raises(ConfigError):
            find_instance_type(name)
        assert kind.gpu.fp8_dense_flops.source
        assert kind.price_usd_per_h.source
