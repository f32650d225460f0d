"""RabbitMQ with its MQTT plugin, as Debian packages it."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from support.processes.mosquitto import free_port

from lab.brokers.process import HOST, PASSWORD, VIEWER, BrokerProcess

if TYPE_CHECKING:
    from collections.abc import Iterable

_SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
_EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}


class RabbitMq(BrokerProcess):
    """RabbitMQ."""

    name = "RabbitMQ"
    speaks = "3.1.1"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._ports = free_port(), free_port(), free_port()

    @classmethod
    def version(cls) -> str | None:
        """Return the version of the package."""
        folders = sorted(
            Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/plugins/rabbitmq_mqtt-*")
        )
        return (
            folders[0].name.removeprefix("rabbitmq_mqtt-").removesuffix(".ez") if folders else None
        )

    def environment(self) -> dict[str, str]:
        """Return its folders and ports, and an epmd of its own."""
        epmd, amqp, distribution = self._ports
        return {
            "RABBITMQ_NODENAME": f"trnfleet{self.port}@localhost",
            "RABBITMQ_MNESIA_BASE": str(self.folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self.folder / "log"),
            "RABBITMQ_NODE_IP_ADDRESS": HOST,
            "RABBITMQ_NODE_PORT": str(amqp),
            "RABBITMQ_DIST_PORT": str(distribution),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "ERL_EPMD_PORT": str(epmd),
            "ERL_EPMD_ADDRESS": HOST,
            "HOME": str(self.folder),
        }

    def command(self) -> list[str]:
        """Write configuration, users and plugins."""
        (self.folder / "plugins").write_text("[rabbitmq_mqtt].\n")
        (self.folder / "definitions.json").write_text(json.dumps(_definitions()))
        lines = [
            f"mqtt.listeners.tcp.1 = {HOST}:{self.port}",
            "mqtt.allow_anonymous = true",
            "mqtt.default_user = everybody",
            f"mqtt.default_pass = {PASSWORD}",
            f"load_definitions = {self.folder}/definitions.json",
        ]
        (self.folder / "rabbitmq.conf").write_text("\n".join(lines) + "\n")
        return [str(_SERVER)]

    def kill(self) -> None:
        """Kill it, and its epmd, which is a daemon with a session of its own."""
        super().kill()
        for process in psutil.process_iter(["name"]):
            if process.info["name"] == "epmd":
                with contextlib.suppress(psutil.Error):
                    if process.environ().get("ERL_EPMD_PORT") == str(self._ports[0]):
                        process.kill()


def _definitions() -> dict[str, Iterable[dict[str, object]]]:
    users = ("everybody", VIEWER)
    return {
        "users": [{"name": each, "password": PASSWORD, "tags": ""} for each in users],
        "vhosts": [{"name": "/"}],
        "permissions": [{"user": each, "vhost": "/", **_EVERYTHING} for each in users],
        "topic_permissions": [
            {"user": VIEWER, "vhost": "/", "exchange": "amq.topic", "write": "^$", "read": ".*"}
        ],
    }
