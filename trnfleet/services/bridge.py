"""The EC2 bridge: reservations of an AWS account, to a broker or to stdout."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO

from trnfleet.bridge.ec2.client import connect, read
from trnfleet.bridge.ec2.service import Bridge, serve
from trnfleet.domain.quantities import counted
from trnfleet.errors import ConfigError
from trnfleet.services.publishing import PublisherRun, write_lines
from trnfleet.systemd import Work
from trnfleet.wire.eventbridge import MOST_BYTES
from trnfleet.wire.messages import REPEAT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from decimal import Decimal

    from trnfleet.clock import Clock
    from trnfleet.services.session import BrokerSession
    from trnfleet.wire.ports import Publisher

READING_STILL_S = 4 * REPEAT_S
"""Time without a reading or a repetition after which the bridge counts as hanging. Repetitions come
every `REPEAT_S`; a reading requests many pages from EC2, each with its own limit."""


@dataclass(frozen=True, slots=True)
class BridgeRequest:
    """The account to read, and how to publish it."""

    fleet: str
    """Fleet name under which the account's hosts publish."""
    root: str
    interval_s: float
    """Time between two readings."""
    region: str | None = None
    profile: str | None = None
    once: bool = False
    """Whether to end after one reading."""
    blocks_only: bool = False
    """Whether to publish Capacity Blocks only, without other On-Demand Capacity Reservations."""
    forget: bool = False
    """Whether to clear reservations missing from EC2's answer."""
    events: str | None = None
    """File of EC2's events as EventBridge delivers them, `-` for stdin."""
    prices: Mapping[str, Decimal] = field(default_factory=dict)
    """USD an instance and hour, by instance type."""


class Ec2Bridge:
    """A bridge and its connection to AWS."""

    def __init__(self, request: BridgeRequest, client: Any = None) -> None:
        """Connect to AWS.

        Args:
            request: The account.
            client: The EC2 client to use; by default one for the request's region and profile.

        Raises:
            CloudError: boto3 is missing, or there are no credentials.
            ConfigError: the file of events cannot be read.
        """
        self._request = request
        self._next_line = (
            None if request.events is None else line_reader(open_events(request.events))
        )
        self.client_id = f"trnfleet-bridge-{secrets.token_hex(4)}"
        self._bridge = Bridge(
            request.fleet,
            client_id=self.client_id,
            boot=secrets.token_hex(8),
            root=request.root,
            with_default=not request.blocks_only,
            forget=request.forget,
            prices=request.prices,
        )
        self._client = connect(request.region, request.profile) if client is None else client

    async def publish(self, session: BrokerSession, report: Callable[[str], None]) -> None:
        """Publish readings to a broker until a signal, or once.

        Args:
            session: The broker.
            report: Receives a line where the broker does not give back what it was sent.

        Raises:
            BrokerError: the broker cannot be reached, or refused messages: at once where it refused
                all, else at the end.
            NotConfirmedError: in MQTT 3.1.1, at the end: the broker does not give back what it was
                sent.
            CloudError: the first reading failed.
        """
        bridge = self._bridge
        run = PublisherRun(session, report)
        publisher = session.publisher(self.client_id, will=bridge.presence("offline"))
        publisher.on_connect(bridge.announce)
        with run.ending.on_signals():
            await run.run(
                publisher,
                lambda: self._serve(publisher, session.clock),
                lambda: f"{counted(publisher.status.sent, 'message')} published",
                works=[Work("readings", lambda: bridge.rounds, still_s=READING_STILL_S)],
            )

    async def write(self, output: BinaryIO, clock: Clock) -> None:
        """Write readings as NDJSON until a signal, or once.

        Raises:
            BrokenPipeError: the reader has closed the pipe.
            CloudError: the first reading failed.
        """
        await write_lines(
            output, self._request.root, lambda lines: self._serve(lines, clock, repeats=False)
        )

    def _serve(
        self, publisher: Publisher, clock: Clock, *, repeats: bool = True
    ) -> Coroutine[Any, Any, None]:
        return serve(
            self._bridge,
            publisher,
            lambda: read(self._client),
            clock=clock,
            interval_s=self._request.interval_s,
            once=self._request.once,
            repeats=repeats,
            next_line=self._next_line,
        )


def open_events(path: str) -> int:
    """Return the descriptor of a file of events, `-` for stdin.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        descriptor = os.dup(0) if path == "-" else os.open(path, os.O_RDONLY)
        # A folder can be opened, and not be read.
        os.read(descriptor, 0)
    except OSError as error:
        raise ConfigError(f"--events {path}: {error.strerror or error}") from error
    return descriptor


def line_reader(descriptor: int) -> Callable[[], bytes]:
    """Return a function that reads the next line of a file.

    It returns nothing at the file's end, and only the beginning of a line that is too long. A
    thread blocked in it does not delay the program's exit; one blocked in a buffered reader may.
    """
    buffer = bytearray()

    def next_line() -> bytes:
        head = b""
        while (end := buffer.find(b"\n")) < 0:
            if len(buffer) > MOST_BYTES:
                head = head or bytes(buffer[: MOST_BYTES + 1])
                buffer.clear()
            chunk = os.read(descriptor, 65_536)
            if not chunk:
                break
            buffer.extend(chunk)
        end = len(buffer) if end < 0 else end + 1
        line = head or bytes(buffer[:end])
        del buffer[:end]
        return line

    return next_line
