"""A small tree of the Neuron driver's sysfs, in the layout up to driver 2.30 or a moved one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

DEVICES = Path("sys/devices/virtual/neuron_device")
KINDS = ("tensors", "model_code", "runtime_memory")
STATUSES = (
    "success",
    "execute_completed_with_error",
    "execute_completed_with_num_error",
    "timeout",
    "exec_bad_input",
    "execute_failed_to_queue",
    "hw_hbm_ue_error",
)
POWER = "POWER_STATUS_VALID,1767571200,40.00,80.00,60.00"


def write_tree(
    root: Path,
    *,
    devices: int = 2,
    cores: int = 2,
    is_moved: bool = False,
    driver: str = "2.30.2.0",
    given: dict[str, Any] | None = None,
) -> Path:
    """Write a healthy tree.

    Args:
        root: Root of the tree.
        devices: Number of devices.
        cores: Number of cores of each.
        is_moved: Whether the nodes are elsewhere, as from driver 2.31 on. These paths are made up.
        driver: The driver's version.
        given: Content by `neuronN/NODE`, or by node for all devices; None leaves a node out.
    """
    given = given or {}
    hardware = "telemetry/ecc" if is_moved else "stats/hardware"
    health = "health" if is_moved else "stats/hardware/health_status"
    power = "telemetry/power" if is_moved else "stats/power"
    above = "telemetry" if is_moved else "stats"
    for device in range(devices):
        folder = root / DEVICES / f"neuron{device}"
        nodes: dict[str, tuple[str, Any]] = {
            "unhealthy_components": (health, ""),
            "healthcheck_heartbeat": (health, 17),
            "utilization": (power, POWER),
            **{
                f"{memory}_ecc_{kind}": (hardware, 0)
                for memory in ("mem", "sram")
                for kind in ("corrected", "uncorrected")
            },
            "mem_ecc_repairable_uncorrected": (hardware, 0),
        }
        for name, (place, content) in nodes.items():
            chosen = given.get(f"neuron{device}/{name}", given.get(name, content))
            _write(folder / place / name, chosen)
        for core in range(cores):
            below = folder / f"neuron_core{core}" / above
            for name in STATUSES:
                default = 100 if name == "success" else 0
                chosen = given.get(f"neuron{device}/{name}", given.get(name, default))
                _write(below / "status" / name / "total", chosen)
                _write(below / "status" / name / "present", 1)
            for name in KINDS:
                _write(below / "memory_usage" / "device_mem" / name / "total", 2**20)
                _write(below / "memory_usage" / "device_mem" / name / "present", 7)
    _write(root / "sys/module/neuron/version", driver)
    return root


def _write(path: Path, content: Any) -> None:
    if content is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    text = content if isinstance(content, bytes) else f"{content}\n".encode()
    path.write_bytes(text)
