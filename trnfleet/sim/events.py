"""Events of the simulated fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from trnfleet.domain.severity import Severity

EventSource = Literal["hardware", "runtime", "job", "ec2", "operator", "network", "simulator"]


class SimEvent(NamedTuple):
    """One event, before it has a topic."""

    time_s: float
    """Simulated seconds since the start."""
    path: str
    """Address of the subject, from cluster to chip; empty for the fleet."""
    source: EventSource
    """Origin in a real fleet: driver log, runtime log, job launcher, EC2 or operators."""
    name: str
    """A fault's name, or a step of its recovery such as `instance_quarantined`, in
    lower_snake_case."""
    severity: Severity
    text: str
    """As that log would word it."""
    job: str | None = None
    """The job that it concerns."""
    nrt: int | None = None
    """The runtime's status (NRT_STATUS), where an execution ended with it."""
    detail_type: str | None = None
    """Detail type of the corresponding EventBridge event; None without one."""
    reservation: str | None = None
    """The Capacity Block that it concerns."""
    resources: tuple[str, ...] = ()
    """The ARNs that EventBridge's event names."""
    detail: tuple[tuple[str, str], ...] = ()
    """Keys and values of that event's detail."""
