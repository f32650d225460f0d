"""EC2 instances with other accelerators, for comparison only.

Never simulated, placed or published.
"""

from __future__ import annotations

from dataclasses import dataclass

from trnfleet.domain.hardware.kinds import GIB, GIGA, TERA, Figure

_H100_SHEET = "NVIDIA's data sheet of H100 SXM"
_H200_SHEET = "NVIDIA's data sheet of H200 SXM"
_HALF = ", half of what it says with sparsity"
_PRICES = "AWS's price list of Capacity Blocks, end of 2024"
_DGX = "a DGX H100 takes 10.2 kW at most, eight times 700 W of it for its GPUs"


@dataclass(frozen=True, slots=True)
class Gpu:
    """Another maker's accelerator."""

    title: str
    fp8_dense_flops: Figure
    bf16_dense_flops: Figure
    sparse_flops: Figure
    """Of FP8, with structured sparsity."""
    fp32_flops: Figure
    hbm_bytes: Figure
    hbm_bytes_per_s: Figure
    link_bytes_per_s: Figure
    """All links of a GPU, both ways."""
    power_max_w: Figure


@dataclass(frozen=True, slots=True)
class AcceleratedType:
    """An EC2 instance type with such accelerators."""

    name: str
    gpu: Gpu
    gpus: int
    vcpus: int
    host_memory_bytes: int
    efa_bytes_per_s: Figure
    host_power_max_w: Figure
    price_usd_per_h: Figure


def _gpu(title: str, sheet: str, hbm_gb: int, hbm_tb_per_s: float) -> Gpu:
    return Gpu(
        title=title,
        fp8_dense_flops=Figure(1_979 * TERA, "FLOP/s", sheet + _HALF, "derived"),
        bf16_dense_flops=Figure(989.5 * TERA, "FLOP/s", sheet + _HALF, "derived"),
        sparse_flops=Figure(3_958 * TERA, "FLOP/s", sheet),
        fp32_flops=Figure(67 * TERA, "FLOP/s", sheet),
        hbm_bytes=Figure(hbm_gb * GIGA, "bytes", sheet),
        hbm_bytes_per_s=Figure(hbm_tb_per_s * TERA, "bytes/s", sheet),
        link_bytes_per_s=Figure(900 * GIGA, "bytes/s", sheet),
        power_max_w=Figure(700, "W", sheet + ", up to"),
    )


H100 = _gpu("H100", _H100_SHEET, 80, 3.35)
H200 = _gpu("H200", _H200_SHEET, 141, 4.8)


def _p5(name: str, gpu: Gpu, price: Figure) -> AcceleratedType:
    return AcceleratedType(
        name=name,
        gpu=gpu,
        gpus=8,
        vcpus=192,
        host_memory_bytes=2_048 * GIB,
        efa_bytes_per_s=Figure(3_200 / 8 * GIGA, "bytes/s", "AWS's product page of P5"),
        host_power_max_w=Figure(4_600, "W", _DGX, "assumed"),
        price_usd_per_h=price,
    )


ACCELERATED_TYPES = {
    kind.name: kind
    for kind in (
        _p5("p5.48xlarge", H100, Figure(39.33, "USD/h", _PRICES)),
        _p5("p5e.48xlarge", H200, Figure(43.26, "USD/h", _PRICES)),
        _p5("p5en.48xlarge", H200, Figure(43.26, "USD/h", "as p5e.48xlarge", "assumed")),
    )
}
"""By name."""
