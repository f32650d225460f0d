"""The chips of the hardware catalogue: each figure with its unit, source and evidence."""

from __future__ import annotations

import dataclasses

from trnfleet.domain.hardware.kinds import GIB, GIGA, TERA, ChipType, Claim, Cooling, Figure

_SDK = "AWS Neuron SDK 2.32, arch/neuron-hardware/"
TRN1_PAGE = _SDK + "trainium"
INF2_PAGE = _SDK + "inferentia2"
TRN2_PAGE = _SDK + "trainium2"
TRN3_PAGE = _SDK + "trainium3"
TRN1_ARCH = "AWS Neuron SDK 2.32, trn1-arch"
INF2_ARCH = "AWS Neuron SDK 2.32, inf2-arch"
TRN2_ARCH = "AWS Neuron SDK 2.32, trn2-arch"
TRN3_ARCH = "AWS Neuron SDK 2.32, trn3-arch"
NKI = "AWS Neuron SDK 2.32, NKI architecture guide"
NO_WATTAGE = "AWS publishes no wattage"
TRAINIUM3_EFFICIENCY = 1.4
"""Work for a joule against Trainium2. Published: AWS at the announcement of Trainium3, 2024-12."""

TRAINIUM1 = ChipType(
    name="trainium1",
    title="Trainium1",
    neuroncores=2,
    logical_neuroncore_config=1,
    lnc_choices=(1,),
    # Trainium1 computes FP8 at the rate of BF16.
    fp8_dense_flops=Figure(190 * TERA, "FLOP/s", TRN1_PAGE),
    bf16_dense_flops=Figure(190 * TERA, "FLOP/s", TRN1_PAGE),
    sparse_flops=None,
    fp32_flops=Figure(47.5 * TERA, "FLOP/s", TRN1_PAGE),
    hbm_bytes=Figure(32 * GIB, "bytes", TRN1_PAGE),
    hbm_stacks=2,
    # Instance totals (13.12 TB/s for 16 chips) take it as 820e9; the chip's page writes GiB/s.
    hbm_bytes_per_s=Figure(820 * GIGA, "bytes/s", TRN1_ARCH),
    link_bytes_per_s=Figure(
        48 * GIGA, "bytes/s", "384 GB/s a chip over 4 links, both ways: " + TRN1_PAGE, "derived"
    ),
    z_link_bytes_per_s=None,
    power_background_w=Figure(40, "W", NO_WATTAGE, "assumed"),
    power_max_w=Figure(200, "W", NO_WATTAGE, "assumed"),
    air=Cooling(
        Figure(0.20, "degC/W", "40 degC over inlet at maximum power", "assumed"),
        Figure(25, "s", "an air-cooled heat sink", "assumed"),
    ),
    liquid=Cooling(
        Figure(0.10, "degC/W", "20 degC over the coolant at maximum power", "assumed"),
        Figure(8, "s", "a cold plate stores less heat than a heat sink", "assumed"),
    ),
    throttle_start_c=Figure(
        75, "degC", "6 degC above the hottest chip at maximum power and 27 degC", "assumed"
    ),
    throttle_limit_c=Figure(95, "degC", "20 degC above the start", "assumed"),
    device_types=("trainium", "trainium1"),
)

TRAINIUM2 = ChipType(
    name="trainium2",
    title="Trainium2",
    neuroncores=8,
    logical_neuroncore_config=2,
    lnc_choices=(1, 2),
    fp8_dense_flops=Figure(1_299 * TERA, "FLOP/s", TRN2_PAGE),
    bf16_dense_flops=Figure(667 * TERA, "FLOP/s", TRN2_PAGE),
    # Of FP8, FP16, BF16 and TF32: four times the dense rate of 16 bits, twice that of FP8.
    sparse_flops=Figure(2_563 * TERA, "FLOP/s", TRN2_PAGE),
    fp32_flops=Figure(181 * TERA, "FLOP/s", TRN2_PAGE),
    hbm_bytes=Figure(96 * GIB, "bytes", TRN2_PAGE),
    hbm_stacks=4,
    hbm_bytes_per_s=Figure(2.9 * TERA, "bytes/s", TRN2_PAGE),
    link_bytes_per_s=Figure(
        128 * GIGA,
        "bytes/s",
        "1,024 GB/s a chip over 4 torus links, taken as both ways: " + TRN2_PAGE,
        "derived",
    ),
    z_link_bytes_per_s=Figure(
        64 * GIGA,
        "bytes/s",
        "256 GB/s a chip over 2 Z links, taken as both ways: " + TRN2_PAGE,
        "derived",
    ),
    power_background_w=Figure(90, "W", NO_WATTAGE, "assumed"),
    power_max_w=Figure(500, "W", NO_WATTAGE + "; SemiAnalysis estimates about 500 W", "assumed"),
    air=Cooling(
        Figure(0.11, "degC/W", "55 degC over inlet at maximum power", "assumed"),
        Figure(30, "s", "an air-cooled heat sink", "assumed"),
    ),
    liquid=Cooling(
        Figure(0.05, "degC/W", "25 degC over the coolant at maximum power", "assumed"),
        Figure(10, "s", "a cold plate stores less heat than a heat sink", "assumed"),
    ),
    throttle_start_c=Figure(
        85, "degC", "1.5 degC above the hottest chip at maximum power and 27 degC", "assumed"
    ),
    throttle_limit_c=Figure(105, "degC", "20 degC above the start", "assumed"),
    device_types=("trainium2",),
    claims=(
        Claim(
            "sparse FP8 peak of Trainium2",
            Figure(2_563 * TERA, "FLOP/s", TRN2_PAGE),
            (Figure(5_200 * TERA, "FLOP/s", "launch blog, 2024-12: 4 x dense"),),
        ),
        Claim(
            "NeuronLink of Trainium2, both ways",
            Figure(
                1_280 * GIGA, "bytes/s", TRN2_PAGE + ": 1,024 within the instance and 256 between"
            ),
            (
                Figure(2_000 * GIGA, "bytes/s", "launch keynote, 2024-12"),
                Figure(1 * GIGA, "bytes/s", "launch blog, 2024-12: a misprint for 1 TB/s"),
            ),
        ),
        Claim(
            "HBM bandwidth of Trainium2",
            Figure(2.9 * TERA, "bytes/s", TRN2_PAGE),
            (Figure(3.0 * TERA, "bytes/s", NKI),),
        ),
    ),
)

# PCIe Gen6 x8 carries 64 GB/s a direction.
_X8 = 64 * GIGA
SLED_PORT = Figure(
    4 * _X8, "bytes/s", "4 PCIe Gen6 x8 to the switch of a sled, each way: " + TRN3_ARCH, "derived"
)
SERVER_PORT = Figure(
    5 * _X8,
    "bytes/s",
    "5 PCIe Gen6 x8 to the switch between servers, each way: " + TRN3_ARCH,
    "derived",
)
RACK_PORT = Figure(
    2 * _X8, "bytes/s", "2 PCIe Gen6 x8 between racks, each way: " + TRN3_ARCH, "derived"
)

_TRAINIUM3_FP8 = Figure(2_517 * TERA, "FLOP/s", TRN3_PAGE)
TRAINIUM3_POWER = Figure(
    # 692 W, rounded like the figures that it comes from.
    round(
        TRAINIUM2.power_max_w.value
        * (_TRAINIUM3_FP8.value / TRAINIUM2.fp8_dense_flops.value)
        / TRAINIUM3_EFFICIENCY,
        -2,
    ),
    "W",
    NO_WATTAGE
    + "; from about 500 W of Trainium2: x 1.94 for the dense FP8 peak, / 1.4 for AWS's 40 % better"
    " energy efficiency",
    "derived",
)

TRAINIUM3 = ChipType(
    name="trainium3",
    title="Trainium3",
    neuroncores=8,
    logical_neuroncore_config=2,
    lnc_choices=(1, 2),
    # MXFP8, and MXFP4 at the same rate.
    fp8_dense_flops=_TRAINIUM3_FP8,
    bf16_dense_flops=Figure(671 * TERA, "FLOP/s", TRN3_PAGE),
    # For FP16, BF16 and TF32; FP8 has none.
    sparse_flops=Figure(2_517 * TERA, "FLOP/s", TRN3_PAGE),
    fp32_flops=Figure(183 * TERA, "FLOP/s", TRN3_PAGE),
    hbm_bytes=Figure(144 * GIB, "bytes", TRN3_PAGE),
    hbm_stacks=4,
    hbm_bytes_per_s=Figure(4.9 * TERA, "bytes/s", TRN3_PAGE),
    link_bytes_per_s=Figure(
        256 * GIGA,
        "bytes/s",
        "2,048 GB/s a chip over 4 links, taken as both ways: the table of " + TRN3_ARCH,
        "derived",
    ),
    z_link_bytes_per_s=Figure(
        128 * GIGA,
        "bytes/s",
        "the rest of 2,560 GB/s a chip over 2 links, taken as both ways: " + TRN3_PAGE,
        "derived",
    ),
    power_background_w=Figure(
        126, "W", NO_WATTAGE + "; the share of Trainium2's maximum, 18 %", "assumed"
    ),
    power_max_w=TRAINIUM3_POWER,
    air=Cooling(
        Figure(0.0786, "degC/W", "55 degC over inlet at maximum power", "assumed"),
        Figure(30, "s", "an air-cooled heat sink", "assumed"),
    ),
    liquid=Cooling(
        Figure(0.0357, "degC/W", "25 degC over the coolant at maximum power", "assumed"),
        Figure(10, "s", "a cold plate stores less heat than a heat sink", "assumed"),
    ),
    throttle_start_c=Figure(
        85, "degC", "1.5 degC above the hottest chip at maximum power and 27 degC", "assumed"
    ),
    throttle_limit_c=Figure(105, "degC", "20 degC above the start", "assumed"),
    device_types=("trainium3",),
    claims=(
        Claim(
            "power of Trainium3 at most",
            TRAINIUM3_POWER,
            (
                Figure(
                    1_000,
                    "W",
                    "AWS's vice president, Fierce Network 2024-07: the next one takes more",
                ),
            ),
        ),
        Claim(
            "NeuronLink of Trainium3, both ways",
            Figure(2_560 * GIGA, "bytes/s", TRN3_PAGE),
            (
                Figure(2_048 * GIGA, "bytes/s", "the table of " + TRN3_ARCH),
                Figure(
                    1_408 * GIGA,
                    "bytes/s",
                    "the PCIe Gen6 links that " + TRN3_ARCH + " lists (Gen2)",
                ),
            ),
        ),
        Claim(
            "HBM bandwidth of Trainium3",
            Figure(4.9 * TERA, "bytes/s", TRN3_PAGE),
            (Figure(4.7 * TERA, "bytes/s", NKI),),
        ),
    ),
)

TRAINIUM3_SWITCHED = dataclasses.replace(
    TRAINIUM3,
    link_bytes_per_s=SLED_PORT,
    z_link_bytes_per_s=Figure(
        (SERVER_PORT.value + RACK_PORT.value) / 2,
        "bytes/s",
        "mean of both ports: " + TRN3_ARCH,
        "derived",
    ),
)
"""The same chip with its ports to the switches of a Trn3 UltraServer Gen2."""

INFERENTIA2 = dataclasses.replace(
    TRAINIUM1,
    name="inferentia2",
    title="Inferentia2",
    fp8_dense_flops=Figure(190 * TERA, "FLOP/s", INF2_PAGE),
    bf16_dense_flops=Figure(190 * TERA, "FLOP/s", INF2_PAGE),
    fp32_flops=Figure(47.5 * TERA, "FLOP/s", INF2_PAGE),
    hbm_bytes=Figure(32 * GIB, "bytes", INF2_PAGE),
    hbm_bytes_per_s=Figure(820 * GIGA, "bytes/s", INF2_ARCH),
    link_bytes_per_s=Figure(
        48 * GIGA,
        "bytes/s",
        "192 GB/s a chip over 2 links, taken as both ways: " + INF2_PAGE,
        "derived",
    ),
    power_background_w=Figure(25, "W", NO_WATTAGE, "assumed"),
    power_max_w=Figure(100, "W", NO_WATTAGE + "; CodeCarbon has about 100 W", "assumed"),
    air=Cooling(
        Figure(0.40, "degC/W", "40 degC over inlet at maximum power", "assumed"),
        Figure(25, "s", "an air-cooled heat sink", "assumed"),
    ),
    liquid=Cooling(
        Figure(0.20, "degC/W", "20 degC over the coolant at maximum power", "assumed"),
        Figure(8, "s", "a cold plate stores less heat than a heat sink", "assumed"),
    ),
    device_types=("inferentia2",),
)

CHIP_TYPES = {chip.name: chip for chip in (TRAINIUM1, INFERENTIA2, TRAINIUM2, TRAINIUM3)}
