"""amqtt as a program of its own: MQTT 3.1.1, one loopback address, anonymous, nothing stored.

Run as a script, `amqtt_child.py HOST PORT`: only its process loads amqtt, which must not burden the app.
Says on stdout when it listens, ends at SIGTERM. Errors go to stderr in one line.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqtt.session import Session

LISTENING = "listening"
"""The line on stdout that says that connections are accepted."""
END_S = 1.5
"""Longest wait for the broker's orderly end, seconds."""


async def serve(host: str, port: int) -> None:
    """Serve until SIGTERM."""
    from amqtt.broker import Broker  # noqa: PLC0415  after the checks in main, which need no half second of imports

    class ModestBroker(Broker):  # type: ignore[misc]  # amqtt has no types
        """A broker that sends a client the retained messages of its own subscriptions alone.

        amqtt sends those of all subscriptions to every client that connects, and closes the connection where another
        client subscribes meanwhile.
        """

        async def _publish_retained_messages_for_subscription(
            self, subscription: tuple[str, int], session: Session
        ) -> None:
            holders = self._subscriptions.get(subscription[0], ())
            if any(holder.client_id == session.client_id for holder, _ in holders):
                await super()._publish_retained_messages_for_subscription(subscription, session)

    ending = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ending.set)
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    broker = ModestBroker(
        {
            "listeners": {"default": {"type": "tcp", "bind": address, "max_connections": 0}},
            # The default plugins log every packet and publish $SYS topics; this one only lets everyone in.
            "plugins": {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}},
        }
    )
    await broker.start()
    sys.stdout.write(f"{LISTENING}\n")
    sys.stdout.flush()
    await ending.wait()
    # A client that does not go must not keep this process alive when the parent is gone already.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(END_S):
            await broker.shutdown()


def main(arguments: list[str]) -> int:
    """Check the address, serve on it, and return the exit status."""
    host, port = arguments[0], int(arguments[1])
    if not ipaddress.ip_address(host).is_loopback:
        sys.stderr.write(f"{host} is not a loopback address\n")
        return 2
    # amqtt logs every refused packet; under overload that would fill the disk.
    logging.disable(logging.ERROR)
    try:
        asyncio.run(serve(host, port))
    except Exception as error:  # noqa: BLE001  the border of the process: whatever it is, it is reported in one line
        sys.stderr.write(f"{error.__cause__ or error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
