"""Mosquitto, with persistence."""

from __future__ import annotations

import os

from lab.brokers.process import HOST, VIEWER, BrokerProcess, first_word_with_digit
from trnfleet.transport.embedded import mosquitto_program

_RIGHTS = f"""\
topic readwrite #

user {VIEWER}
topic read #
"""


class Mosquitto(BrokerProcess):
    """Eclipse Mosquitto."""

    name = "Mosquitto"
    speaks = "5"

    @classmethod
    def version(cls) -> str | None:
        """Return the program's version."""
        program = mosquitto_program()
        return None if program is None else first_word_with_digit(program, "-h")

    def command(self) -> list[str]:
        """Write the configuration."""
        rights = self.folder / "acl"
        rights.write_text(_RIGHTS)
        rights.chmod(0o600)
        lines = [
            f"listener {self.port} {HOST}",
            "allow_anonymous true",
            f"acl_file {rights}",
            "persistence true",
            f"persistence_location {self.folder}/",
            "autosave_on_changes true",
            "autosave_interval 1",
            "set_tcp_nodelay true",
            *(["user root"] if os.geteuid() == 0 else []),
        ]
        file = self.folder / "mosquitto.conf"
        file.write_text("\n".join(lines) + "\n")
        program = mosquitto_program()
        assert program is not None
        return [program, "-c", str(file)]
