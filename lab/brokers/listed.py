"""Mosquitto and NATS Server with the shipped access lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.paths import ROOT

from lab.brokers.mosquitto import Mosquitto
from lab.brokers.nats import Nats
from lab.brokers.process import HOST, PASSWORD

if TYPE_CHECKING:
    from pathlib import Path

LISTS = ROOT / "config" / "brokers"


def write_mosquitto_list(folder: Path) -> Path:
    """Write Mosquitto's list and a user `everybody` into a folder, and return the file."""
    rights = folder / "acl"
    rights.write_text(
        (LISTS / "mosquitto.acl").read_text() + "\nuser everybody\ntopic readwrite #\n"
    )
    rights.chmod(0o600)
    return rights


class ListedMosquitto(Mosquitto):
    """Mosquitto with the shipped lists; a writer of everything beside them."""

    def command(self) -> list[str]:
        """Write the lists in the place of the usual ones."""
        command = super().command()
        write_mosquitto_list(self.folder)
        return command


class ListedNats(Nats):
    """NATS Server with the shipped lists; a writer of everything beside them."""

    def command(self) -> list[str]:
        """Include the lists."""
        lists = (LISTS / "nats.conf").read_text()
        lists = lists.replace(
            "  users = [\n", f'  users = [\n    {{ user: everybody, password: "{PASSWORD}" }}\n'
        )
        (self.folder / "trnfleet.conf").write_text(lists)
        command = super().command()
        lines = [
            "server_name: listed",
            f'listen: "{HOST}:{self.clients}"',
            f'jetstream {{ store_dir: "{self.folder}/store" }}',
            f'mqtt {{ listen: "{HOST}:{self.port}" }}',
            "include trnfleet.conf",
        ]
        (self.folder / "nats.conf").write_text("\n".join(lines) + "\n")
        return command

    def environment(self) -> dict[str, str]:
        """Return the passwords."""
        roles = ("PUBLISHER", "WATCH", "VIEWER", "OPERATOR", "RELAY", "AGENT", "REPORTER")
        return {f"TRNFLEET_{role}_PASSWORD": PASSWORD for role in roles}
