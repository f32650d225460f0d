"""trnfleet's own broker, alone: it replaces a missing Mosquitto."""

from __future__ import annotations

import sys

from lab.brokers.process import HOST, BrokerProcess, first_word_with_digit
from trnfleet.transport.embedded import nats_program
from trnfleet.transport.url import BrokerUrl


class Fallback(BrokerProcess):
    """`trnfleet broker --kind nats`.

    It admits everybody and stores nothing.
    """

    name = "fallback"
    speaks = "3.1.1"
    has_users = False

    @classmethod
    def version(cls) -> str | None:
        """Return the version of the program behind it."""
        program = nats_program()
        return None if program is None else first_word_with_digit(program, "--version")

    @property
    def viewer_url(self) -> BrokerUrl:
        """The address for everybody: there are no users."""
        return BrokerUrl(HOST, self.port)

    def command(self) -> list[str]:
        """Return the command."""
        return [
            sys.executable,
            "-m",
            "trnfleet",
            "broker",
            "--port",
            str(self.port),
            "--kind",
            "nats",
        ]
