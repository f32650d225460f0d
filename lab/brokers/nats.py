"""NATS Server with MQTT and JetStream: one, and a cluster of three."""

from __future__ import annotations

import json
import re
import socket
import time
from typing import TYPE_CHECKING

from support.processes.mosquitto import free_port

from lab.brokers.process import (
    HOST,
    PASSWORD,
    START_S,
    VIEWER,
    BrokerProcess,
    first_word_with_digit,
)
from trnfleet.transport.embedded import nats_program

if TYPE_CHECKING:
    from pathlib import Path

# A retained message is stored by a request of the client's own connection, below $MQTT: who may
# read needs these, too.
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
_STREAMS = ("$MQTT_sess", "$MQTT_msgs", "$MQTT_rmsgs", "$MQTT_qos2in", "$MQTT_out")
"""The nodes' MQTT streams, each led by a node of its own."""
_DECIDES = "Self is new JetStream cluster metadata leader"


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

    def request(self, subject: str, text: str = "") -> str:
        """Return the answer to a request in the server's own protocol."""
        with socket.create_connection((HOST, self.clients), timeout=5) as connection:
            connect = json.dumps({"user": "everybody", "pass": PASSWORD, "verbose": False})
            connection.sendall(
                f"CONNECT {connect}\r\nSUB answer 1\r\nPUB {subject} answer"
                f" {len(text)}\r\n{text}\r\n".encode()
            )
            taken = ""
            while not (found := re.search(r"MSG answer 1 (\d+)\r\n(.*)\r\n", taken, re.DOTALL)):
                taken += connection.recv(65_536).decode()
            return found[2]

    def join(self, nodes: list[NatsNode]) -> None:
        """Have the others as its routes."""
        routes = ", ".join(f'"nats://{HOST}:{each.own}"' for each in nodes)
        self.more = _CLUSTER.format(host=HOST, own=self.own, routes=routes)


class NatsCluster(Nats):
    """Three nodes.

    Clients are at the first, and it is killed.
    """

    name = "NATS, three nodes"
    at_once = 1
    """Cases run at once. Three nodes agree on each connection and each subscription at QoS 1, and
    here they share the processors of one machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "cluster"
        self.folder.mkdir()
        self.nodes = [NatsNode(self.folder, f"node{number}") for number in range(3)]
        for node in self.nodes:
            node.join(self.nodes)
        self.port = self.nodes[0].port
        self.process = None

    def start(self) -> None:
        """Start all stopped nodes, and wait until the first serves MQTT.

        The others must be there for it.
        """
        for node in self.nodes:
            if node.process is None:
                node_start(node)
        until = time.monotonic() + START_S
        # A CONNECT that comes before the nodes have agreed on one that decides waits for five
        # seconds.
        while not all("metadata leader" in node.output() for node in self.nodes):
            assert time.monotonic() < until, self.nodes[0].output()
            time.sleep(0.02)
        # Retained messages and sessions have a leader among the nodes before CONNECT is answered.
        while not all(node.answers() for node in self.nodes):
            assert time.monotonic() < until, self.nodes[0].output()
            time.sleep(0.05)

    def deciding(self) -> NatsNode:
        """Return the node that decides on storage."""
        return next(node for node in self.nodes if _DECIDES in node.output())

    def lead_from(self, leader: NatsNode) -> None:
        """Make one node the leader of all MQTT streams.

        No vote is then needed when another node dies.
        """
        wanted = json.dumps({"placement": {"preferred": leader.name}})
        until = time.monotonic() + START_S
        for stream in _STREAMS:
            leader.request(f"$JS.API.STREAM.LEADER.STEPDOWN.{stream}", wanted)
            while f'"leader":"{leader.name}"' not in leader.request(
                f"$JS.API.STREAM.INFO.{stream}"
            ):
                assert time.monotonic() < until, stream
                time.sleep(0.02)

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
