"""The scraper: pages of many exporters as messages of their hosts.

One publisher describes all of its hosts. Its presence is the scraper's. A host that does not answer
becomes stale, and an event says why; one that answers without chips stays live. A host with an
agent is left to it while the agent is online.
"""

from __future__ import annotations

import asyncio
import enum
import hashlib
import math
import re
import secrets
import socket
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from trnfleet import logs
from trnfleet.bridge.neuron.host_reader import HostReader
from trnfleet.bridge.neuron.observer import UtilisationUnit
from trnfleet.bridge.neuron.scrapes import Scrapes
from trnfleet.bridge.neuron.telemetry import HostTelemetry, boot_of, default_path
from trnfleet.clock import NS_PER_S, Clock, format_rfc3339
from trnfleet.domain.quantities import counted
from trnfleet.domain.severity import Severity
from trnfleet.errors import ConfigError, TrnfleetError, WireError
from trnfleet.garbage import spare_collector
from trnfleet.services.publishing import PublisherRun, write_lines
from trnfleet.services.scrape.fetch import MOST_BYTES, FetchError, LongPageError, fetch
from trnfleet.services.scrape.targets import Target, join_targets, read_targets
from trnfleet.services.session import ANSWER_S, QUIET_S, BatchReader
from trnfleet.systemd import Work
from trnfleet.tasks import background, in_thread
from trnfleet.text import plain
from trnfleet.transport.security import TlsSettings, read_secret
from trnfleet.wire.limits import DEFAULT_LIMITS
from trnfleet.wire.messages import (
    REPEAT_S,
    EventMessage,
    HostMessage,
    decode_message,
    message_envelope,
)
from trnfleet.wire.ndjson import LeftOut
from trnfleet.wire.topics import FLEET_PATH, TopicClass, build_filter, build_topic

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from trnfleet.services.session import BrokerSession
    from trnfleet.wire.ports import Envelope, Publisher, Source

log = logs.get_logger(__name__)

AT_ONCE = 64
"""Pages requested at a time."""
RETRIES = 16
"""Of these, from hosts that were silent before: many of them must not delay the others."""
LONG_BYTES = 2**20
"""Longest page of most hosts, twice that of 16 processes with 64 cores each. Longer ones are parsed
in a thread, so that the connection and other hosts go on."""
LONG_AT_ONCE = 8
"""Longer pages requested at a time: together with the others they are at most 192 MiB."""
LONGEST_LIMIT_S = 10.0
"""Longest time for a page, as in Prometheus; a shorter interval allows four fifths of it."""
LOOK_S = 1.0
"""Time between two looks at the file of targets."""
AGENT_STILL_S = 3 * REPEAT_S
"""Time without presence after which an agent is gone, though no last will was sent."""


class HostState(enum.Enum):
    """Outcome of a host's last scrape."""

    LIVE = "live"
    NO_CHIPS = "without chips"
    UNUSABLE = "unusable"
    """It answers, and its page is no host's of the fleet."""
    SILENT = "silent"
    AGENT = "with an agent"
    """Its agent is online, and publishes it instead."""


_SEVERITIES = {
    HostState.LIVE: Severity.INFO,
    HostState.NO_CHIPS: Severity.WARNING,
    HostState.UNUSABLE: Severity.WARNING,
    HostState.SILENT: Severity.WARNING,
    HostState.AGENT: Severity.INFO,
}


@dataclass(frozen=True, slots=True)
class ScrapeRequest:
    """The hosts to scrape, and how to publish them."""

    fleet: str
    root: str
    targets: tuple[Target, ...]
    interval_s: float
    file: Path | None = None
    """File with further targets, read again when it changes."""
    client_id: str | None = None
    """Id of the publisher; by default named after this machine, the same at each start."""
    utilization: str | None = None
    """Unit of Neuron Observer's utilization, `ratio` or `percent`."""
    ca: str | None = None
    """File with the authorities of targets with TLS; by default the system's."""
    token_file: str | None = None
    """File with a bearer token for targets with TLS, read for every scrape."""
    once: bool = False
    """Whether to end after a scrape of each host."""


class ScrapedHost:
    """A target and what is known of its host."""

    def __init__(self, target: Target, unit: UtilisationUnit) -> None:
        self.target = target
        self.state: HostState | None = None
        self.reason = ""
        self.left_out = LeftOut()
        self.scrapes = Scrapes(self.left_out, unit)
        self.reader: HostReader | None = None
        self.telemetry: HostTelemetry | None = None
        self.path = ""
        """Address; empty before the first page."""
        self.told_s = -math.inf
        """When its state was published last, monotonic."""
        self.is_long = False
        """Whether its page is longer than `LONG_BYTES`."""

    def read(self, page: bytes) -> bool:
        """Read a page; return whether the host sees chips.

        Another instance at the target has a new reader.

        Raises:
            WireError: it is no page of one host.
            ConfigError: its instance type is not known.
        """
        scrapes = self.scrapes.read_text(page)
        if not scrapes:
            raise WireError(
                "the page has no metrics of neuron-monitor-prometheus or Neuron Observer"
            )
        if len({scrape.host for scrape in scrapes}) > 1:
            raise WireError("the page has several hosts: scrape each of them itself")
        has_chips = False
        for scrape in scrapes:
            has_chips = sees_chips(scrape.document)
            reader = self.reader or HostReader(metrics=scrape.metrics)
            try:
                reader.read_parsed(scrape.document)
            except WireError:
                if self.reader is None and not has_chips:
                    return False
                if self.reader is None:
                    raise
                reader = HostReader(metrics=scrape.metrics)
                reader.read_parsed(scrape.document)
            self.reader = reader
            if reader.doubts.count:
                self.left_out.doubt("page", reader.doubts.first, reader.doubts.count)
        return has_chips


class Scraper:
    """A scraper of hosts, its presence, and its events."""

    def __init__(self, request: ScrapeRequest, clock: Clock) -> None:
        """Read the targets.

        Raises:
            ConfigError: there are none, or a file cannot be used.
        """
        self.client_id = request.client_id or f"scrape-{machine_name()}"[:64]
        self.pages = 0
        """Pages read, and failures."""
        self.failures = 0
        self._request = request
        self._clock = clock
        self._boot = secrets.token_hex(8)
        self._unit = UtilisationUnit(request.utilization)
        self._limit_s = min(LONGEST_LIMIT_S, 0.8 * request.interval_s)
        self._encoding: Literal["json", "cbor"] = "cbor"
        self._stamp: tuple[int, ...] | None = None
        self._hosts: dict[str, ScrapedHost] = {}
        """By URL of their target."""
        self._paths: dict[str, ScrapedHost] = {}
        """By address."""
        self._agents: dict[str, tuple[str, float]] = {}
        """Address of each agent that is online, and when it said so, by client id."""
        self._agent_at: dict[str, str] = {}
        """Client id of the agent at each address."""
        self._turns = asyncio.Semaphore(AT_ONCE - RETRIES)
        self._retries = asyncio.Semaphore(RETRIES)
        self._long = asyncio.Semaphore(LONG_AT_ONCE)
        self._parsing = asyncio.Lock()
        self._events = 0
        self._looks = 0
        self._tls = None
        targets = self._read_targets()
        if not targets:
            raise ConfigError("no targets: name hosts, or give --targets FILE")
        if any(target.is_tls for target in targets.values()) or request.ca:
            self._tls = make_context(request.ca)
        self._token()
        self._hosts = {url: ScrapedHost(target, self._unit) for url, target in targets.items()}

    async def publish(self, session: BrokerSession, report: Callable[[str], None]) -> None:
        """Publish to a broker until a signal, or once.

        Args:
            session: The broker.
            report: Receives lines for people.

        Raises:
            BrokerError: the broker cannot be reached, or refused messages: at once where it refused
                all, else at the end.
            NotConfirmedError: in MQTT 3.1.1, at the end: the broker does not give back what it was
                sent.
            TrnfleetError: no host was live in the only round.
        """
        # Each page makes thousands of objects without cycles.
        spare_collector()
        run = PublisherRun(session, report)
        publisher = session.publisher(self.client_id, will=self._presence("offline"))
        publisher.on_connect(self.announce)
        presences = build_filter(self._request.fleet, TopicClass.PUBLISHER, session.root)
        agents = session.source([(presences, 1)], beside=self.client_id)

        async def work() -> None:
            reader = BatchReader(agents, session.clock, limit_s=ANSWER_S, quiet_s=QUIET_S)
            while batch := await reader.next():
                self.note_agents(batch)
            report(f"{self._plan()} to {session.url} as {self.client_id}")
            async with background(presences=self._follow_agents(agents)):
                await self.run(publisher)

        with run.ending.on_signals():
            await run.run(
                publisher,
                work,
                self.summary,
                works=[Work("targets", lambda: self._looks)],
                summary=self.summary,
                beside={"agents": agents.run()},
            )
        self._raise_if_none_is_live()

    async def write(self, output: BinaryIO, report: Callable[[str], None]) -> None:
        """Write NDJSON until a signal, or once.

        Raises:
            BrokenPipeError: the reader has closed the pipe.
            TrnfleetError: no host was live in the only round.
        """
        self._encoding = "json"
        report(self._plan())
        await write_lines(output, self._request.root, self.run)
        report(self.summary())
        self._raise_if_none_is_live()

    async def run(self, publisher: Publisher) -> None:
        """Scrape and publish until cancelled, or once; publish a goodbye at the end."""
        try:
            if self._request.once:
                await self.scrape_all(publisher)
                return
            async with background() as spawn:
                tasks = {
                    url: spawn(url, self._scrape_on(host, publisher))
                    for url, host in self._hosts.items()
                }
                while True:
                    await self._clock.sleep(LOOK_S)
                    self._looks += 1
                    targets = self._changed_targets()
                    # One with another address than before leaves and joins.
                    for url in [
                        url for url, host in self._hosts.items() if targets.get(url) != host.target
                    ]:
                        tasks[url].cancel()
                        await asyncio.wait([tasks.pop(url)])
                        await publisher.publish(list(self._leave(self._hosts.pop(url))))
                    for url in targets.keys() - self._hosts.keys():
                        host = self._hosts[url] = ScrapedHost(targets[url], self._unit)
                        tasks[url] = spawn(url, self._scrape_on(host, publisher))
        finally:
            await publisher.publish([self._presence("offline")])

    async def scrape_all(self, publisher: Publisher) -> None:
        """Scrape each host once, at once."""
        async with background() as spawn:
            await asyncio.wait(
                [spawn(url, self._scrape(host, publisher)) for url, host in self._hosts.items()]
            )

    def announce(self) -> Iterator[Envelope]:
        """Yield all state: presence of the scraper, and its hosts' descriptors and claims."""
        yield self._presence("online")
        # Hosts join while the messages are sent.
        for host in list(self._paths.values()):
            if host.telemetry is not None and not self._agent_of(host):
                yield from host.telemetry.announce()

    def summary(self) -> str:
        """Return hosts by state and pages so far, in one line."""
        states = Counter(host.state for host in self._hosts.values())
        parts = [f"{states[state]:,} {state.value}" for state in HostState if states[state]]
        parts += [f"{states[None]:,} not scraped yet"] if states[None] else []
        silent = next(
            (
                f" ({plain(host.target.url)}: {plain(host.reason)})"
                for state in (HostState.SILENT, HostState.UNUSABLE, HostState.NO_CHIPS)
                for host in self._hosts.values()
                if host.state is state
            ),
            "",
        )
        lines = sum(host.left_out.count + host.left_out.doubts for host in self._hosts.values())
        damaged = f", {counted(lines, 'unusable line')}" if lines else ""
        return (
            f"{counted(len(self._hosts), 'host')}: {', '.join(parts)}{silent};"
            f" {counted(self.pages, 'scrape')}, {self.failures:,} failed{damaged}"
        )

    def _plan(self) -> str:
        hosts = counted(len(self._hosts), "host")
        every = "once" if self._request.once else f"every {self._request.interval_s:g} s"
        return f"scraping {hosts} {every}"

    def _raise_if_none_is_live(self) -> None:
        if self._request.once and not any(
            host.state in {HostState.LIVE, HostState.AGENT} for host in self._hosts.values()
        ):
            raise TrnfleetError("no host could be read")

    async def _scrape_on(self, host: ScrapedHost, publisher: Publisher) -> None:
        """Scrape a host at its own moment of each interval."""
        clock = self._clock
        interval_s = self._request.interval_s
        digest = hashlib.sha256(host.target.url.encode()).digest()
        offset_s = int.from_bytes(digest[:8], "big") / 2**64 * interval_s
        due_s = clock.monotonic_s() + (offset_s - clock.wall_ns() / NS_PER_S) % interval_s
        while True:
            await clock.sleep(due_s - clock.monotonic_s())
            await self._scrape(host, publisher)
            late_s = max(0.0, clock.monotonic_s() - due_s)
            due_s += interval_s * math.ceil(max(late_s / interval_s, 1e-9))

    async def _scrape(self, host: ScrapedHost, publisher: Publisher) -> None:
        """Scrape a host and publish the outcome."""
        if agent := self._agent_of(host):
            await publisher.publish(self._leave_to(agent, host))
            return
        turns = self._retries if host.state is HostState.SILENT else self._turns
        is_long = host.is_long
        async with self._long if is_long else turns:
            try:
                token = self._token() if host.target.is_tls else ""
                most = MOST_BYTES if is_long else LONG_BYTES
                page = await fetch(host.target, self._limit_s, self._tls, token, most)
            except LongPageError as error:
                host.is_long = True
                batch = self._note(host, HostState.SILENT, str(error)) if is_long else None
            except (FetchError, ConfigError) as error:
                batch = self._note(host, HostState.SILENT, str(error))
            else:
                host.is_long = len(page) > LONG_BYTES
                batch = await self._read(host, page)
            if batch is not None:
                await publisher.publish(batch)
        if batch is None:
            await self._scrape(host, publisher)

    async def _read(self, host: ScrapedHost, page: bytes) -> list[Envelope]:
        """Return the messages of a page."""
        was_sound = host.left_out.is_sound
        unit = self._unit
        batch: list[Envelope] = []
        async with self._parsing:
            was_percent = unit.is_percent
            try:
                # A long page takes seconds, others milliseconds.
                is_long = host.is_long
                has_chips = (
                    await in_thread(partial(host.read, page)) if is_long else host.read(page)
                )
                batch += self._place(host)
            except (WireError, ConfigError) as error:
                batch += self._note(host, HostState.UNUSABLE, str(error))
            else:
                batch += self._messages(host, has_chips=has_chips)
            if unit.is_percent and not was_percent:
                log.warning("utilization_is_percent", first=unit.reason, target=host.target.url)
                text = (
                    "Neuron Observer's utilization is percent, read as a ratio until now:"
                    f" {unit.reason} of {host.target.url}"
                )
                batch.append(self._event("utilization_is_percent", Severity.WARNING, text))
        if was_sound and not host.left_out.is_sound:
            log.warning(
                "scrape_has_unusable_lines",
                target=host.target.url,
                first=host.left_out.first or host.left_out.first_doubt,
            )
        return batch

    def _place(self, host: ScrapedHost) -> Iterator[Envelope]:
        """Give a host that was read its address, and yield what clears its former one.

        Raises:
            WireError: another target has the address.
        """
        reader = host.reader
        if reader is None:
            return
        telemetry = host.telemetry
        if telemetry is not None and telemetry.reader is not reader:
            # Another instance is at the target now.
            yield from self._leave(host)
            telemetry = None
        name = re.sub(r"[^A-Za-z0-9_-]", "-", host.target.host)
        path = host.target.address or default_path(reader, name)
        other = self._paths.setdefault(path, host)
        if other is not host:
            raise WireError(f"{other.target.url} is the same host, {path}")
        if telemetry is None:
            host.telemetry = HostTelemetry(
                reader,
                self._request.fleet,
                path,
                boot=boot_of(path, self._clock.wall_ns()),
                period_s=self._request.interval_s,
                encoding=self._encoding,
                root=self._request.root,
                publisher=self.client_id,
                with_presence=False,
            )
        elif path != host.path:
            del self._paths[host.path]
            cleared = list(telemetry.move(path))
            yield from () if self._agent_of(host) else cleared
        host.path = path

    def _messages(self, host: ScrapedHost, *, has_chips: bool) -> Iterator[Envelope]:
        """Yield the messages of a host that was read, unless its agent publishes it."""
        if agent := self._agent_of(host):
            yield from self._leave_to(agent, host)
            return
        telemetry = host.telemetry
        if telemetry is not None:
            now_s = self._clock.monotonic_s()
            # Counts of a time when nothing was published are those of the exporter or the agent.
            is_first = host.told_s == -math.inf
            if now_s - host.told_s >= REPEAT_S:
                host.told_s = now_s
                yield from telemetry.announce()
            yield from telemetry.envelopes(self._clock.wall_ns(), with_events=not is_first)
        if has_chips:
            yield from self._note(host, HostState.LIVE, "")
        else:
            yield from self._note(host, HostState.NO_CHIPS, "the host sees no Neuron device")

    def _leave(self, host: ScrapedHost) -> Iterator[Envelope]:
        """Yield the messages that take a host out of the fleet, unless its agent publishes it."""
        if host.telemetry is None:
            return
        if not self._agent_of(host):
            yield from host.telemetry.clear()
        del self._paths[host.path]
        host.telemetry = None
        host.path = ""
        host.told_s = -math.inf

    def _leave_to(self, agent: str, host: ScrapedHost) -> list[Envelope]:
        """Leave a host to its agent, and return the event where that is new."""
        host.told_s = -math.inf
        return self._note(host, HostState.AGENT, f"{agent} is online and publishes this host")

    def _agent_of(self, host: ScrapedHost) -> str:
        """Return the client id of the agent that publishes a host; empty without one."""
        client = self._agent_at.get(host.path, "")
        _, heard_s = self._agents.get(client, ("", -math.inf))
        return client if self._clock.monotonic_s() - heard_s < AGENT_STILL_S else ""

    async def _follow_agents(self, source: Source) -> None:
        while True:
            self.note_agents(await source.take())

    def note_agents(self, batch: Iterable[Envelope]) -> None:
        """Note the agents that are online, by the presence of all publishers."""
        for envelope in batch:
            try:
                presence = decode_message(envelope.payload, HostMessage)
            except WireError:
                continue
            client = presence.client
            former, _ = self._agents.pop(client, ("", 0.0))
            if self._agent_at.get(former) == client:
                del self._agent_at[former]
            if (
                presence.state == "online"
                and presence.path
                and len(self._agents) < DEFAULT_LIMITS.publishers
            ):
                self._agents[client] = (presence.path, self._clock.monotonic_s())
                self._agent_at[presence.path] = client

    def _note(self, host: ScrapedHost, state: HostState, reason: str) -> list[Envelope]:
        """Count an outcome, and return the event where the host's state has changed."""
        if state is not HostState.AGENT:
            self.pages += 1
            self.failures += state in {HostState.SILENT, HostState.UNUSABLE}
        host.reason = reason
        before = host.state
        host.state = state
        if state is before or (before is None and state is HostState.LIVE):
            return []
        name = f"scrape_{state.name.lower()}"
        write = log.warning if _SEVERITIES[state] is Severity.WARNING else log.info
        write(name, target=host.target.url, host=host.path or None, reason=reason or None)
        again = "its agent is offline" if before is HostState.AGENT else "answers again"
        text = f"{host.target.url}: {reason or again}"
        return [self._event(name, _SEVERITIES[state], text, host.path)]

    def _event(self, name: str, severity: Severity, text: str, path: str = "") -> Envelope:
        """Return an event of a host, or of the fleet."""
        self._events += 1
        message = EventMessage(
            id=f"{self._boot}-{self._events}",
            ts=format_rfc3339(self._clock.wall_ns()),
            path=path,
            source="scrape",
            name=name,
            severity=severity,
            text=plain(text, DEFAULT_LIMITS.text_chars),
        )
        topic = build_topic(
            self._request.fleet, TopicClass.EVENT, path or FLEET_PATH, self._request.root
        )
        return message_envelope(topic, message, retain=False)

    def _presence(self, state: Literal["online", "offline"]) -> Envelope:
        message = HostMessage(client=self.client_id, state=state, boot=self._boot, source="scrape")
        topic = build_topic(
            self._request.fleet, TopicClass.PUBLISHER, self.client_id, self._request.root
        )
        return message_envelope(topic, message, retain=True)

    def _read_targets(self) -> dict[str, Target]:
        """Return the present targets by URL.

        Raises:
            ConfigError: the file cannot be used.
        """
        file = self._request.file
        more: list[Target] = []
        if file is not None:
            self._stamp = _stamp(file)
            more = read_targets(file)
        return join_targets((*self._request.targets, *more))

    def _changed_targets(self) -> dict[str, Target]:
        """Return the targets by URL, read again if their file has changed."""
        present = {url: host.target for url, host in self._hosts.items()}
        file = self._request.file
        if file is None or _stamp(file) == self._stamp:
            return present
        try:
            targets = self._read_targets()
            if any(target.is_tls for target in targets.values()) and self._tls is None:
                self._tls = make_context(self._request.ca)
        except ConfigError as error:
            log.warning("targets_not_read", error=str(error), keeps="the present targets")
            return present
        joined = len(targets.keys() - present.keys())
        left = len(present.keys() - targets.keys())
        log.info("targets_changed", joined=joined, left=left, targets=len(targets))
        return targets

    def _token(self) -> str:
        """Return the bearer token; empty without one.

        Raises:
            ConfigError: it cannot be read.
        """
        file = self._request.token_file
        return "" if file is None else read_secret("--target-token-file", file)


def machine_name() -> str:
    """Return this machine's name as a segment of topics."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", socket.gethostname().partition(".")[0])[:48] or "host"


def sees_chips(document: dict[str, Any]) -> bool:
    """Return whether a host sees devices, as its document says or shows."""
    count = document["neuron_hardware_info"].get("neuron_device_count")
    if count is not None:
        return bool(count)
    counters = document["system_data"]["neuron_hw_counters"]
    return bool(counters["neuron_devices"]) or any(
        block["report"] for block in document["neuron_runtime_data"]
    )


def _stamp(file: Path) -> tuple[int, ...] | None:
    """Return what changes with a file; None without it."""
    try:
        status = file.stat()
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size, status.st_ino)


def make_context(ca: str | None) -> ssl.SSLContext:
    """Return a context that verifies targets.

    Raises:
        ConfigError: the authorities cannot be read.
    """
    try:
        return TlsSettings(ca=ca).context()
    except ConfigError as error:
        raise ConfigError(str(error).replace("--ca", "--target-ca", 1)) from None
