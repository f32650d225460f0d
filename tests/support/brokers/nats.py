"""NATS Server with MQTT and JetStream: one, and a cluster of three."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from support.brokers.process import HOST, PASSWORD, START_S, VIEWER, BrokerProcess, first_word_with_digit
from support.processes.mosquitto import free_port
from trnfleet.transport.embedded import nats_program

if TYPE_CHECKING:
    from pathlib import Path

# A retained message is stored by a request of the client's own connection, below $MQTT: who may read needs these, too.
_CONFIGURATION = """\
server_name: {name}
listen: "{host}:{clients}"
jetstream {{ store_dir: "{folder}/store" }}
mqtt {{
  listen: "{host}:{port}"
  no_auth_user: everybody
}}
authorization {{
  users = [
    {{ user: everybody, password: "{password}" }}
    {{ user: {viewer}, password: "{password}", permissions: {{
      publish: {{ allow: ["$MQTT.>", "$JS.>"] }}
      subscribe: {{ allow: [">"] }}
    }} }}
  ]
}}
"""
_CLUSTER = """\
cluster {{
  name: trnfleet
  listen: "{host}:{own}"
  routes: [{routes}]
}}
"""


class Nats(BrokerProcess):
    """One NATS Server."""

    name = "NATS"
    speaks = "3.1.1"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.clients = free_port()
        self.more = ""
        """Lines about a cluster."""

    @classmethod
    def version(cls) -> str | None:
        """Return the program's version."""
        program = nats_program()
        return None if program is None else first_word_with_digit(program, "--version")

    def command(self) -> list[str]:
        """Write the configuration."""
        file = self.folder / "nats.conf"
        text = _CONFIGURATION.format(
            name=self.folder.name,
            host=HOST,
            clients=self.clients,
            folder=self.folder,
            port=self.port,
            password=PASSWORD,
            viewer=VIEWER,
        )
        file.write_text(text + self.more)
        program = nats_program()
        assert program is not None
        return [program, "-c", str(file)]


class NatsNode(Nats):
    """A node of a cluster."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        super().__init__(folder)
        self.own = free_port()

    def join(self, nodes: list[NatsNode]) -> None:
        """Have the others as its routes."""
        routes = ", ".join(f'"nats://{HOST}:{each.own}"' for each in nodes)
        self.more = _CLUSTER.format(host=HOST, own=self.own, routes=routes)


class NatsCluster(Nats):
    """Three nodes; clients are at the first, which is the one that is killed."""

    name = "NATS, three nodes"
    at_once = 1
    """Each connection and each subscription at QoS 1 is agreed upon by three nodes, which here share the processors of one machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "cluster"
        self.folder.mkdir()
        self.nodes = [NatsNode(self.folder, f"node{number}") for number in range(3)]
        for node in self.nodes:
            node.join(self.nodes)
        self.port = self.nodes[0].port
        self.process = None

    def start(self) -> None:
        """Start all that do not run, and wait until the first serves MQTT, for which the others must be there."""
        for node in self.nodes:
            if node.process is None:
                node_start(node)
        until = time.monotonic() + START_S
        # Retained messages and sessions have a leader among the nodes before CONNECT is answered.
        while not all(node.answers() for node in self.nodes):
            assert time.monotonic() < until, self.nodes[0].output()
            time.sleep(0.05)

    def kill(self) -> None:
        """Kill all."""
        for node in self.nodes:
            node.kill()

    def restart(self) -> None:
        """Kill the node where the clients are, and start it again."""
        self.nodes[0].kill()
        self.start()


def node_start(node: NatsNode) -> None:
    """Start a node without waiting: it accepts MQTT once there are enough of them."""
    waits, node.wait_ready = node.wait_ready, lambda: None  # type: ignore[method-assign]
    try:
        node.start()
    finally:
        node.wait_ready = waits  # type: ignore[method-assign]
