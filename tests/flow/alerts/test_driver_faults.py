"""Faults that a Neuron host can tell, from its documents and the driver's tree to the alert.

Such a host reports no links, temperature or watts.
"""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from support.monitor.feed import SilentSource
from support.sysfs import write_tree

from trnfleet.bridge.neuron.sysfs import read_tree
from trnfleet.clock import NS_PER_S, ManualClock
from trnfleet.domain.metrics import HEALTH_BITS
from trnfleet.monitor.monitor import Monitor
from trnfleet.services.files.neuron import NeuronInput
from trnfleet.services.files.rules import load_rules

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from trnfleet.monitor.alerting.store import AlertTransition

START_NS = 1_767_571_200_000_000_000
CHIPS = 16
CORES = 4
"""Logical cores of a chip."""
FAULT_S = 30
WATCHED_S = 30
"""Seconds after the fault, or after the expected alert."""
OUTCOMES = (
    "completed_with_err",
    "completed_with_num_err",
    "timed_out",
    "incorrect_input",
    "failed_to_queue",
)

Document = dict[str, Any]


def document() -> Document:
    """Return a document of a busy trn2.48xlarge."""
    cores = range(CHIPS * CORES)
    return {
        "neuron_runtime_data": [
            {
                "pid": 1,
                "error": "",
                "report": {
                    "neuroncore_counters": {
                        "neuroncores_in_use": {
                            str(core): {"neuroncore_utilization": 99.0, "flops": 4e13}
                            for core in cores
                        }
                    },
                    "execution_stats": {
                        "execution_summary": {"completed": 640, **dict.fromkeys(OUTCOMES, 0)}
                    },
                },
            }
        ],
        "system_data": {
            "neuron_hw_counters": {
                "neuron_devices": [
                    {
                        "neuron_device_index": chip,
                        "mem_ecc_corrected": 0,
                        "mem_ecc_uncorrected": 0,
                        "sram_ecc_corrected": 0,
                        "sram_ecc_uncorrected": 0,
                    }
                    for chip in range(CHIPS)
                ]
            },
            "vcpu_usage": {"period": 1.0, "average_usage": {"user": 10.0, "idle": 90.0}},
        },
        "instance_info": {"instance_type": "trn2.48xlarge", "instance_id": "i-0123456789abcdef0"},
        "neuron_hardware_info": {
            "neuron_device_type": "trainium2",
            "neuron_device_count": CHIPS,
            "neuroncore_per_device_count": CORES,
        },
    }


def ecc(name: str, *, since_s: int = 0, count: int = 1, rate: int = 0) -> Callable[..., None]:
    def change(document: Document, at_s: int) -> None:
        if at_s >= since_s:
            device = document["system_data"]["neuron_hw_counters"]["neuron_devices"][3]
            device[name] = count + rate * (at_s - since_s)

    return change


def without_counters(document: Document, _: int) -> None:
    """neuron_hw_counters is not in the default configuration of all releases."""
    del document["system_data"]["neuron_hw_counters"]


def without_executions(document: Document, _: int) -> None:
    del document["neuron_runtime_data"][0]["report"]["execution_stats"]


def hang(document: Document, at_s: int) -> None:
    if at_s >= FAULT_S:
        report = document["neuron_runtime_data"][0]["report"]
        report["execution_stats"]["execution_summary"]["completed"] = 0
        for core in report["neuroncore_counters"]["neuroncores_in_use"].values():
            core["flops"] = 0


def hang_without_flops(document: Document, at_s: int) -> None:
    hang(document, at_s)
    report = document["neuron_runtime_data"][0]["report"]
    for core in report["neuroncore_counters"]["neuroncores_in_use"].values():
        del core["flops"]


def failing(outcome: str) -> Callable[..., None]:
    def change(document: Document, at_s: int) -> None:
        if at_s == FAULT_S:
            stats = document["neuron_runtime_data"][0]["report"]["execution_stats"]
            stats["execution_summary"][outcome] = 1

    return change


def lost_device(document: Document, at_s: int) -> None:
    if at_s >= FAULT_S:
        document["neuron_hardware_info"]["neuron_device_count"] = CHIPS - 1
        document["system_data"]["neuron_hw_counters"]["neuron_devices"].pop()
        cores = document["neuron_runtime_data"][0]["report"]["neuroncore_counters"]
        for core in range((CHIPS - 1) * CORES, CHIPS * CORES):
            del cores["neuroncores_in_use"][str(core)]


def dead_runtime(document: Document, at_s: int) -> None:
    if at_s >= FAULT_S:
        document["neuron_runtime_data"] = []


class DriverFault(NamedTuple):
    """A fault, and the alerts that it raises."""

    fires: dict[str, int]
    """Seconds from the fault to the alert, by rule; of those in the tree, from the first document.
    """
    changes: tuple[Callable[..., None], ...] = ()
    """Of the documents."""
    nodes: dict[str, Any] | None = None
    """Content of the tree's nodes; None without a tree."""
    begins_s: int = FAULT_S


def of_health(bit: str) -> str:
    links = {
        "link_intraserver": "link-down-health",
        "link_switch": "link-down-health",
        "link_interserver": "z-link-down-health",
        "link_efa": "efa-link-down",
    }
    return links.get(bit, "unhealthy")


HEALTH_S = {"unhealthy": 0, "link-down-health": 4, "z-link-down-health": 4, "efa-link-down": 2}
NODE = "neuron3/"
FAULTS = {
    "healthy": DriverFault({}, (), {}),
    **{
        f"health {bit}": DriverFault(
            {of_health(bit): HEALTH_S[of_health(bit)]},
            (),
            {f"{NODE}unhealthy_components": bit},
            0,
        )
        for bit in HEALTH_BITS
    },
    **{
        f"{name} before the start, {source}": DriverFault({rule: 0}, changes, nodes, 0)
        for name, rule in (
            ("mem_ecc_uncorrected", "hbm-uncorrectable-since-load"),
            ("sram_ecc_uncorrected", "sram-uncorrectable-since-load"),
        )
        for source, changes, nodes in (
            ("document", (ecc(name),), None),
            ("tree", (without_counters,), {f"{NODE}{name}": 1}),
        )
    },
    "errors before the start, firmware silent": DriverFault(
        {},
        (without_counters,),
        {f"{NODE}mem_ecc_uncorrected": 1, f"{NODE}healthcheck_heartbeat": 0},
        0,
    ),
    "mem_ecc_uncorrected": DriverFault(
        {"hbm-uncorrectable": 0}, (ecc("mem_ecc_uncorrected", since_s=FAULT_S),)
    ),
    "sram_ecc_uncorrected": DriverFault(
        {"sram-uncorrectable": 0}, (ecc("sram_ecc_uncorrected", since_s=FAULT_S),)
    ),
    "mem_ecc_corrected, 2 a second": DriverFault(
        {"ecc-rate": 40}, (ecc("mem_ecc_corrected", since_s=FAULT_S, rate=2),)
    ),
    "hang, no power": DriverFault({"nc-busy-no-progress": 15}, (hang,)),
    "hang, power of the minute before": DriverFault({"nc-busy-no-progress": 15}, (hang,), {}),
    "hang, power and FLOP/s unknown": DriverFault(
        {"executions-stalled": 119}, (hang_without_flops,)
    ),
    **{
        f"execution {outcome}": DriverFault({"exec-errors": 0}, (failing(outcome),))
        for outcome in OUTCOMES
    },
    "execution timeout before the start, tree": DriverFault(
        {}, (without_executions,), {f"{NODE}timeout": 1}, 0
    ),
    "lost device": DriverFault({"chips-silent": 12}, (lost_device,)),
    "dead runtime": DriverFault({}, (dead_runtime,)),
}


async def play(folder: Path, fault: DriverFault) -> dict[str, int]:
    """Return when each rule first fired, in seconds after the fault."""
    documents = []
    for at_s in range(fault.begins_s + max(fault.fires.values(), default=0) + WATCHED_S):
        told = document()
        for change in fault.changes:
            change(told, at_s)
        documents.append(json.dumps(told))
    file = folder / "host.ndjson"
    file.write_text("\n".join(documents))
    tree = None
    if fault.nodes is not None:
        tree = read_tree(write_tree(folder / "tree", devices=CHIPS, cores=2, given=fault.nodes))
    given = NeuronInput(file, start_ns=START_NS, sysfs=tree)

    clock = ManualClock(START_NS, 100.0)
    monitor = Monitor(SilentSource(), "neuron", clock=clock, rules=load_rules())
    fired: dict[str, int] = {}

    def note(news: list[AlertTransition]) -> None:
        for transition in news:
            if transition.kind == "firing" and not transition.alert.inhibited_by:
                at_s = (clock.wall_ns() - START_NS) // NS_PER_S - 1
                fired.setdefault(transition.alert.name, int(at_s) - fault.begins_s)

    monitor.alerts.listener = note
    for time_ns, group in itertools.groupby(given.messages(), key=lambda stored: stored.time_ns):
        await clock.advance(max(0.0, (time_ns - clock.wall_ns()) / NS_PER_S))
        received_s = clock.monotonic_s()
        monitor.apply([stored.envelope._replace(received_s=received_s) for stored in group])
        monitor.compute()
    assert given.skipped.is_sound, given.skipped.text("document")
    return fired


@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_raises_its_alert(tmp_path: Path, name: str) -> None:
    """And no other; a fault without an alert is a gap, and its row says so."""
    fault = FAULTS[name]

    fired = await play(tmp_path, fault)

    assert fired == fault.fires, name
