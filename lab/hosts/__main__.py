"""Fake hosts, a scrape and a simulator in one fleet: `make hosts N=50 ARGS="--scraped 20"`.

A simulator on a broker of its own is the truth. Each of its instances is a fake host: a tree of
sysfs, a neuron-monitor, EFA counters, and DMI. An agent a host publishes the first N to a second
broker, a scrape of their exporters the others. The demo's simulator publishes there, too. In a
terminal the app shows the fleet; else figures of SECONDS are printed: agents, CPU, memory, and the
values that differ from the truth.
"""

# ruff: noqa: T201  figures go to the terminal

from __future__ import annotations

import argparse
import contextlib
import http.server
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import paho.mqtt.client as mqtt
import psutil
from paho.mqtt.enums import CallbackAPIVersion
from support.processes.mosquitto import MosquittoProcess
from support.processes.programs import COMMAND, environment

from lab.hosts.fake import FakeHost
from lab.hosts.truth import HostTold, differences
from trnfleet.bridge.neuron.documents import InstanceTick, InstanceTicks, described_instances
from trnfleet.errors import WireError
from trnfleet.wire.ports import Envelope

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

Columns = dict[str, dict[str, "NDArray[Any]"]]
"""Wire codes by metric, by path of the host."""
TRUTH = "truth"
FLEET = "demo"
PERIOD_S = 5
SETTLE_S = 40.0
"""Time until values that stand still are published: two scrapes, or two ticks after a reading of
the cores."""
FLEET_FILE = """
name = "{name}"
[publish]
format = "cbor"
granularity = "instance"
[[clusters]]
name = "uc2"
instances = [{{ type = "trn2.48xlarge", count = {count} }}]
[[jobs]]
kind = "training"
name = "pretrain-8b"
on = ["uc2/standalone/trn2-0001..trn2-{last:04d}"]
model = "llama-3.1-8b"
"""


class FleetFollower:
    """Instances of a fleet on a broker, with their newest ticks."""

    def __init__(
        self, fleet: str, cluster: str, take: Callable[[InstanceTicks, InstanceTick], object]
    ) -> None:
        """Follow nothing yet.

        Args:
            fleet: Name of the fleet.
            cluster: Only instances of this one are follower.
            take: Receives each tick.
        """
        self._fleet = fleet
        self._cluster = f"{cluster}/"
        self._take = take
        self._ticks: dict[str, InstanceTicks] = {}
        self.columns: dict[str, dict[str, NDArray[Any]]] = {}
        """Columns of the newest tick by path."""
        self._messages: queue.SimpleQueue[Envelope | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._is_over = False

    def listen(self, port: int) -> mqtt.Client:
        """Subscribe on a broker of this machine."""
        client = mqtt.Client(CallbackAPIVersion.VERSION2)
        client.on_message = lambda _client, _data, message: self._messages.put(
            Envelope(message.topic, bytes(message.payload))
        )
        topics = [(f"trnfleet/v1/{self._fleet}/{each}/#", 0) for each in ("node", "telemetry")]
        client.on_connect = lambda client, *_: client.subscribe(topics)
        client.connect("127.0.0.1", port)
        client.loop_start()
        self._thread.start()
        return client

    def end(self) -> None:
        """Follow no more: the hosts' folders go."""
        self._is_over = True
        self._messages.put(None)
        self._thread.join()

    def _follow(self) -> None:
        while (envelope := self._messages.get()) is not None and not self._is_over:
            with contextlib.suppress(WireError):
                self._read(envelope)

    def _read(self, envelope: Envelope) -> None:
        for path in described_instances(envelope)[1]:
            if path.startswith(self._cluster):
                self._ticks.setdefault(path, InstanceTicks(self._fleet, path)).add(envelope)
        path = envelope.topic.partition("/telemetry/")[2]
        ticks = self._ticks.get(path)
        tick = None if ticks is None else ticks.add(envelope)
        if ticks is None or tick is None or ticks.host is None:
            return
        self.columns[path] = tick.columns
        self._take(ticks, tick)


class Hosts:
    """Fake hosts that follow the truth's messages."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.by_path: dict[str, FakeHost] = {}
        self.frozen: dict[str, InstanceTick] | None = None
        """Ticks in which the hosts stand still; None while they do not."""
        self.truth = FleetFollower(TRUTH, "uc2", self._take)

    def _take(self, ticks: InstanceTicks, tick: InstanceTick) -> None:
        host = ticks.host
        if host is None:
            return
        fake = self.by_path.get(host.path)
        if fake is None:
            fake = self.by_path[host.path] = FakeHost(
                self._folder / host.path.rpartition("/")[2], host
            )
        frozen = self.frozen
        fake.take(tick if frozen is None else frozen.setdefault(host.path, tick))


class Exporters:
    """The pages of hosts on loopback: `/NAME/metrics`."""

    def __init__(self, hosts: Hosts) -> None:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                name = self.path.split("/")[1]
                fake = hosts.by_path.get(f"uc2/standalone/{name}")
                body = fake.page if fake else b""
                self.send_response(200 if body else 503)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()


class Programs:
    """Programs of the lab: they end with it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *arguments: str, path: Path | None = None) -> None:
        """Start `trnfleet` with arguments; its log is NAME.log."""
        variables = environment()
        if path is not None:
            variables["PATH"] = f"{path}:{variables['PATH']}"
        with (self._folder / f"{name}.log").open("wb") as log:
            self.running[name] = subprocess.Popen(
                [*COMMAND, *arguments], stdout=log, stderr=log, env=variables
            )

    def cost(self, prefix: str) -> tuple[float, float]:
        """Return CPU seconds and the largest memory in MiB of programs with a prefix."""
        seconds = most = 0.0
        for name, process in self.running.items():
            with contextlib.suppress(psutil.NoSuchProcess):
                if name.startswith(prefix):
                    of = psutil.Process(process.pid)
                    times = of.cpu_times()
                    seconds += times.user + times.system
                    most = max(most, of.memory_info().rss / 2**20)
        return seconds, most

    def end(self) -> None:
        """End all."""
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)


def until(holds: Callable[[], object], within_s: float, what: str) -> None:
    """Wait until something holds."""
    limit_s = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > limit_s:
            raise SystemExit(f"not within {within_s:g} s: {what}")
        time.sleep(0.1)


def main() -> None:
    """Parse options and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=50, help="hosts with an agent")
    parser.add_argument("--scraped", type=int, default=20, help="hosts without one")
    parser.add_argument("--seconds", type=float, default=40, help="without a terminal")
    parser.add_argument("--folder", type=Path, help="folder of the hosts; else a new one")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with contextlib.ExitStack() as stack:
        folder = given.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        run(folder, given.hosts, given.scraped, given.seconds, stack)


def run(
    folder: Path, agents: int, scraped: int, seconds: float, stack: contextlib.ExitStack
) -> None:
    """Start everything, and show or measure it."""
    brokers = [MosquittoProcess(folder), MosquittoProcess(folder)]
    for each in brokers:
        each.start()
        stack.callback(each.stop)
    truth, shown = (f"mqtt://127.0.0.1:{each.port}" for each in brokers)
    programs = Programs(folder)
    stack.callback(programs.end)
    count = agents + scraped
    file = folder / "truth.toml"
    file.write_text(FLEET_FILE.format(name=TRUTH, count=count, last=max(1, count // 2)))
    programs.start(
        "truth",
        *("simulate", "--fleet", str(file), "--broker", truth, "--allow-commands"),
        *("--period", f"{PERIOD_S}s"),
    )
    programs.start(
        "demo",
        "simulate",
        "--fleet",
        "demo",
        "--name",
        FLEET,
        "--broker",
        shown,
        "--format",
        "cbor",
        "--granularity",
        "instance",
    )
    hosts = Hosts(folder)
    told = FleetFollower(FLEET, "uc2", lambda _ticks, _tick: None)
    for follower, broker in zip((hosts.truth, told), brokers, strict=True):
        stack.callback(follower.listen(broker.port).loop_stop)
        stack.callback(follower.end)
    until(lambda: len(hosts.by_path) == count, 60 + 3 * count, "the simulator's hosts")
    print(
        f"{count} hosts in {folder}; the truth is {truth}, the fleet {FLEET!r} at {shown}",
        flush=True,
    )
    paths = sorted(hosts.by_path)
    for path in paths[:agents]:
        fake = hosts.by_path[path]
        programs.start(
            f"agent-{path.rpartition('/')[2]}",
            *("agent", "--broker", shown, "--name", FLEET, "--period", f"{PERIOD_S}s"),
            *("--path", path, "--host-root", str(fake.root), "--imds", "none", "--queue", "none"),
            path=fake.programs,
        )
    if scraped:
        exporters = Exporters(hosts)
        targets = folder / "targets"
        names = [path.rpartition("/")[2] for path in paths[agents:]]
        lines = [
            f"http://127.0.0.1:{exporters.port}/{name}/metrics address=uc2/standalone/{name}\n"
            for name in names
        ]
        targets.write_text("".join(lines))
        programs.start(
            "scrape",
            "scrape",
            "--broker",
            shown,
            "--name",
            FLEET,
            "--targets",
            str(targets),
            "--interval",
            "15s",
        )
    if sys.stdout.isatty():
        subprocess.run([*COMMAND, "monitor", "--broker", shown, "--name", FLEET], check=False)
        return
    measure(hosts, told, programs, seconds, agents)


def settled(hosts: Hosts, told: FleetFollower) -> tuple[Columns, Columns]:
    """Return published and simulated values, after a while in which they stood still."""
    frozen = hosts.frozen = {}
    time.sleep(SETTLE_S)
    published = dict(told.columns)
    hosts.frozen = None
    return published, {path: dict(tick.columns) for path, tick in frozen.items()}


def measure(
    hosts: Hosts, told: FleetFollower, programs: Programs, seconds: float, agents: int
) -> None:
    """Print what agents cost, and where values differ from the truth."""
    time.sleep(seconds)
    told_begin, true_begin = settled(hosts, told)
    began_s = time.monotonic()
    costs = {name: programs.cost(name)[0] for name in ("agent-", "scrape")}
    time.sleep(seconds)
    passed_s = time.monotonic() - began_s
    for name, count in (("agent-", agents), ("scrape", 1)):
        used_s, most = programs.cost(name)
        share = 100 * (used_s - costs[name]) / passed_s / max(1, count)
        print(f"{name.rstrip('-')}: {share:.2f} % of a core each, {most:.0f} MiB at most")
    told_end, true_end = settled(hosts, told)
    with_agent = sorted(hosts.by_path)[:agents]
    hosts_told = [
        HostTold(
            *(told_begin[path], told_end[path], true_begin[path], true_end[path]),
            has_tree=path in with_agent,
        )
        for path in told_begin.keys() & true_begin.keys()
    ]
    print(f"{len(hosts_told)} hosts told; values known and different from the truth:")
    for name, (known, wrong) in differences(hosts_told).items():
        print(f"{name:32} {known:6,} {wrong:6,}")
    if untold := sum(int(host.untold_memory.sum()) for host in hosts_told):
        print(
            f"hbm_used_bytes of {untold} idle scraped chips is not compared: the driver's own"
            " memory is not in an exporter's page"
        )


if __name__ == "__main__":
    main()
