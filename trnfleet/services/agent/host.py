"""Messages of the host that the agent runs on, tick by tick."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from collections import Counter, deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from trnfleet import __version__, logs
from trnfleet.bridge.host.efa import EfaCounters
from trnfleet.bridge.host.identity import UNLISTED, HostIdentity, read_dmi
from trnfleet.bridge.host.job_mapping import FOLDER, read_job_mapping
from trnfleet.bridge.host.kernel_log import Journal, KernelRing, journal_command, kernel_events
from trnfleet.bridge.host.pod_resources import SOCKET, pod_holders, read_pod_resources
from trnfleet.bridge.neuron.fields import Doubts, object_of, parse_document
from trnfleet.bridge.neuron.host_reader import NEURON_MONITOR, HostReader
from trnfleet.bridge.neuron.programs import (
    ANSWER_S,
    find_program,
    list_devices,
    monitor_configuration,
)
from trnfleet.bridge.neuron.stream import Document, read_documents
from trnfleet.bridge.neuron.telemetry import (
    CLUSTER,
    HOST,
    HostEvent,
    HostTelemetry,
    PresenceFacts,
    default_path,
)
from trnfleet.clock import NS_PER_S
from trnfleet.domain.address import STANDALONE, to_segment
from trnfleet.domain.quantities import counted
from trnfleet.domain.severity import Severity
from trnfleet.errors import CloudError, ConfigError, WireError
from trnfleet.services.agent.devices import CORES_EVERY_S, LIMIT_S, Devices, LimitedCalls
from trnfleet.services.agent.sources import BACKOFF_S, ChildSource, FileSource
from trnfleet.tasks import background, in_thread
from trnfleet.wire.messages import REPEAT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trnfleet.bridge.host.identity import MaintenanceNotice, MetadataService
    from trnfleet.bridge.neuron.devices import DeviceList
    from trnfleet.bridge.neuron.telemetry import Holder
    from trnfleet.bridge.neuron.values import Chips, FailedExecutions
    from trnfleet.clock import Clock
    from trnfleet.wire.ports import Envelope

log = logs.get_logger(__name__)

LATE_PERIODS = 1.5
"""Periods without a document after which a tick goes on without one."""
_MOST_EVENTS = 256
"""Most events that wait for a tick."""


@dataclass(frozen=True, slots=True)
class HostRequest:
    """The host to publish, and where its facts are."""

    fleet: str
    root: str
    period_s: float
    path: str | None = None
    """Address of the instance; None to find it out."""
    instance_type: str | None = None
    host_root: Path = Path("/")
    """Folder with the host's `dev`, `proc` and `sys`."""
    file: str | None = None
    """File of neuron-monitor, `-` for stdin; None to run it."""
    imds: MetadataService | None = None
    """The metadata service; None not to use it."""
    job_mapping: Path | None = None
    """Folder with a file for each device, by a scheduler; None for the usual one."""
    queue: Path | None = None
    """File for messages while the broker is away; None to hold them in memory."""
    encoding: Literal["json", "cbor"] = "cbor"


class AgentHost:
    """The host: its sources, and the messages of each tick."""

    def __init__(
        self,
        request: HostRequest,
        clock: Clock,
        folder: Path,
        identity: HostIdentity,
        device_list: DeviceList | None,
    ) -> None:
        """Describe the host; `find` reads the facts.

        Args:
            request: The host.
            clock: The time to go by.
            folder: For the configuration of neuron-monitor.
            identity: The instance's.
            device_list: What neuron-ls says.
        """
        self._request = request
        self._clock = clock
        self._identity = identity
        self._reader = HostReader(device_list, metrics=())
        self._name = to_segment(socket.gethostname()) or HOST
        """The machine's name as a segment of an address."""
        own = identity.ec2_id or self._name
        self._telemetry = HostTelemetry(
            self._reader,
            request.fleet,
            request.path or f"{CLUSTER}/{STANDALONE}/{own}",
            boot=secrets.token_hex(8),
            period_s=request.period_s,
            encoding=request.encoding,
            root=request.root,
        )
        self._calls = LimitedCalls()
        self._devices = Devices(request.host_root, clock, self._calls)
        self._efa = EfaCounters(request.host_root)
        self._has_documents = asyncio.Event()
        self._documents = self._document_source(folder)
        self._kernel = self._journal()
        self._ring: KernelRing | None = None
        self._pods: tuple[Holder, ...] = ()
        self._pods_s = -CORES_EVERY_S
        """Monotonic seconds of the last look at the kubelet."""
        self._events: deque[HostEvent] = deque(maxlen=_MOST_EVENTS)
        self._notices: dict[str, MaintenanceNotice] = {}
        """Scheduled events of EC2 by id."""
        self._problems: dict[str, str] = {}
        """Reason of each source that does not work."""
        self._worked: set[str] = set()
        self._lost = 0
        """Documents and kernel messages that were not read in time."""
        self.tell_dropped: Callable[[], Counter[str]] = Counter
        """Returns the messages that its queue has dropped by class since the last call."""
        self.first_waiting: Callable[[str], int | None] = lambda _boot: None
        """Returns the number of the oldest tick of a boot that waits in its queue."""
        self._repeat_s = clock.monotonic_s() + REPEAT_S
        self._due_s = clock.monotonic_s()
        self.ticks = 0

    @classmethod
    async def find(cls, request: HostRequest, clock: Clock, folder: Path) -> AgentHost:
        """Return the host after finding out who it is, and which chips its devices are."""
        problems: dict[str, str] = {}
        identity = HostIdentity()
        if request.imds is not None:
            try:
                identity = await in_thread(request.imds.identity)
            except CloudError as error:
                problems["metadata service"] = str(error)
        if not identity.ec2_id:
            identity = await in_thread(lambda: read_dmi(request.host_root))
        if request.instance_type is not None:
            identity = identity._replace(instance_type=request.instance_type)
        device_list: DeviceList | None = None
        try:
            device_list = await in_thread(list_devices)
        except ConfigError as error:
            problems["neuron-ls"] = str(error)
        host = cls(request, clock, folder, identity, device_list)
        for name, problem in problems.items():
            host._note(name, problem)
        return host

    def _document_source(self, folder: Path) -> ChildSource[Document] | FileSource[Document]:
        request = self._request
        facts: dict[str, Any] = {"clock": self._clock, "wake": self._has_documents.set}
        if request.file is not None:
            return FileSource("neuron-monitor", read_documents, path=request.file, **facts)
        configuration = folder / "neuron-monitor.json"

        def command() -> list[str]:
            program = find_program("neuron-monitor")
            configuration.write_text(monitor_configuration(request.period_s), encoding="utf-8")
            return [program, "-c", str(configuration)]

        quiet_s = max(BACKOFF_S[1], 3 * request.period_s)
        return ChildSource(
            "neuron-monitor", read_documents, command=command, quiet_s=quiet_s, **facts
        )

    @property
    def publisher(self) -> str:
        """The host's name as a publisher."""
        return self._telemetry.publisher

    @property
    def path(self) -> str:
        """The present address."""
        return self._telemetry.path

    @property
    def is_known(self) -> bool:
        """Whether there is anything to publish: the instance's type, and values."""
        return bool(self._reader.columns)

    @property
    def missing(self) -> str:
        """Reason why there is nothing to publish."""
        if problem := self._problems.get("instance type"):
            return problem
        return f"no document of {self._documents.name} and no device of the driver"

    def announce(self) -> Iterator[Envelope]:
        """Yield the retained state; none before the first tick.

        A host that was away would be online and silent until its first document.
        """
        if self.ticks:
            first = self.first_waiting(self._telemetry.boot)
            if first is not None:
                self._telemetry.backlog = first, self._telemetry.seq - 1
            yield from self._telemetry.announce()

    def presence(self, state: Literal["online", "offline"]) -> Envelope:
        """Return the host's presence; `offline` is its last will."""
        return self._telemetry.presence(state)

    async def run(self) -> None:
        """Read the sources until cancelled."""
        work = {"documents": self._documents.run(), "metadata": self._follow_metadata()}
        if self._kernel is not None:
            work["journal"] = self._kernel.run()
        else:
            try:
                self._ring = KernelRing(self._request.host_root)
            except OSError as error:
                self._note("kernel log", f"no readable journal, and /dev/kmsg: {error.strerror}")
        async with background(**work):
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                if self._ring is not None:
                    self._ring.close()

    def _journal(self) -> ChildSource[str] | None:
        """Return the journal as a source; None where it cannot be read."""
        command = journal_command(self._request.host_root)
        if not command:
            return None
        journal = Journal(command, self._clock.wall_ns() // NS_PER_S)
        return ChildSource(
            "kernel log",
            journal.texts,
            command=journal.command,
            clock=self._clock,
            wake=lambda: None,
        )

    async def _follow_metadata(self) -> None:
        """Read scheduled events each minute, and the identity until it is known."""
        imds = self._request.imds
        while imds is not None:
            try:
                if self._identity.source != "IMDS":
                    identity = await in_thread(imds.identity)
                    told = self._request.instance_type
                    self._identity = identity._replace(instance_type=told or identity.instance_type)
                listed = {notice.id: notice for notice in await in_thread(imds.notices)}
                over = {
                    name: notice._replace(state=UNLISTED)
                    for name, notice in self._notices.items()
                    if name not in listed and not notice.is_over
                }
                for name, notice in (listed | over).items():
                    if notice != self._notices.get(name):
                        self._events.append(notice.event)
                self._notices = listed
                self._note("metadata service", "")
            except CloudError as error:
                self._note("metadata service", str(error))
            await self._clock.sleep(REPEAT_S)

    async def wait(self) -> None:
        """Wait for a document, or until the next tick is due without one."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, self._due_s - self._clock.monotonic_s())):
                await self._has_documents.wait()

    async def wait_documents(self, *, once: bool) -> None:
        """Wait for the first document, or until none can be expected.

        A host without a known id waits through failures of the source, too: under the machine's
        name it would be another instance than under the id of its documents.

        Args:
            once: Whether there is only one tick. Then it is the second document of a child, because
                its first has no utilisation.
        """
        count = 2 if once and self._request.file is None else 1
        is_named = once or bool(self._request.path or self._identity.ec2_id)
        limit_s = ANSWER_S if is_named else max(ANSWER_S, LATE_PERIODS * self._request.period_s)
        self._due_s = self._clock.monotonic_s() + limit_s
        while (
            self._documents.count < count
            and not (is_named and self._documents.problem)
            and self._clock.monotonic_s() < self._due_s
        ):
            self._has_documents.clear()
            await self.wait()

    async def tick(self) -> list[Envelope]:
        """Read every source, and return the messages."""
        begun_s = self._clock.monotonic_s()
        self._has_documents.clear()
        sysfs, events = await self._devices.read()
        efa = await self._read_efa()
        self._events += events
        self._note("sysfs", self._devices.problem)
        self._reader.update(sysfs, efa)
        ts_ns = self._clock.wall_ns()
        documents = self._documents.drain()
        failures = self._read_documents(documents)
        periods = LATE_PERIODS if documents else 1
        self._due_s = begun_s + periods * self._telemetry.period_s
        self._note(self._documents.name, self._documents.problem)
        self._events += self._kernel_events()
        self._note_lost()
        self.ticks += 1
        if not self.is_known:
            return [*self._state_changes()]
        made: list[Envelope] = []
        self._telemetry.holders = await self._read_holders()
        path = self._request.path or default_path(self._reader, self._name)
        if path != self._telemetry.path:
            made += self._telemetry.move(path)
        made += self._telemetry.envelopes(ts_ns, with_events=False)
        made += [self._telemetry.failure(failure, ts_ns) for failure in failures]
        made += [self._telemetry.event(event, ts_ns) for event in self._events]
        self._events.clear()
        return [*made, *self._state_changes()]

    def _state_changes(self) -> Iterator[Envelope]:
        """Yield changed presence, or all state when its repetition is due."""
        now_s = self._clock.monotonic_s()
        driver = self._reader.versions.get("driver")
        facts = PresenceFacts(
            {"trnfleet": __version__} | ({"driver": driver} if driver else {}),
            tuple(f"{name}: {reason}"[:200] for name, reason in sorted(self._problems.items()))[
                :16
            ],
            source="agent",
        )
        is_changed = facts != self._telemetry.presence_facts
        self._telemetry.presence_facts = facts
        if now_s >= self._repeat_s:
            self._repeat_s = now_s + REPEAT_S
            yield from self._telemetry.announce()
        elif is_changed:
            yield self._telemetry.presence("online")

    def _note(self, source: str, problem: str) -> None:
        """Store whether a source works; an event where that changes after it has worked."""
        had = self._problems.get(source, "")
        if not problem:
            self._problems.pop(source, None)
            if had and source in self._worked:
                self._events.append(
                    HostEvent("source_works", f"{source} works again", Severity.INFO, "agent")
                )
            self._worked.add(source)
            return
        self._problems[source] = problem
        if not had:
            log.warning("source_failed", source=source, reason=problem)
            if source in self._worked:
                words = f"{source}: {problem}"
                self._events.append(HostEvent("source_failed", words, Severity.WARNING, "agent"))

    async def _read_efa(self) -> dict[str, float]:
        try:
            now_s = self._clock.monotonic_s()
            values = await self._calls.one("efa", lambda: self._efa.read(now_s))
        except OSError as error:
            self._note("EFA", error.strerror or str(error))
            return {}
        self._note("EFA", "no answer" if values is None else "")
        return values or {}

    async def _read_holders(self) -> tuple[Holder, ...]:
        """Return the jobs that a scheduler or the kubelet names."""
        chips = self._reader.chips
        if chips is None:
            return ()
        doubts = Doubts()
        request = self._request
        folder = request.job_mapping or request.host_root / FOLDER.relative_to("/")
        jobs = await self._calls.one(
            "jobs", lambda: read_job_mapping(folder, chips.devices, doubts)
        )
        self._note("jobs", f"{folder}: no answer" if jobs is None else doubts.first)
        now_s = self._clock.monotonic_s()
        if now_s - self._pods_s >= CORES_EVERY_S:
            self._pods_s = now_s
            self._pods = await self._read_pods(chips)
        return (*(jobs or ()), *self._pods)

    async def _read_pods(self, chips: Chips) -> tuple[Holder, ...]:
        """Return the pods with chips; none while the kubelet does not name them."""
        doubts = Doubts()
        kubelet = self._request.host_root / SOCKET.relative_to("/")
        try:
            pods = await self._calls.one(
                "pods", lambda: read_pod_resources(kubelet, chips, doubts, limit_s=LIMIT_S)
            )
        except (ConfigError, WireError) as error:
            self._note("pods", str(error))
            return ()
        self._note("pods", f"{kubelet}: no answer" if pods is None else doubts.first)
        return pod_holders(pods or ())

    def _note_lost(self) -> None:
        """Tell how many messages were not read in time, and how many the queue has dropped."""
        lost = self._documents.dropped
        lost += self._kernel.dropped if self._kernel is not None else 0
        lost += self._ring.lost if self._ring is not None else 0
        if lost > self._lost:
            words = f"{counted(lost - self._lost, 'message')} of the host not read in time"
            self._events.append(HostEvent("messages_lost", words, Severity.WARNING, "agent"))
            self._lost = lost
        if dropped := self.tell_dropped():
            classes = ", ".join(f"{name} {number}" for name, number in sorted(dropped.items()))
            words = (
                f"{counted(dropped.total(), 'message')} dropped, which waited for the broker too"
                f" long, were too many, or were refused: {classes}"
            )
            self._events.append(HostEvent("messages_lost", words, Severity.WARNING, "agent"))

    def _kernel_events(self) -> list[HostEvent]:
        if self._kernel is not None:
            self._note("kernel log", self._kernel.problem)
            return kernel_events(self._kernel.drain())
        if self._ring is None:
            return []
        try:
            texts = self._ring.read()
        except OSError as error:
            self._note("kernel log", error.strerror or str(error))
            return []
        self._note("kernel log", "")
        return kernel_events(texts)

    def _read_documents(self, documents: list[Document]) -> list[FailedExecutions]:
        """Read the documents since the last tick, or go on without one; return the failures."""
        failures: list[FailedExecutions] = []
        has_read = False
        for document in documents:
            try:
                data = parse_document(document.text or b"")
                self._reader.add_metrics(NEURON_MONITOR)
                self._reader.read_parsed(self._identified(data))
            except (WireError, ConfigError) as error:
                self._note("documents", str(error))
                continue
            has_read = True
            if document is not self._documents.old:
                failures += self._reader.failures
            self._note("documents", "")
        try:
            if not has_read:
                # A late document ends no job; a source that has ended does.
                keeps = not self._documents.problem
                self._reader.read_parsed(self._identified({}), keeps_tags=keeps)
            self._note("instance type", "")
        except (WireError, ConfigError) as error:
            self._note("instance type", f"{error}: give --instance-type")
        return failures

    def _identified(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return a document with the identity from elsewhere where it has none."""
        known = {
            "instance_type": self._identity.instance_type,
            "instance_id": self._identity.ec2_id,
        }
        instance = object_of(data, "instance_info")
        told = {key: value for key, value in instance.items() if value}
        if self._request.instance_type is not None:
            told.pop("instance_type", None)
        return {**data, "instance_info": {**known, **told}}
