"""The documented keys of a `neuron-monitor` document, and how each is read and written.

Documented are those of the Neuron SDK 2.32's guide and, where they differ, of real output. A test
changes each key in turn and compares the values read; the table in docs/neuron.md is this one.
"""

from __future__ import annotations

import enum
import itertools
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


class Use(enum.StrEnum):
    """What the reader does with a key."""

    READ = "read"
    DERIVED = "derived"
    """Decides about other values, or replaces a missing key."""
    DROPPED = "dropped"


class Key(NamedTuple):
    """One key, or several that are treated alike."""

    path: str
    """Keys joined by dots. `[]` is each member of an array, `<core>` a number or name, and `{a,b}`
    either."""
    unit: str
    use: Use
    reading: str
    """Its use, or the reason for dropping it."""
    writing: str
    """What `convert --to neuron-monitor` writes; empty for nothing."""
    instead_of: str = ""
    """Preferred key: this one is read only if that is missing."""

    @property
    def paths(self) -> Iterator[str]:
        """The path of each key."""
        parts = [
            part[1:-1].split(",") if part.startswith("{") else [part]
            for part in re.split(r"(\{[^}]*\})", self.path)
        ]
        return ("".join(choice) for choice in itertools.product(*parts))


_RUNTIME = "neuron_runtime_data[]"
_REPORT = f"{_RUNTIME}.report"
_STATS = f"{_REPORT}.execution_stats"
_COUNTERS = f"{_REPORT}.neuroncore_counters"
_CORE = f"{_COUNTERS}.neuroncores_in_use.<core>"
_MEMORY = f"{_REPORT}.memory_used"
_USED = f"{_MEMORY}.neuron_runtime_used_bytes"
_SYSTEM = "system_data"
_DEVICES = f"{_SYSTEM}.neuron_hw_counters.neuron_devices[]"
_VCPU = f"{_SYSTEM}.vcpu_usage"
_INFO = "instance_info"
_HARDWARE = "neuron_hardware_info"

_GROUP_ERROR = "its group is not available where it is not empty"
_WRITTEN_ERROR = "`not available` where the values are not known"
_PRIVACY = "no metric of a fleet; it may hold a person's file names"

KEYS = (
    Key(
        f"{_RUNTIME}.pid",
        "",
        Use.DERIVED,
        "a process tag that is not the pid is a job's name",
        "1000 and the first chip's number",
    ),
    Key(
        f"{_RUNTIME}.neuron_runtime_tag",
        "",
        Use.DERIVED,
        "a [claim](wire.md#claims) of the process's chips, where it is not the pid",
        "the pid",
    ),
    Key(
        f"{_RUNTIME}.error",
        "",
        Use.DERIVED,
        "the process is not available where it is not empty",
        _WRITTEN_ERROR,
    ),
    Key(
        f"{_STATS}.period",
        "s",
        Use.DERIVED,
        "period of the document, where no group of `system_data` has one",
        "the tick's",
        f"{_SYSTEM}.*.period",
    ),
    Key(f"{_STATS}.error", "", Use.DERIVED, _GROUP_ERROR, _WRITTEN_ERROR),
    Key(
        f"{_STATS}.error_summary.generic",
        "count",
        Use.DROPPED,
        "a running total, not only of failures",
        "0",
    ),
    Key(
        f"{_STATS}.error_summary.{{numerical,transient,model,runtime,hardware}}",
        "count a period",
        Use.DERIVED,
        "`exec_errors`, where `execution_summary` has no outcomes",
        "0",
        f"{_STATS}.execution_summary.{{completed_with_err,completed_with_num_err,timed_out,incorrect_input,failed_to_queue}}",
    ),
    Key(
        f"{_STATS}.execution_summary.completed",
        "count a period",
        Use.READ,
        "`exec_completed`, in equal parts by the process's cores",
        "growth of `exec_completed`, all chips of the process",
    ),
    Key(
        f"{_STATS}.execution_summary.completed_with_err",
        "count a period",
        Use.READ,
        "`exec_errors`",
        "growth of `exec_errors`",
    ),
    Key(
        f"{_STATS}.execution_summary.{{completed_with_num_err,timed_out,incorrect_input,failed_to_queue}}",
        "count a period",
        Use.READ,
        "`exec_errors`",
        "0",
    ),
    Key(
        f"{_STATS}.latency_stats.total_latency.{{p50,p99}}",
        "s",
        Use.READ,
        "`exec_latency_p50_s` and `exec_latency_p99_s`, of the slowest process",
        "both, or the whole object is null",
    ),
    Key(
        f"{_STATS}.latency_stats.total_latency.{{p0,p1,p25,p75}}",
        "s",
        Use.DROPPED,
        "the metric table has the median and the 99th percentile",
        "the median",
    ),
    Key(f"{_STATS}.latency_stats.total_latency.p100", "s", Use.DROPPED, "as p75", "p99"),
    Key(
        f"{_STATS}.latency_stats.device_latency.{{p0,p1,p25,p50,p75,p99,p100}}",
        "s",
        Use.DROPPED,
        "the latency that a user sees is the total",
        "the whole object is null",
    ),
    Key(
        f"{_COUNTERS}.period",
        "s",
        Use.DERIVED,
        "as that of `execution_stats`",
        "the tick's",
        f"{_SYSTEM}.*.period",
    ),
    Key(f"{_COUNTERS}.error", "", Use.DERIVED, _GROUP_ERROR, _WRITTEN_ERROR),
    Key(
        f"{_CORE}.neuroncore_utilization",
        "%",
        Use.READ,
        "`nc_util_pct` where cores are not paired; in traces; whether the process works there",
        "`nc_util_pct`, the pair's mean",
        f"{_CORE}.v3d",
    ),
    Key(
        f"{_CORE}.flops",
        "FLOP/s",
        Use.READ,
        "`tflops`, sum of the chip's cores",
        "`tflops` in equal parts, a whole number",
    ),
    Key(
        f"{_CORE}.effective_flops",
        "FLOP/s",
        Use.DERIVED,
        "`tflops`, where there is no `flops`: its name in other releases",
        "",
        f"{_CORE}.flops",
    ),
    Key(
        f"{_CORE}.v3d.nc_v3.<core>.neuroncore_utilization",
        "%",
        Use.READ,
        "`nc_util_pct` of each physical core of a pair",
        "`nc_util_pct`",
    ),
    Key(
        f"{_MEMORY}.period",
        "s",
        Use.DERIVED,
        "as that of `execution_stats`",
        "the tick's",
        f"{_SYSTEM}.*.period",
    ),
    Key(f"{_MEMORY}.error", "", Use.DERIVED, _GROUP_ERROR, _WRITTEN_ERROR),
    Key(f"{_USED}.host", "bytes", Use.DROPPED, "the host's memory is `memory_info`'s", "0"),
    Key(
        f"{_USED}.neuron_device",
        "bytes",
        Use.DROPPED,
        "the sum of what is listed by core",
        "sum of the process",
    ),
    Key(
        f"{_USED}.usage_breakdown.host.{{application_memory,constants,dma_buffers,tensors}}",
        "bytes",
        Use.DROPPED,
        "as `host`",
        "0",
    ),
    Key(
        f"{_USED}.usage_breakdown.neuroncore_memory_usage.<core>.{{constants,model_code,model_shared_scratchpad,runtime_memory}}",
        "bytes",
        Use.READ,
        "`hbm_used_bytes`, sum of the chip's cores and of all kinds",
        "0",
    ),
    Key(
        f"{_USED}.usage_breakdown.neuroncore_memory_usage.<core>.tensors",
        "bytes",
        Use.READ,
        "`hbm_used_bytes`",
        "`hbm_used_bytes` in equal parts",
    ),
    Key(f"{_MEMORY}.loaded_models[].{{name,uuid}}", "", Use.DROPPED, _PRIVACY, ""),
    Key(
        f"{_MEMORY}.loaded_models[].{{model_id,is_running}}",
        "",
        Use.DROPPED,
        "a fleet shows chips, not models",
        "",
    ),
    Key(
        f"{_MEMORY}.loaded_models[].subgraphs.<subgraph>.{{neuroncore_index,neuron_device_index}}",
        "",
        Use.DROPPED,
        "as `model_id`",
        "",
    ),
    Key(
        f"{_MEMORY}.loaded_models[].subgraphs.<subgraph>.memory_used_bytes.{{host,neuron_device}}",
        "bytes",
        Use.DROPPED,
        "part of what is listed by core",
        "",
    ),
    Key(
        f"{_MEMORY}.loaded_models[].subgraphs.<subgraph>.memory_used_bytes.usage_breakdown.host.{{application_memory,constants,dma_buffers,tensors}}",
        "bytes",
        Use.DROPPED,
        "as above",
        "",
    ),
    Key(
        f"{_MEMORY}.loaded_models[].subgraphs.<subgraph>.memory_used_bytes.usage_breakdown.neuron_device.{{constants,model_code,runtime_memory,tensors}}",
        "bytes",
        Use.DROPPED,
        "as above",
        "",
    ),
    Key(
        f"{_REPORT}.neuron_runtime_vcpu_usage.period",
        "s",
        Use.DERIVED,
        "as that of `execution_stats`",
        "the tick's",
        f"{_SYSTEM}.*.period",
    ),
    Key(
        f"{_REPORT}.neuron_runtime_vcpu_usage.vcpu_usage.user",
        "%",
        Use.DROPPED,
        "`vcpu_util_pct` is the host's",
        "the host's, in equal parts by process",
    ),
    Key(
        f"{_REPORT}.neuron_runtime_vcpu_usage.vcpu_usage.system", "%", Use.DROPPED, "as `user`", "0"
    ),
    Key(f"{_REPORT}.neuron_runtime_vcpu_usage.error", "", Use.DROPPED, "as `user`", _WRITTEN_ERROR),
    Key(
        f"{_SYSTEM}.neuron_hw_counters.period",
        "s",
        Use.DERIVED,
        "period of the document, where `vcpu_usage` has none",
        "the tick's",
        f"{_VCPU}.period",
    ),
    Key(f"{_SYSTEM}.neuron_hw_counters.error", "", Use.DERIVED, _GROUP_ERROR, "empty"),
    Key(
        f"{_DEVICES}.neuron_device_index",
        "",
        Use.READ,
        "the chip; in a container as `neuron-ls` places it",
        "the chip, if all four counters are known",
    ),
    Key(
        f"{_DEVICES}.{{mem_ecc_corrected,mem_ecc_uncorrected,sram_ecc_corrected,sram_ecc_uncorrected}}",
        "count",
        Use.READ,
        "the metric of the same name, which goes up by what the count did; by all of it where it"
        " fell",
        "the metric",
    ),
    Key(f"{_VCPU}.period", "s", Use.READ, "period of the document", "the tick's"),
    Key(f"{_VCPU}.error", "", Use.DERIVED, _GROUP_ERROR, _WRITTEN_ERROR),
    Key(
        f"{_VCPU}.average_usage.user",
        "%",
        Use.READ,
        "`vcpu_util_pct`, sum of what is in use",
        "`vcpu_util_pct`",
    ),
    Key(
        f"{_VCPU}.average_usage.{{nice,system,irq,soft_irq}}", "%", Use.READ, "`vcpu_util_pct`", "0"
    ),
    Key(
        f"{_VCPU}.average_usage.idle",
        "%",
        Use.DROPPED,
        "the rest; where all are 0 there was no interval yet, and nothing is known",
        "the rest",
    ),
    Key(f"{_VCPU}.average_usage.io_wait", "%", Use.DROPPED, "a vCPU that waits is not in use", "0"),
    Key(
        f"{_VCPU}.usage_data.<cpu>.{{user,nice,system,idle,io_wait,irq,soft_irq}}",
        "%",
        Use.DROPPED,
        "the metric table has the average",
        "the average, for each vCPU of the type",
    ),
    Key(f"{_VCPU}.context_switch_count", "count", Use.DROPPED, "not in the metric table", "0"),
    Key(
        f"{_SYSTEM}.memory_info.period",
        "s",
        Use.DERIVED,
        "as that of `neuron_hw_counters`",
        "the tick's",
        f"{_VCPU}.period",
    ),
    Key(f"{_SYSTEM}.memory_info.error", "", Use.DERIVED, _GROUP_ERROR, _WRITTEN_ERROR),
    Key(
        f"{_SYSTEM}.memory_info.memory_used_bytes",
        "bytes",
        Use.READ,
        "`host_memory_used_bytes`",
        "the metric",
    ),
    Key(
        f"{_SYSTEM}.memory_info.memory_total_bytes",
        "bytes",
        Use.DROPPED,
        "the hardware catalogue has the type's",
        "the type's",
    ),
    Key(
        f"{_SYSTEM}.memory_info.{{swap_total_bytes,swap_used_bytes}}",
        "bytes",
        Use.DROPPED,
        "Neuron instances have no swap unless somebody adds one",
        "0",
    ),
    Key(
        f"{_INFO}.instance_name",
        "",
        Use.READ,
        "name of the instance, where there is no EC2 id",
        "last part of the address",
    ),
    Key(
        f"{_INFO}.instance_id",
        "",
        Use.READ,
        "name of the instance; its EC2 id",
        "the EC2 id, or empty",
    ),
    Key(f"{_INFO}.instance_type", "", Use.READ, "type in the hardware catalogue", "the type"),
    Key(
        f"{_INFO}.ultraserver_id",
        "",
        Use.READ,
        "UltraServer of the address",
        "UltraServer of the address, if there is one",
    ),
    Key(
        f"{_INFO}.instance_availability_zone",
        "",
        Use.DROPPED,
        "a descriptor has no place for it",
        "that of the reservation that holds the instance, or empty",
    ),
    Key(f"{_INFO}.instance_region", "", Use.DROPPED, "as the zone", "the zone's, or empty"),
    Key(
        f"{_INFO}.{{instance_availability_zone_id,ami_id,subnet_id}}",
        "",
        Use.DROPPED,
        "as the zone",
        "empty",
    ),
    Key(
        f"{_INFO}.error",
        "",
        Use.DROPPED,
        "what is there is read; without a type the devices tell it",
        "empty",
    ),
    Key(
        f"{_HARDWARE}.neuron_device_type",
        "",
        Use.READ,
        "version `device`; with the count the instance's type, where that is missing",
        "the chip's",
    ),
    Key(
        f"{_HARDWARE}.neuron_device_version",
        "",
        Use.READ,
        "version `device_version`",
        "the chip's, empty for Trainium3, of which no document is known",
    ),
    Key(
        f"{_HARDWARE}.neuroncore_version",
        "",
        Use.READ,
        "version `neuroncore_version`",
        "the chip's, with a `d` where cores are paired",
    ),
    Key(
        f"{_HARDWARE}.neuron_device_count",
        "",
        Use.READ,
        "chips that the host sees; the others are not available",
        "chips of the type",
    ),
    Key(
        f"{_HARDWARE}.neuron_device_memory_size",
        "bytes",
        Use.DROPPED,
        "the hardware catalogue has the chip's",
        "the chip's",
    ),
    Key(
        f"{_HARDWARE}.neuroncore_per_device_count",
        "",
        Use.READ,
        "logical cores of a chip, and so LNC",
        "logical cores of a chip",
    ),
    Key(
        f"{_HARDWARE}.logical_neuroncore_config",
        "",
        Use.DERIVED,
        "LNC, where the cores of a device are not told",
        "LNC",
        f"{_HARDWARE}.neuroncore_per_device_count",
    ),
    Key(f"{_HARDWARE}.error", "", Use.DROPPED, "what is there is read", "empty"),
    Key(
        "neuron_k8s_info.{period,error}",
        "",
        Use.DROPPED,
        "jobs come from job messages, not from pods; EKS only, beta",
        "",
    ),
    Key(
        "neuron_k8s_info.{neuroncores_k8s_info.<core>,neurondevices_k8s_info.<device>}.{pod_name,namespace,container_name[]}",
        "",
        Use.DROPPED,
        "as above",
        "",
    ),
)
