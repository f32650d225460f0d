"""Leases on a cell's hosts: clients, the rows to forward for them, and end times.

A lease is requested, renewed and returned by a command, `forward`. Several clients may lease the
same row; it is forwarded once. A lease without renewal expires.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from trnfleet.domain.quantities import counted
from trnfleet.errors import BrokerError, ConfigError
from trnfleet.services.session import CONNECT_LIMIT_S
from trnfleet.wire.commands.leases import FORWARD, LEASE_S, LONGEST_S
from trnfleet.wire.commands.server import CommandServer, serve

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.clock import Clock
    from trnfleet.monitor.monitor import Monitor
    from trnfleet.monitor.sources.descriptors import CompactDescriptor
    from trnfleet.services.relay.forwarding import Forwarding
    from trnfleet.services.relay.role import RelayIdentity
    from trnfleet.transport.mqtt import MqttSource
    from trnfleet.wire.messages import CommandMessage
    from trnfleet.wire.ports import Publisher

MOST_LEASES = 64
"""Leases in all: 8 clients with as many as each may have. The rate limit of commands allows 80
renewals every 20 s."""
MOST_OF_CLIENT = 8


class _Lease(NamedTuple):
    client: str
    row: str


class Leases:
    """The leases of one cell, and the actions of commands about them."""

    arguments = {FORWARD: ("lease_s",)}  # noqa: RUF012  it is never written to
    harmless = ()
    how_to_allow = "this relay forwards no chips: it was started with --forward-hosts 0"

    def __init__(
        self,
        cell: str,
        monitor: Monitor,
        forwarding: Forwarding,
        row_of: Callable[[str], str],
        *,
        sees_cell: Callable[[], bool],
        most_hosts: int,
    ) -> None:
        """Begin without leases.

        Args:
            cell: Name of the cell.
            monitor: The cell's monitor.
            forwarding: Forwards the leased hosts.
            row_of: Returns the row of roll-ups for an address; empty for none.
            sees_cell: Returns whether the cell is connected at present.
            most_hosts: Most hosts forwarded at a time.
        """
        self._cell = cell
        self._monitor = monitor
        self._forwarding = forwarding
        self._row_of = row_of
        self._sees_cell = sees_cell
        self.most_hosts = most_hosts
        self._until_s: dict[_Lease, float] = {}
        """Monotonic seconds of each lease's end."""
        self._generation = -1
        """Layout generation of the cell at the last lookup of forwarded hosts."""
        self._forwarded_rows: set[str] = set()

    def __len__(self) -> int:
        """Return how many leases there are."""
        return len(self._until_s)

    @property
    def rows(self) -> set[str]:
        """Rows with a lease."""
        return {lease.row for lease in self._until_s}

    def concerns(self, action: object, target: object) -> bool:
        """Return whether a command is about this cell's chips.

        Other cells' relays read it, too.
        """
        return action == FORWARD and isinstance(target, str) and bool(self._row_of(target))

    def carry_out(self, command: CommandMessage) -> tuple[str, dict[str, Any]]:
        """Grant, renew or end a lease, as a command asks.

        Raises:
            ConfigError: there is no room for it, or nothing to forward; the message is the answer.
        """
        row = self._row_of(command.target)
        now_s = self._monitor.clock.monotonic_s()
        lease = _Lease(command.client, row)
        lease_s = _seconds(command)
        self._expire(now_s)
        if not lease_s:
            self._until_s.pop(lease, None)
            self._apply()
            return f"no lease of {row} any more", {"target": row, "lease_s": 0}
        if not self._sees_cell():
            raise ConfigError(f"the relay does not hear cell {self._cell} at present")
        hosts = self._hosts({row})
        if not hosts:
            raise ConfigError(f"no host of {row} is described in cell {self._cell}")
        if lease not in self._until_s:
            self._check_room(lease, row)
        self._until_s[lease] = now_s + lease_s
        self._apply()
        words = f"{counted(_count(hosts), 'host')} of {row} for {lease_s:g} s"
        return words, {"target": row, "hosts": _count(hosts), "lease_s": lease_s}

    def _check_room(self, lease: _Lease, row: str) -> None:
        """Raise if there is no room for one more lease.

        Raises:
            ConfigError: there is none.
        """
        own = sum(held.client == lease.client for held in self._until_s)
        if own >= MOST_OF_CLIENT:
            raise ConfigError(
                f"client {lease.client} has {own} leases of cell {self._cell}, and may have"
                f" {MOST_OF_CLIENT}"
            )
        if len(self._until_s) >= MOST_LEASES:
            raise ConfigError(
                f"cell {self._cell} has {MOST_LEASES} leases, the most that there may be"
            )
        hosts = _count(self._hosts(self.rows | {row}))
        if hosts > self.most_hosts:
            raise ConfigError(
                f"{counted(hosts, 'host')} of cell {self._cell} would be forwarded, over the limit"
                f" of {self.most_hosts} (--forward-hosts)"
            )

    def tick(self, *, is_active: bool) -> None:
        """End expired leases, and follow the cell's layout and this relay's role."""
        self._forwarding.be_active(is_active=is_active)
        self._expire(self._monitor.clock.monotonic_s())
        if self.rows != self._forwarded_rows or (
            self._until_s and self._generation != self._monitor.store.generation
        ):
            self._apply()

    def _expire(self, now_s: float) -> None:
        self._until_s = {
            lease: until_s for lease, until_s in self._until_s.items() if until_s > now_s
        }

    def _apply(self) -> None:
        self._generation, self._forwarded_rows = self._monitor.store.generation, self.rows
        self._forwarding.follow(self._hosts(self._forwarded_rows))

    def _hosts(self, rows: set[str]) -> dict[str, CompactDescriptor]:
        """Return the descriptors of the hosts in some rows, by path."""
        layout = self._monitor.store.layout
        descriptors = self._monitor.ingest.descriptors
        covering_hosts: dict[str, CompactDescriptor] = {}
        for row in sorted(rows):
            node = layout.find(row)
            for instance in () if node is None else layout.instance_range(node):
                covering = descriptors.covering(layout.instances[instance])
                if covering is not None:
                    covering_hosts[covering.path] = covering
        return covering_hosts


def _count(hosts: dict[str, CompactDescriptor]) -> int:
    return sum(len(host.instances) for host in hosts.values())


def _seconds(command: CommandMessage) -> float:
    """Return for how long a lease is asked; 0 to end it.

    Raises:
        ConfigError: that is no number of seconds, or too many.
    """
    value = command.args.get("lease_s", LEASE_S)
    if isinstance(value, (bool, str)) or value is None or not 0 <= value <= LONGEST_S:
        raise ConfigError(f"{FORWARD}: lease_s must be a number of seconds from 0 to {LONGEST_S:g}")
    return float(value)


def command_server(leases: Leases, identity: RelayIdentity) -> CommandServer:
    """Return the server for commands about a relay's leases."""
    return CommandServer(
        leases,
        identity.fleet,
        allowed=leases.most_hosts > 0,
        names={"relay": identity.client, "cell": identity.cell},
        root=identity.root,
    )


async def serve_leases(
    server: CommandServer,
    commands: MqttSource,
    publisher: Publisher,
    clock: Clock,
    report: Callable[[str], None],
) -> None:
    """Carry out commands until cancelled.

    Report once if commands cannot be received.
    """
    try:
        await commands.wait_connected(CONNECT_LIMIT_S)
    except BrokerError as error:
        report(f"forwards no chips, for it cannot read who asks for them: {error}")
    await serve(server, commands, publisher, clock)
