"""Published claims of one generation over another, beside the catalogue's values.

Computed, never written down.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.hardware.comparators import ACCELERATED_TYPES
from trnfleet.domain.hardware.whatif import Hardware, Training, estimate, hardware_called

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


TOLERANCE = 0.10
"""Largest relative difference at which the catalogue agrees with a claim. Claims are rounded to one
digit."""

_BLOG = "AWS blog at the launch of Trn2, 2024-12"
_REINVENT_2023 = "AWS at the announcement of Trainium2, 2023-11"
_REINVENT_2024 = "AWS at the announcement of Trainium3, 2024-12"
_TRN3 = "AWS at the launch of Trn3 UltraServers, 2025-12"
_WATTS = "both wattages are assumed"
_RAINIER = "AWS news on Project Rainier, 2025-10-29"


class PublishedClaim(NamedTuple):
    """A claim about two kinds of hardware, or about one."""

    subject: str
    claim: str
    about: frozenset[str]
    """Titles of the chips compared; the claim is shown where all of them are."""
    low: float
    high: float
    unit: str
    """`x` for a ratio, else the unit."""
    basis: str
    """The catalogue's calculation for it."""
    source: str
    computed: Callable[[], float]
    note: str = ""

    @property
    def value(self) -> float:
        """The catalogue's value."""
        return self.computed()

    @property
    def agrees(self) -> bool:
        """Whether the catalogue is within `TOLERANCE` of the claim."""
        return self.low * (1 - TOLERANCE) <= self.value <= self.high * (1 + TOLERANCE)

    @property
    def verdict(self) -> str:
        """`agrees`, or how the catalogue differs: of a time `sooner` or `later`."""
        if self.agrees:
            return "agrees"
        if self.unit == "days":
            return "sooner" if self.value < self.low else "later"
        return "disagrees: lower" if self.value < self.low else "disagrees: higher"


def _hardware(name: str) -> Hardware:
    hardware = hardware_called(name)
    if hardware is None:
        raise KeyError(name)
    return hardware


def _over(hardware: str, other: str, figure: str, per: str = "") -> Callable[[], float]:
    """Return the ratio of a figure between two kinds of hardware.

    Optionally of the figure per unit of another figure.
    """

    def figure_of(name: str) -> float:
        subject = _hardware(name)
        return subject.ratio(figure, per) if per else subject.figures[figure]

    return lambda: figure_of(hardware) / figure_of(other)


_trn2_over_trn1 = partial(_over, "trn2.48xlarge", "trn1.32xlarge")
_gen1_over_trn2 = partial(_over, "u-trn3x64", "u-trn2x64")
_gen2_over_trn2 = partial(_over, "u-trn3x144", "u-trn2x64")


def _trn2_100k() -> Hardware:
    return _hardware("trn2.48xlarge").scaled(100_000)


_TRN2_TRN1 = frozenset({"Trainium2", "Trainium1"})
_TRN3_TRN2 = frozenset({"Trainium3", "Trainium2"})

_P5 = tuple(
    PublishedClaim(
        f"trn2.48xlarge over {name}",
        "30 to 40 % better price-performance",
        frozenset({"Trainium2", ACCELERATED_TYPES[name].gpu.title}),
        1.3,
        1.4,
        "x",
        f"dense {what} for a dollar",
        _BLOG,
        _over("trn2.48xlarge", name, figure, "price_usd_per_h"),
        "peaks at list prices of different days, not a workload"
        + ("; price assumed" if name == "p5en.48xlarge" else ""),
    )
    for name in ("p5e.48xlarge", "p5en.48xlarge")
    for what, figure in (("BF16", "bf16_dense_flops"), ("FP8", "fp8_dense_flops"))
)

PUBLISHED_CLAIMS: tuple[PublishedClaim, ...] = (
    PublishedClaim(
        "trn2.48xlarge over trn1.32xlarge",
        "4 x the speed",
        _TRN2_TRN1,
        4,
        4,
        "x",
        "dense BF16",
        _BLOG,
        _trn2_over_trn1("bf16_dense_flops"),
    ),
    PublishedClaim(
        "trn2.48xlarge over trn1.32xlarge",
        "4 x the speed",
        _TRN2_TRN1,
        4,
        4,
        "x",
        "dense FP8",
        _BLOG,
        _trn2_over_trn1("fp8_dense_flops"),
    ),
    PublishedClaim(
        "trn2.48xlarge over trn1.32xlarge",
        "4 x the HBM bandwidth",
        _TRN2_TRN1,
        4,
        4,
        "x",
        "HBM bandwidth",
        _BLOG,
        _trn2_over_trn1("hbm_bytes_per_s"),
    ),
    PublishedClaim(
        "trn2.48xlarge over trn1.32xlarge",
        "3 x the memory",
        _TRN2_TRN1,
        3,
        3,
        "x",
        "HBM",
        _BLOG,
        _trn2_over_trn1("hbm_bytes"),
    ),
    PublishedClaim(
        "Trainium2 over Trainium1",
        "2 x the performance per watt",
        _TRN2_TRN1,
        2,
        2,
        "x",
        "dense BF16 for a watt of the chips",
        _REINVENT_2023,
        _trn2_over_trn1("bf16_dense_flops", "chip_power_max_w"),
        _WATTS,
    ),
    PublishedClaim(
        "Trainium2 over Trainium1",
        "2 x the performance per watt",
        _TRN2_TRN1,
        2,
        2,
        "x",
        "dense FP8 for a watt of the chips",
        _REINVENT_2023,
        _trn2_over_trn1("fp8_dense_flops", "chip_power_max_w"),
        _WATTS,
    ),
    PublishedClaim(
        "100,000 chips of Trainium2",
        "65 EFLOP/s",
        frozenset({"Trainium2"}),
        65,
        65,
        "EFLOP/s",
        "dense BF16",
        _REINVENT_2023,
        lambda: _trn2_100k().figures["bf16_dense_flops"] / 1e18,
    ),
    PublishedClaim(
        "100,000 chips of Trainium2",
        "a model of 300B parameters in weeks, not months",
        frozenset({"Trainium2"}),
        7,
        28,
        "days",
        "dense BF16",
        _REINVENT_2023,
        lambda: estimate(Training(300e9, 20 * 300e9, mfu=0.4), _trn2_100k()).elapsed_s / 86_400,
        "20 tokens a parameter and an MFU of 0.4 are assumed",
    ),
    PublishedClaim(
        "Trn3 UltraServer Gen2 over Trn2 UltraServer",
        "4.4 x the compute",
        _TRN3_TRN2,
        4.4,
        4.4,
        "x",
        "dense FP8",
        _TRN3,
        _gen2_over_trn2("fp8_dense_flops"),
    ),
    PublishedClaim(
        "Trn3 UltraServer Gen2 over Trn2 UltraServer",
        "almost 4 x the memory bandwidth",
        _TRN3_TRN2,
        4,
        4,
        "x",
        "HBM bandwidth",
        _TRN3,
        _gen2_over_trn2("hbm_bytes_per_s"),
    ),
    PublishedClaim(
        "Trn3 UltraServer Gen2 over Trn2 UltraServer",
        "4 x the performance per watt",
        _TRN3_TRN2,
        4,
        4,
        "x",
        "dense FP8 for a watt of the chips",
        _TRN3,
        _gen2_over_trn2("fp8_dense_flops", "chip_power_max_w"),
        _WATTS,
    ),
    PublishedClaim(
        "Trainium3 over Trainium2",
        "2 x the performance",
        _TRN3_TRN2,
        2,
        2,
        "x",
        "dense FP8 of 64 chips",
        _REINVENT_2024,
        _gen1_over_trn2("fp8_dense_flops"),
    ),
    PublishedClaim(
        "Trainium3 over Trainium2",
        "40 % better energy efficiency",
        _TRN3_TRN2,
        1.4,
        1.4,
        "x",
        "dense FP8 for a watt of the chips",
        _REINVENT_2024,
        _gen1_over_trn2("fp8_dense_flops", "chip_power_max_w"),
        "no proof: Trainium3's watts are derived from this claim",
    ),
    *_P5,
)
"""Claims of one generation over another, and of absolute figures, with their sources."""


class Statement(NamedTuple):
    """A published statement that no figure of the catalogue can be compared with."""

    chips: tuple[str, ...]
    """Titles of the chips it is about."""
    text: str
    source: str


_TRN2 = ("Trainium2",)
STATEMENTS: tuple[Statement, ...] = (
    Statement(
        ("Trainium1", "Inferentia2"),
        "more than 80,000 Trainium and Inferentia chips served shoppers on Prime Day 2024",
        "AWS machine learning blog, 2024",
    ),
    Statement(_TRN2, "made in 5 nm", "The Register, 2024-12"),
    Statement(_TRN2, "EFA v3 has half the latency of the version before", _BLOG),
    Statement(_TRN2, "UltraClusters have FSx for Lustre as storage", _BLOG),
    Statement(
        _TRN2,
        "runs Llama 3.1 405B on Bedrock over 3 x as fast as other large clouds do",
        "AWS at the launch of Trn2, 2024-12",
    ),
    Statement(_TRN2, "runs Claude 3.5 Haiku on Bedrock, optimised for latency", _BLOG),
    Statement(
        _TRN2,
        "Apple, early in its evaluation, expects pre-training to be up to 50 % more efficient",
        "Apple at AWS re:Invent, 2024-12",
    ),
    Statement(_TRN2, "Project Rainier went into use with nearly 500,000 chips", _RAINIER),
    Statement(
        _TRN2,
        "Claude to be trained and served on more than 1 million chips by the end of 2025",
        _RAINIER,
    ),
    Statement(("Trainium3",), "made in 3 nm", _REINVENT_2024),
)


def statements_about(chip_titles: Iterable[str]) -> list[Statement]:
    """Return the statements about any of some kinds of chips."""
    titles = set(chip_titles)
    return [statement for statement in STATEMENTS if titles & set(statement.chips)]


def claims_about(subjects: Iterable[Hardware]) -> list[PublishedClaim]:
    """Return the claims that compare chips of the subjects."""
    present = {title for subject in subjects for title in subject.chip_titles}
    return [claim for claim in PUBLISHED_CLAIMS if claim.about <= present]
