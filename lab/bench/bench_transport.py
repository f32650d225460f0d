"""Transport cost of a million chips' worth of frames.

`python -m lab.bench.bench_transport`

Publisher, Mosquitto and subscriber are three processes. Output is each one's share of a core, the
losses, and the time from publishing to receipt. `--hosts` has rows of hosts with a frame each
second, read with either client; their messages are pre-encoded and written to one socket, so that
the publisher's share is small. `--simulate` has rows of `trnfleet simulate` alone. Timings are
printed, never asserted.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import platform
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import mqtt5
import psutil
from support.processes.mosquitto import MosquittoProcess
from support.processes.programs import Program

from trnfleet.transport.inbox import InboxLimits
from trnfleet.transport.mqtt import MqttPublisher, MqttSource
from trnfleet.transport.url import parse_url
from trnfleet.wire.ports import CONTENT_TYPE_CBOR, Envelope

SILENT_S = 3.0
"""Seconds without a message until a run is over."""
SLICES_PER_S = 50
TAKES_PER_S = 20


async def publish(url: str, rate: int, size_bytes: int, seconds: float, qos: int) -> dict[str, Any]:
    """Publish `rate` frames a second in slices of 20 ms."""
    publisher = MqttPublisher(parse_url(url), client_id="bench-publisher")
    body = os.urandom(size_bytes - 16)
    topics = [f"trnfleet/v1/bench/telemetry/uc1/block-{number:04d}" for number in range(rate)]
    running = asyncio.create_task(publisher.run())
    await publisher.wait_connected(5)
    cpu_s = time.process_time()
    began_s = time.perf_counter()
    number = 0
    for tick in range(int(seconds * SLICES_PER_S)):
        await asyncio.sleep(max(0.0, began_s + tick / SLICES_PER_S - time.perf_counter()))
        until = (tick + 1) * rate // SLICES_PER_S
        stamp = time.time_ns()
        await publisher.publish(
            Envelope(
                topics[n % rate],
                struct.pack("<QQ", n, stamp) + body,
                qos,
                content_type=CONTENT_TYPE_CBOR,
            )
            for n in range(number, until)
        )
        number = until
    wall_s = time.perf_counter() - began_s
    cpu_s = time.process_time() - cpu_s
    await publisher.publish([Envelope("trnfleet/v1/bench/event/end", b"end", 1)])
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    status = publisher.status
    return {
        "cpu": cpu_s / wall_s,
        "sent": status.sent - 1,
        "dropped": status.dropped,
        "wall_s": wall_s,
    }


def publish_hosts(url: str, hosts: int, size_bytes: int, seconds: float) -> dict[str, Any]:
    """Publish a frame of every host a second, in slices of 20 ms.

    No client works on each message.
    """
    broker = parse_url(url)
    body = os.urandom(size_bytes - 16)
    topics = [
        f"trnfleet/v1/bench/telemetry/uc1/us-{n // 4:05d}/trn2u-{n // 4:05d}-{n % 4}"
        for n in range(hosts)
    ]
    packets = [_publish(topic, struct.pack("<QQ", 0, 0) + body) for topic in topics]
    stamped = [packet.index(body) - 8 for packet in packets]
    with socket.create_connection((broker.host, broker.port)) as connection:
        connection.sendall(mqtt5.ConnectPacket("bench-hosts").write())
        connection.recv(100)
        cpu_s = time.process_time()
        began_s = time.perf_counter()
        for tick in range(int(seconds * SLICES_PER_S)):
            time.sleep(max(0.0, began_s + tick / SLICES_PER_S - time.perf_counter()))
            part = tick % SLICES_PER_S
            stamp = struct.pack("<Q", time.time_ns())
            slice_ = bytearray()
            for n in range(part * hosts // SLICES_PER_S, (part + 1) * hosts // SLICES_PER_S):
                slice_ += packets[n][: stamped[n]] + stamp + packets[n][stamped[n] + 8 :]
            connection.sendall(slice_)
        wall_s = time.perf_counter() - began_s
        cpu_s = time.process_time() - cpu_s
        connection.sendall(_publish("trnfleet/v1/bench/event/end", b"end"))
        connection.sendall(mqtt5.DisconnectPacket().write())
    return {"cpu": cpu_s / wall_s, "sent": int(seconds) * hosts, "dropped": 0, "wall_s": wall_s}


def _publish(topic: str, payload: bytes) -> bytes:
    return mqtt5.PublishPacket(topic, payload, content_type=CONTENT_TYPE_CBOR).write()


async def subscribe(url: str, protocol: Any, client: Any) -> dict[str, Any]:
    """Take at 20 Hz until the end is told; measure from the first message on."""
    source = MqttSource(
        parse_url(url),
        [("trnfleet/v1/bench/#", 1)],
        protocol=protocol,
        limits=InboxLimits(messages=65_536, newest_of="trnfleet/v1/bench/telemetry/"),
        client=client,
    )
    running = asyncio.create_task(source.run())
    await source.wait_connected(5)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    delays: list[float] = []
    silent_s = 0.0
    batch = await source.take()
    cpu_s = time.process_time()
    began_s = time.perf_counter()
    frames = 0
    while True:
        now_ns = time.time_ns()
        for envelope in batch:
            if len(envelope.payload) > 16:
                frames += 1
                delays.append((now_ns - struct.unpack_from("<Q", envelope.payload, 8)[0]) / 1e6)
        if batch[-1].payload == b"end":
            break
        await asyncio.sleep(1 / TAKES_PER_S)
        try:
            batch = await asyncio.wait_for(source.take(), SILENT_S)
        except TimeoutError:
            # The broker has dropped the end, too.
            silent_s = SILENT_S
            break
    wall_s = time.perf_counter() - began_s - silent_s
    cpu_s = time.process_time() - cpu_s
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    delays.sort()
    status = source.status
    return {
        "cpu": cpu_s / wall_s,
        "us": cpu_s / max(1, frames) * 1e6,
        "frames": frames,
        "p50_ms": delays[len(delays) // 2],
        "p99_ms": delays[len(delays) * 99 // 100],
        "dropped": status.dropped + status.shed,
        "queue_peak": status.queue_peak,
        "rss_mb": psutil.Process().memory_info().rss / 1e6,
        "protocol": status.protocol,
    }


def _child(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "lab.bench.bench_transport", *arguments],
        stdout=subprocess.PIPE,
        text=True,
    )


def _last(process: subprocess.Popen[str]) -> dict[str, Any]:
    lines = process.communicate()[0].strip().splitlines()
    result: dict[str, Any] = json.loads(lines[-1])
    return result


def compare(
    rate: int,
    size_bytes: int,
    seconds: float,
    qos: int,
    protocol: str,
    *,
    client: str = "mqtt5",
    by_host: bool = False,
) -> None:
    """Run the three processes once and print one line."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        broker = MosquittoProcess(Path(folder), "max_queued_messages 4000")
        broker.start()
        stack.callback(broker.stop)
        subscriber = _child("subscribe", str(broker.url), protocol, client)
        assert subscriber.stdout is not None
        while subscriber.stdout.readline() != "ready\n":
            pass
        before = psutil.Process(broker.pid).cpu_times()
        role = "hosts" if by_host else "publish"
        publisher = _child(
            role, str(broker.url), str(rate), str(size_bytes), str(seconds), str(qos)
        )
        sent = _last(publisher)
        received = _last(subscriber)
        after = psutil.Process(broker.pid).cpu_times()
        broker_cpu = (after.user + after.system - before.user - before.system) / sent["wall_s"]
    sys.stdout.write(
        f"{rate:6d} x {size_bytes:6d} B, QoS {qos}, MQTT {received['protocol']:>5}, {client:>7}:"
        f" {sent['sent'] / sent['wall_s']:7.0f}/s"
        f" {sent['sent'] * size_bytes / sent['wall_s'] / 1e6:5.0f} MB/s | publisher"
        f" {sent['cpu']:4.0%} broker {broker_cpu:4.0%} subscriber {received['cpu']:4.0%},"
        f" {received['us']:.1f} us a message | p50 {received['p50_ms']:.1f} ms p99"
        f" {received['p99_ms']:.1f} ms | lost {sent['sent'] - received['frames']} (dropped"
        f" {sent['dropped']}+{received['dropped']}) | queue peak {received['queue_peak']} |"
        f" {received['rss_mb']:.0f} MB\n"
    )
    sys.stdout.flush()


def simulate(ultraservers: int, settling_s: float, seconds: float, *options: str) -> None:
    """Run `trnfleet simulate` on training jobs of 40 UltraServers, and print its CPU.

    In one line.
    """
    jobs = "".join(
        f'[[jobs]]\nkind = "training"\nname = "job-{first}"\non ='
        f' ["uc1/us-{first:04}..us-{first + count - 1:04}"]\nmodel ='
        f' "llama-3.3-70b"\ntensor_parallel = 8\ntokens_per_step = {78_643.0 * count}\nmfu = 0.35\n'
        for first in range(1, ultraservers + 1, 40)
        for count in (min(40, ultraservers + 1 - first),)
    )
    fleet = (
        f'name = "bench"\n[[clusters]]\nname = "uc1"\nultraservers = [{{ count = {ultraservers}'
        " }]\n"
    )
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        file = Path(folder) / "fleet.toml"
        file.write_text(fleet + jobs)
        broker = MosquittoProcess(Path(folder))
        broker.start()
        stack.callback(broker.stop)
        line = (
            "simulate",
            "--broker",
            str(broker.url),
            "--fleet",
            str(file),
            "--no-random-faults",
            *options,
        )
        program = stack.enter_context(Program(Path(folder), *line))
        processes = [psutil.Process(program.process.pid), psutil.Process(broker.pid)]
        time.sleep(settling_s)
        before = [each.cpu_times() for each in processes]
        time.sleep(seconds)
        after = [each.cpu_times() for each in processes]
        used = [
            (b.user + b.system - a.user - a.system) / seconds
            for a, b in zip(before, after, strict=True)
        ]
    sys.stdout.write(
        f"{4 * ultraservers:,} hosts, {' '.join(options)}: simulator {used[0]:.1%}, broker"
        f" {used[1]:.1%}\n"
    )
    sys.stdout.flush()


def main(arguments: list[str]) -> None:
    """Run a role of the benchmark, or all of it."""
    if arguments[:1] == ["publish"]:
        url, *numbers = arguments[1:]
        result = asyncio.run(
            publish(url, int(numbers[0]), int(numbers[1]), float(numbers[2]), int(numbers[3]))
        )
        sys.stdout.write(f"{json.dumps(result)}\n")
        return
    if arguments[:1] == ["subscribe"]:
        protocol = None if arguments[2] == "auto" else arguments[2]
        sys.stdout.write(
            f"{json.dumps(asyncio.run(subscribe(arguments[1], protocol, arguments[3])))}\n"
        )
        return
    if arguments[:1] == ["hosts"]:
        url, *numbers = arguments[1:]
        result = publish_hosts(url, int(numbers[0]), int(numbers[1]), float(numbers[2]))
        sys.stdout.write(f"{json.dumps(result)}\n")
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument(
        "--hosts", action="store_true", help="only the rows of hosts that publish a frame each"
    )
    parser.add_argument("--simulate", action="store_true", help="only the rows of the simulator")
    options = parser.parse_args(arguments)
    cores = os.cpu_count()
    sys.stdout.write(
        f"{platform.machine()}, {cores} cores, Python {platform.python_version()}; CPU as a share"
        " of one core\n"
    )
    if options.simulate:
        simulate(2_500, 25.0, 20.0, "--format", "cbor", "--granularity", "instance")
        simulate(16, 6.0, 20.0, "--format", "json", "--granularity", "chip")
        return
    if options.hosts:
        for hosts in (5_000, 10_000, 20_000, 40_000):
            for client in ("aiomqtt", "mqtt5"):
                compare(hosts, 2_055, options.seconds, 0, "auto", client=client, by_host=True)
        return
    for rate, size, qos, protocol in (
        (2000, 67_000, 0, "auto"),
        (2000, 67_000, 0, "3.1.1"),
        (4000, 67_000, 0, "auto"),
        (1000, 2_000, 0, "auto"),
        (1000, 2_000, 1, "auto"),
    ):
        compare(rate, size, options.seconds, qos, protocol)


if __name__ == "__main__":
    main(sys.argv[1:])
