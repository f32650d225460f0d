"""Log lines of incidents: the kernel's, the runtime's, EC2's, and the operators'."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.domain.address import parse_chip
from trnfleet.domain.faults.fault import FaultScope, Recovery
from trnfleet.domain.severity import Severity
from trnfleet.sim.events import SimEvent
from trnfleet.sim.faults.incident import Step
from trnfleet.sim.ids import ec2_id, serial_number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnfleet.domain.faults.fault import Fault
    from trnfleet.domain.layout import Layout
    from trnfleet.sim.events import EventSource
    from trnfleet.sim.faults.incident import Incident
    from trnfleet.sim.rng import Rng

_SOURCES: dict[str, EventSource] = {
    "instance_reboot": "ec2",
    "instance_retirement": "ec2",
    "instance_failure": "ec2",
    "nic_down": "network",
    "nic_failed": "network",
    "storage_slow": "operator",
    "power_cap": "operator",
}
_MENDED: dict[Recovery, tuple[str, EventSource, str]] = {
    Recovery.REPAIR: ("fault_repaired", "operator", "{what} on {address} is repaired"),
    Recovery.RELOAD: ("driver_reloaded", "operator", "the Neuron driver of {where} is reloaded"),
    Recovery.REBOOT: ("instance_rebooted", "ec2", "{where} has rebooted"),
    Recovery.REPLACE: ("instance_replaced", "ec2", "{where} is replaced by {new}"),
}


class LogWriter:
    """Writes the events of incidents."""

    def __init__(self, layout: Layout, job_names: tuple[str, ...], rng: Rng) -> None:
        self._layout = layout
        self._jobs = job_names
        self._rng = rng

    def begin(self, incident: Incident, generation: int) -> Iterator[SimEvent]:
        """Yield the events of an incident's begin."""
        fault = incident.fault
        at_s = incident.begins_s
        text = self._kernel_log(incident, generation)
        if text:
            source = _SOURCES.get(fault.name, "hardware")
            yield SimEvent(
                at_s, incident.path, source, fault.name, fault.severity, text, self._job(incident)
            )

    def failure(self, incident: Incident, at_s: float) -> Iterator[SimEvent]:
        """Yield the runtime's event of failing executions; nothing if none run."""
        fault = incident.fault
        job = self._job(incident)
        if fault.runtime_log and job is not None:
            name = "execution_failed" if fault.hw_error or fault.log else fault.name
            words = fault.runtime_log.format(nd=self._device(incident))
            text = f"{words} (NRT_{fault.nrt_name}, {fault.nrt})"
            yield SimEvent(
                at_s, incident.path, "runtime", name, fault.severity, text, job, fault.nrt
            )

    def end(self, incident: Incident, at_s: float) -> Iterator[SimEvent]:
        """Yield the event of an incident's end, by itself or with its hardware."""
        source = _SOURCES.get(incident.fault.name, "hardware")
        text = f"{_plain(incident.fault)} on {incident.address} is over"
        yield SimEvent(at_s, incident.path, source, "fault_over", Severity.INFO, text)

    def step(
        self, incident: Incident, step: Step, at_s: float, generation: int
    ) -> Iterator[SimEvent]:
        """Yield the event of a step of an incident's recovery."""
        fault = incident.fault
        what, address = _plain(fault), incident.address
        where = (
            incident.path
            if len(incident.instances) > 1
            else self._layout.instances[incident.instances[0]]
        )

        def event(name: str, source: EventSource, text: str) -> SimEvent:
            return SimEvent(at_s, where, source, name, Severity.INFO, text)

        if step is Step.DETECT and incident.stages.detect_s:
            yield event("fault_detected", "operator", f"{what} on {address} is noticed")
        elif step is Step.QUARANTINE and incident.stages.quarantine_s:
            if fault.has_detour:
                group = self._layout.instances[incident.instances[0]].rpartition("/")[0]
                is_paired = any(link.is_unused for link in incident.links)
                how = "between two pairs, as its drivers elect" if is_paired else "beside it"
                yield event(
                    "detour_begun", "operator", f"jobs that start on {group} now use EFA {how}"
                )
            if incident.drains:
                yield event("instance_quarantined", "operator", f"nothing new is placed on {where}")
            else:
                yield event("repair_begun", "operator", f"the repair of {address} has begun")
        elif step is Step.DRAIN and incident.drains and incident.stages.drain_s:
            yield event("instance_drained", "operator", f"no job runs on {where} any more")
        elif step is Step.MEND and fault.recovery in _MENDED:
            name, source, text = _MENDED[fault.recovery]
            new = ec2_id(self._rng.token, where, generation)
            yield event(name, source, text.format(what=what, address=address, where=where, new=new))
        elif step is Step.RETURN and incident.stages.return_s:
            yield event(
                "instance_returned", "operator", f"{where} has passed its checks and is used again"
            )

    def _kernel_log(self, incident: Incident, generation: int) -> str:
        fault = incident.fault
        if fault.hw_error:
            instance = self._layout.instances[incident.instances[0]]
            return (
                f"NEURON_HW_ERR={fault.hw_error}"
                f" instance-id={ec2_id(self._rng.token, instance, generation)}"
                f" hostname={instance.rpartition('/')[2]} nd-id={self._device(incident)} nc-id=0"
                f" serial-num={serial_number(self._rng.token, incident.path, generation)}"
                f" action={fault.action}"
            )
        lane = incident.target.direction
        first = incident.instances[0]
        sides = [len(rack) for rack in incident.racks]
        return fault.log.format(
            nd=self._device(incident),
            direction=self._layout.lane_names_of(first)[lane] if lane >= 0 else "",
            nodes=sum(sides),
            split="+".join(map(str, sides)),
        )

    def _job(self, incident: Incident) -> str | None:
        return self._jobs[incident.jobs[0]] if incident.jobs else None

    def _device(self, incident: Incident) -> int:
        """Return the number of the chip within its instance."""
        if incident.fault.scope not in {FaultScope.CHIP, FaultScope.LINK}:
            return 0
        return parse_chip(incident.path.rpartition("/")[2]) or 0


def _plain(fault: Fault) -> str:
    """Return a fault's name as words of a sentence."""
    return fault.name.replace("_", " ")
