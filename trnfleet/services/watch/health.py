"""A watch's report to a service manager: vital loops, and status in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.domain.alerts.watches import receiver_error_text
from trnfleet.domain.quantities import counted
from trnfleet.services.watch.service import Role
from trnfleet.systemd import Work, link_works

if TYPE_CHECKING:
    from trnfleet.monitor.monitor import Monitor
    from trnfleet.services.watch.identity import Connections
    from trnfleet.services.watch.service import WatchService
    from trnfleet.wire.ports import LinkStatus


class WatchHealth:
    """The loops and the status of one watch."""

    def __init__(self, service: WatchService, monitor: Monitor, connections: Connections) -> None:
        """Count the monitor's passes from here on."""
        self._service = service
        self._monitor = monitor
        self._connections = connections
        self._passes = 0
        monitor.on_pass.append(self._count_pass)

    def works(self) -> list[Work]:
        """Return the loops: messages, passes, elections with publishing, and connections."""
        source, monitor, service = self._connections.source, self._monitor, self._service
        return [
            Work("messages", lambda: monitor.applied_s, lambda: not source.waiting),
            Work("passes", lambda: self._passes),
            Work("elections", lambda: service.elections),
            *_links("telemetry", source.status),
            *_links("peers", self._connections.peers.status),
            *_links("publisher", self._connections.publisher.status),
        ]

    def status(self) -> str:
        """Return role, alerts and a failing receiver, or why there is no connection."""
        service = self._service
        if service.role is Role.DISCONNECTED:
            away = next(
                (
                    connection.status
                    for connection in self._connections
                    if not connection.status.connected
                ),
                None,
            )
            return (
                "listening for other watches"
                if away is None
                else f"no connection: {away.last_error}"
            )
        role = "leader" if service.role is Role.LEADER else f"standby, {service.leader} leads"
        chips = counted(self._monitor.store.layout.chip_count, "chip")
        errors = "".join(
            f"; {receiver_error_text(error)}" for error in service.receiver_errors().first[:1]
        )
        return f"{role}; {chips}, {counted(service.firing, 'firing alert')}{errors}"

    def _count_pass(self) -> None:
        self._passes += 1


def _links(name: str, status: LinkStatus) -> list[Work]:
    return link_works(name, status.parts or (status,))
