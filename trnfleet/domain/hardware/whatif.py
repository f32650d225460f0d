"""What-if: figures of different hardware side by side, and time and price of training.

Figures are peaks of the hardware catalogue. Nothing is simulated.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from trnfleet.domain.hardware.catalogue import (
    INSTANCE_TYPES,
    ULTRASERVER_TYPES,
    InstanceType,
    Totals,
    UltraServerType,
    present_name,
    totals,
)
from trnfleet.domain.hardware.comparators import ACCELERATED_TYPES, AcceleratedType
from trnfleet.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trnfleet.domain.hardware.kinds import Claim, Figure

Dtype = Literal["bf16", "fp8", "fp32"]

FLOPS_PER_PARAMETER_AND_TOKEN = 6.0
"""Forward and backward pass of a dense model: the usual estimate."""
STATE_BYTES_PER_PARAMETER = 16.0
"""Weight and gradient in BF16, Adam's moments and the FP32 weight: derived."""

_PEAKS: dict[Dtype, str] = {
    "bf16": "bf16_dense_flops",
    "fp8": "fp8_dense_flops",
    "fp32": "fp32_flops",
}


@dataclass(frozen=True, slots=True)
class Hardware:
    """One side of a comparison: a fleet, a job's hardware, an UltraServer or an instance."""

    name: str
    title: str
    chips: float
    chip_titles: tuple[str, ...]
    """Kinds of its chips."""
    figures: Mapping[str, float]
    """Sums by name, in SI units: peaks, memory, bandwidths, power and price an hour."""
    assumed: Mapping[str, str] = field(default_factory=dict)
    """Sources of assumed figures, by name."""
    published: Mapping[str, float] = field(default_factory=dict)
    """AWS's published values for the same, by name."""
    claims: tuple[Claim, ...] = ()
    """Quantities about which sources disagree."""

    def scaled(self, chips: float) -> Hardware:
        """Return the same hardware scaled to a number of chips."""
        factor = chips / self.chips
        figures = {name: value * factor for name, value in self.figures.items()}
        return Hardware(
            self.name, self.title, chips, self.chip_titles, figures, self.assumed, {}, self.claims
        )

    def ratio(self, figure: str, per: str) -> float:
        """Return one figure for a unit of another."""
        return self.figures[figure] / self.figures[per]


class Training(NamedTuple):
    """A model to train, and how well the hardware is used."""

    parameters: float
    tokens: float
    mfu: float = 0.40
    dtype: Dtype = "bf16"

    @property
    def flops(self) -> float:
        """All of the training's useful FLOPs."""
        return FLOPS_PER_PARAMETER_AND_TOKEN * self.parameters * self.tokens

    @property
    def state_bytes(self) -> float:
        """Weights, gradients and the optimizer's state."""
        return STATE_BYTES_PER_PARAMETER * self.parameters


class Estimate(NamedTuple):
    """Cost of a training on some hardware."""

    elapsed_s: float
    cost_usd: float
    energy_j: float
    """At maximum power."""
    fits: bool
    """Whether its HBM holds the training's state."""


def estimate(training: Training, hardware: Hardware) -> Estimate:
    """Return the cost of a training."""
    figures = hardware.figures
    elapsed_s = training.flops / (figures[_PEAKS[training.dtype]] * training.mfu)
    return Estimate(
        elapsed_s,
        elapsed_s / 3_600 * figures["price_usd_per_h"],
        elapsed_s * figures["power_max_w"],
        training.state_bytes <= figures["hbm_bytes"],
    )


def hardware_names() -> tuple[str, ...]:
    """Return the names valid in `hardware_called`: types, UltraServers, aliases, families."""
    aliases = [alias for kind in ULTRASERVER_TYPES.values() for alias in kind.aliases]
    return (*ULTRASERVER_TYPES, *aliases, *INSTANCE_TYPES, *ACCELERATED_TYPES, *_families())


def hardware_called(name: str) -> Hardware | None:
    """Return an UltraServer, an instance, or the largest of a family; None if unknown."""
    name = name.lower()
    for kind in ULTRASERVER_TYPES.values():
        if name in {kind.name, *kind.aliases}:
            return of_ultraserver(kind)
    name = present_name(_families().get(name, name))
    if name in ACCELERATED_TYPES:
        return _of_accelerated(ACCELERATED_TYPES[name])
    return _of_instance(INSTANCE_TYPES[name]) if name in INSTANCE_TYPES else None


def of_ultraserver(kind: UltraServerType) -> Hardware:
    """Return an UltraServer."""
    return of_fleet(
        kind.name, kind.title or kind.name, {kind.instance.name: kind.instances}, {kind.name: 1}
    )


def of_fleet(
    name: str,
    title: str,
    instances: Mapping[str, int],
    ultraservers: Mapping[str, int] | None = None,
) -> Hardware:
    """Return a fleet, or a part of it.

    Args:
        name: Its name.
        title: Its description.
        instances: Number of instances by type.
        ultraservers: Number of whole UltraServers by type among them.
    """
    ultraservers = ultraservers or {}
    kinds = [INSTANCE_TYPES[instance] for instance in instances]
    chips = {kind.chip.title: kind.chip for kind in kinds}
    assumed = {
        "power_max_w": _assumed({title: chip.power_max_w for title, chip in chips.items()}),
        "price_usd_per_h": _assumed({kind.name: kind.price_usd_per_h for kind in kinds}),
    }
    claims = [
        claim for ultraserver in ultraservers for claim in ULTRASERVER_TYPES[ultraserver].claims
    ]
    claims += [claim for chip in chips.values() for claim in chip.claims]
    return Hardware(
        name=name,
        title=title,
        chips=sum(INSTANCE_TYPES[instance].chips * count for instance, count in instances.items()),
        chip_titles=tuple(chips),
        figures=_figures(totals(instances, ultraservers), _links(kinds, instances)),
        assumed={figure: source for figure, source in assumed.items() if source},
        published=_published(instances, ultraservers),
        claims=tuple(claims),
    )


def disagreements(subjects: Iterable[Hardware]) -> list[Claim]:
    """Return the quantities of the subjects with conflicting sources, each once."""
    claims: list[Claim] = []
    for subject in subjects:
        claims.extend(claim for claim in subject.claims if claim not in claims)
    return claims


def parse_training(text: str, mfu: float, dtype: Dtype) -> Training:
    """Return the training described by `PARAMETERS:TOKENS`: `300e9:6e12` or `300B:6T`.

    Raises:
        ConfigError: it is not that.
    """
    first, colon, second = text.partition(":")
    parameters = _number(first)
    tokens = _number(second)
    if not colon or parameters is None or tokens is None:
        raise ConfigError(
            f"--train {text!r}: write PARAMETERS:TOKENS, each above 0 and at most 1e18, such as"
            " 300e9:6e12 or 300B:6T"
        )
    return Training(parameters, tokens, mfu, dtype)


def _number(text: str) -> float | None:
    suffixes = {"k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}
    text = text.strip().lower().replace("_", "")
    factor = suffixes.get(text[-1:], 1.0)
    try:
        value = float(text[:-1] if text[-1:] in suffixes else text) * factor
    except ValueError:
        return None
    return value if 0 < value <= 1e18 else None


def _families() -> dict[str, str]:
    """Return the largest standalone instance type of each family."""
    largest: dict[str, str] = {}
    for name, kind in sorted(INSTANCE_TYPES.items(), key=lambda item: item[1].chips):
        if kind.between is None:
            largest[kind.family] = name
    return largest | {name.partition(".")[0]: name for name in ACCELERATED_TYPES}


def _of_instance(kind: InstanceType) -> Hardware:
    return of_fleet(kind.name, kind.name, {kind.name: 1})


def _published(
    instances: Mapping[str, int], ultraservers: Mapping[str, int]
) -> Mapping[str, float]:
    """Return AWS's published totals of one UltraServer or one instance."""
    for kind in [ULTRASERVER_TYPES[name] for name in ultraservers]:
        if dict(instances) == {kind.instance.name: kind.instances}:
            return kind.published
    return INSTANCE_TYPES[next(iter(instances))].published if sum(instances.values()) == 1 else {}


def _figures(sums: Totals, link_bytes_per_s: float) -> dict[str, float]:
    return {
        "fp8_dense_flops": sums.fp8_dense_flops,
        "bf16_dense_flops": sums.bf16_dense_flops,
        "sparse_flops": sums.sparse_flops,
        "fp32_flops": sums.fp32_flops,
        "hbm_bytes": float(sums.hbm_bytes),
        "hbm_bytes_per_s": sums.hbm_bytes_per_s,
        "link_bytes_per_s": link_bytes_per_s,
        "network_bytes_per_s": sums.efa_bytes_per_s,
        "chip_power_max_w": sums.chip_power_max_w,
        "power_max_w": sums.chip_power_max_w + sums.host_power_max_w,
        "price_usd_per_h": sums.price_usd_per_h,
    }


def _links(kinds: Sequence[InstanceType], instances: Mapping[str, int]) -> float:
    """Return the bandwidth of all links' ends, each way."""
    return sum(
        instances[kind.name] * figure.value * (mask >> lane & 1)
        for kind in kinds
        for mask in kind.chip_masks
        for lane in range(len(kind.lanes))
        if (figure := kind.lane_bytes_per_s(lane)) is not None
    )


def _assumed(figures: Mapping[str, Figure]) -> str:
    return "; ".join(
        f"{name}: {figure.source}"
        for name, figure in figures.items()
        if figure.evidence != "published"
    )


def _of_accelerated(kind: AcceleratedType) -> Hardware:
    gpu = kind.gpu
    count = kind.gpus
    sums = Totals(
        chips=count,
        hbm_bytes=round(count * gpu.hbm_bytes.value),
        hbm_bytes_per_s=count * gpu.hbm_bytes_per_s.value,
        fp8_dense_flops=count * gpu.fp8_dense_flops.value,
        bf16_dense_flops=count * gpu.bf16_dense_flops.value,
        sparse_flops=count * gpu.sparse_flops.value,
        fp32_flops=count * gpu.fp32_flops.value,
        efa_bytes_per_s=kind.efa_bytes_per_s.value,
        chip_power_max_w=count * gpu.power_max_w.value,
        host_power_max_w=kind.host_power_max_w.value,
        price_usd_per_h=kind.price_usd_per_h.value,
    )
    assumed = {
        "power_max_w": _assumed({f"host of {kind.name}": kind.host_power_max_w}),
        "price_usd_per_h": _assumed({kind.name: kind.price_usd_per_h}),
    }
    return Hardware(
        name=kind.name,
        title=kind.name,
        chips=count,
        chip_titles=(gpu.title,),
        figures=_figures(sums, count * gpu.link_bytes_per_s.value / 2),
        assumed={figure: source for figure, source in assumed.items() if source},
    )
