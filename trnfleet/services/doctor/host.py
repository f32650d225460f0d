"""Findings about what an agent can read on this host."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from trnfleet.bridge.host.efa import EfaCounters
from trnfleet.bridge.host.identity import HostIdentity, MetadataService, read_dmi
from trnfleet.bridge.host.job_mapping import FOLDER, read_job_mapping
from trnfleet.bridge.host.kernel_log import KernelRing, journal_command
from trnfleet.bridge.host.pod_resources import SOCKET, pod_holders, read_pod_resources
from trnfleet.bridge.neuron.fields import Doubts, object_of, text_of
from trnfleet.bridge.neuron.programs import ANSWER_S, find_program, first_document, list_devices
from trnfleet.bridge.neuron.sysfs import read_tree
from trnfleet.bridge.neuron.values import Chips
from trnfleet.domain.hardware.catalogue import INSTANCE_TYPES
from trnfleet.domain.quantities import counted
from trnfleet.errors import ConfigError, TrnfleetError
from trnfleet.files import temporary_folder
from trnfleet.services.doctor.findings import Finding, Health
from trnfleet.tasks import in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

_GROUP = "agent"
_NEEDED = frozenset({"neuron-monitor", "sysfs"})
_ADVICE = {
    "neuron-monitor": (
        "install aws-neuronx-tools, or pass documents with --file; without them there is no"
        " utilisation"
    ),
    "sysfs": (
        "install aws-neuronx-dkms and load it (modprobe neuron); in a container mount the host's"
        " /sys and pass --host-root; without it there is no health and no power"
    ),
    "neuron-ls": "install aws-neuronx-tools; without it device 0 is taken as chip 0",
    "metadata service": (
        "allow IMDSv2, in a container with a hop limit of 2; without it retirement notices are"
        " unknown"
    ),
    "DMI": "needed only without the metadata service: pass --path and --instance-type instead",
    "kernel log": (
        "add the user to the group systemd-journal; without it NEURON_HW_ERR is not seen"
    ),
    "EFA": "attach EFA and load its driver; without it traffic between hosts is unknown",
    "job mapping": (
        "needed with a scheduler such as Slurm: let its prolog write the folder, readable by the"
        " agent (docs/jobs.md); without it only process tags and pods name jobs"
    ),
    "pods": (
        "needed on Kubernetes: run the agent as root, in a pod with a hostPath volume of"
        " /var/lib/kubelet/pod-resources; without it only process tags name pods' jobs"
    ),
}


async def examine_host(
    root: Path, imds: str, job_mapping: Path | None = None
) -> AsyncIterator[Finding]:
    """Yield a finding for each source of an agent.

    Args:
        root: The host's root directory.
        imds: URL of the metadata service, or `none`.
        job_mapping: Folder that a scheduler writes; None for the usual one.
    """
    looks: dict[str, Callable[[], str]] = {
        "neuron-monitor": _monitor,
        "sysfs": lambda: _tree(root),
        "neuron-ls": _devices,
        "metadata service": lambda: _metadata(imds),
        "DMI": lambda: _dmi(root),
        "kernel log": lambda: _kernel_log(root),
        "EFA": lambda: _efa(root),
        "job mapping": lambda: _jobs(job_mapping or root / FOLDER.relative_to("/")),
        "pods": lambda: _pods(root / SOCKET.relative_to("/")),
    }
    for name, look in looks.items():
        try:
            value = await _within(look)
        except (TrnfleetError, OSError) as error:
            health = Health.PROBLEM if name in _NEEDED else Health.WARNING
            yield Finding(_GROUP, name, health, str(error), _ADVICE[name])
        else:
            yield Finding(_GROUP, name, Health.OK, value)


async def _within(look: Callable[[], str]) -> str:
    """Return what a call finds.

    Raises:
        ConfigError: it does not return in time, as where a device hangs.
    """
    try:
        return await asyncio.wait_for(in_thread(look), 2 * ANSWER_S)
    except TimeoutError:
        raise ConfigError(f"no answer within {2 * ANSWER_S:g} s") from None


def _monitor() -> str:
    with temporary_folder("trnfleet-doctor-") as folder:
        document = first_document(folder)
    instance = object_of(document, "instance_info")
    hardware = object_of(document, "neuron_hardware_info")
    kind = text_of(instance.get("instance_type")) or "instance type not given"
    devices = hardware.get("neuron_device_count")
    if not devices:
        reason = text_of(hardware.get("error")) or "no devices"
        raise ConfigError(f"{find_program('neuron-monitor')} runs, and sees no device: {reason}")
    return f"{find_program('neuron-monitor')}: {kind}, {devices} devices"


def _tree(root: Path) -> str:
    return read_tree(root / "sys").text()


def _devices() -> str:
    listed = list_devices()
    return f"{find_program('neuron-ls')}: {counted(len(listed.devices), 'device')}"


def _metadata(imds: str) -> str:
    if imds == "none":
        return "not used (--imds none)"
    return str(MetadataService(imds).identity())


def _dmi(root: Path) -> str:
    identity = read_dmi(root)
    if identity == HostIdentity():
        raise ConfigError("no EC2 instance's board_asset_tag in sys/devices/virtual/dmi/id")
    return str(identity)


def _kernel_log(root: Path) -> str:
    command = journal_command(root)
    if command:
        return " ".join(command)
    try:
        KernelRing(root).close()
    except OSError as error:
        raise ConfigError(
            f"no readable journal, and {root / 'dev/kmsg'}: {error.strerror}"
        ) from None
    return f"{root / 'dev/kmsg'}"


def _efa(root: Path) -> str:
    adapters = EfaCounters(root).adapters()
    if not adapters:
        raise ConfigError("no adapter in sys/class/infiniband")
    return f"{counted(len(adapters), 'adapter')}: {', '.join(adapters)}"


def _chips() -> Chips:
    """Return the chips of the largest host: a device that this host lacks is no matter here."""
    kind = max(INSTANCE_TYPES.values(), key=lambda kind: kind.chips)
    return Chips.of_devices(kind, 1, dict(enumerate(range(kind.chips))))


def _jobs(folder: Path) -> str:
    if not folder.is_dir():
        raise ConfigError(f"{folder}: there is no such folder")
    doubts = Doubts()
    jobs = read_job_mapping(folder, _chips().devices, doubts)
    if doubts.count:
        raise ConfigError(doubts.first)
    return f"{folder}: {counted(len(jobs), 'job')}"


def _pods(socket: Path) -> str:
    if not socket.exists():
        raise ConfigError(f"{socket}: there is no kubelet")
    pods = pod_holders(read_pod_resources(socket, _chips(), Doubts(), limit_s=ANSWER_S))
    return f"{socket}: {counted(len(pods), 'pod')} with Neuron devices"
