"""Pages of neuron-monitor-prometheus for tests and benchmarks, and servers of them.

Names and labels are those of the exporter in the Neuron SDK 2.32; values change with each scrape.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OK = b"HTTP/1.1 200 OK\r\n"
PARTS = ("constants", "model_code", "model_shared_scratchpad", "runtime_memory", "tensors")
STATUSES = (
    "completed",
    "completed_with_err",
    "completed_with_num_err",
    "timed_out",
    "incorrect_input",
    "failed_to_queue",
)
PERCENTILES = ("p0", "p1", "p25", "p50", "p75", "p99", "p100")
ECC = ("mem_ecc_corrected", "mem_ecc_uncorrected", "sram_ecc_corrected", "sram_ecc_uncorrected")


def exporter_page(host: int = 0, scrape: int = 0, *, runtimes: int = 16) -> str:
    """Return the page of a trn2.48xlarge; with 16 processes it has 1,712 series."""
    identity = (
        f'availability_zone="us-west-2b",instance_id="i-{host:017x}",instance_name="",'
        'instance_type="trn2.48xlarge",region="us-west-2",subnet_id="subnet-00000000000000000"'
    )
    lines: list[str] = []
    for name, labels, value in _series(scrape, runtimes):
        if not lines or not lines[-1].startswith(name):
            lines += [f"# HELP {name} {name}", f"# TYPE {name} gauge"]
        lines.append(f"{name}{{{labels}{identity}}} {value}")
    lines += [f"process_figure_{number} {number + scrape}.0" for number in range(18)]
    return "\n".join(lines) + "\n"


def _series(scrape: int, runtimes: int) -> Iterator[tuple[str, str, float]]:
    tags = range(4_000, 4_000 + runtimes)
    for tag in tags:
        for core in range(64):
            value = 0.5 + (7 * scrape + core) % 40 / 100 if core // 4 == tag - 4_000 else 0.0
            labels = f'neuroncore="{core}",runtime_tag="{tag}",'
            yield "neuroncore_utilization_ratio", labels, value
    for part in PARTS:
        for tag in tags:
            for core in range(4 * (tag - 4_000), 4 * (tag - 3_999)):
                labels = f'memory_location="None",neuroncore="{core}",runtime_tag="{tag}",'
                yield f"neuroncore_memory_usage_{part}", labels, 1e6 * (scrape + core + 1)
    for name, label, kinds, value in (
        ("neuron_runtime_memory_used_bytes", "memory_location", ("host", "neuron_device"), 2.0**30),
        ("neuron_runtime_vcpu_usage_ratio", "usage_type", ("user", "system"), 0.125),
        ("execution_status_total", "status_type", STATUSES[:1], 100.0 * scrape),
        ("execution_status_total", "status_type", STATUSES[1:], 0.0),
        ("execution_latency_seconds", "percentile", PERCENTILES, 0.0125),
    ):
        for tag in tags:
            for kind in kinds:
                yield name, f'{label}="{kind}",runtime_tag="{tag}",', value
    for device in range(16):
        for kind in ECC:
            labels = f'event_type="{kind}",neuron_device_index="{device}",'
            yield "hardware_ecc_events_total", labels, float(scrape)
    for name in ("memory_total_bytes", "memory_used_bytes", "swap_total_bytes", "swap_used_bytes"):
        yield f"system_{name}", "", 2.0**40 + 2.0**20 * scrape
    yield "system_vcpu_count", "", 192.0
    for kind in ("user", "nice", "system", "idle", "io_wait", "irq", "soft_irq"):
        yield "system_vcpu_usage_ratio", f'usage_type="{kind}",', 0.125
    yield "instance_info", "", 1.0
    labels = 'neuron_device_count="16",neuroncore_per_device_count="4",'
    yield "neuron_hardware_info", labels, 1.0


def answer(page: bytes | str) -> bytes:
    """Return an answer with a page."""
    body = page if isinstance(page, bytes) else page.encode()
    return OK + b"Content-Length: %d\r\n\r\n" % len(body) + body


async def serve(answer_to: Callable[[str], bytes | None], port: int = 0) -> asyncio.Server:
    """Return a server of HTTP.

    Args:
        answer_to: Returns the answer to a path as it is; None for silence.
        port: 0 for any.
    """

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            told = answer_to(head.split()[1].decode())
            if told is None:
                await reader.read()
            else:
                writer.write(told)
                await writer.drain()
        writer.close()

    return await asyncio.start_server(talk, "127.0.0.1", port)
