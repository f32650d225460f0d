"""How exactly a replay keeps its schedule: `python -m lab.bench.bench_replay`.

`trnfleet replay`, Mosquitto and a subscriber are three processes. A minute of 1,000 messages a
second is played at the recorded speed, and ten minutes of 100 a second ten times as fast. Drift is
how much longer it took the subscriber to get the last second's messages (their median) than it
should have; jitter is how late each message was after the drift is taken out, over the least late
one. Timings are told, never asserted.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from support.processes.mosquitto import MosquittoProcess
from support.processes.programs import COMMAND, environment

from trnfleet.record.format.metadata import About
from trnfleet.record.write.writer import RecordingWriter
from trnfleet.transport.mqtt import MqttSource
from trnfleet.transport.url import parse_url
from trnfleet.wire.ports import CONTENT_TYPE_JSON, Envelope

START_NS = 1_767_600_000_000_000_000
TOPICS = 1_000
PAYLOAD_BYTES = 1_200
"""About what a chip's JSON has."""
HEAD_BYTES = 64
_SEQ = re.compile(rb'"seq": (\d+)')


def tell(line: str) -> None:
    """Write a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def write(path: Path, rate: int, count: int) -> None:
    """Write a recording of `count` messages, `rate` a second."""
    writer = RecordingWriter(path, About(id="bench", fleets=("bench",)))
    for number in range(count):
        head = json.dumps({"v": 1, "boot": "0" * 16, "seq": number})
        payload = (head[:-1] + ',"pad":"').encode().ljust(PAYLOAD_BYTES - 2, b"x") + b'"}'
        topic = f"trnfleet/v1/bench/telemetry/uc1/us-0001/i-{number % TOPICS:04d}"
        time_ns = START_NS + number * 1_000_000_000 // rate
        writer.write(time_ns, Envelope(topic, payload, content_type=CONTENT_TYPE_JSON))
    writer.close()


async def subscribe(url: str, count: int, rate: float) -> dict[str, Any]:
    """Receive `count` messages, and say how they came beside `rate` a second."""
    source = MqttSource(parse_url(url), [("trnfleet/v1/bench/telemetry/#", 0)])
    running = asyncio.create_task(source.run())
    await source.wait_connected(5)
    tell("ready")
    # What measures must not be late itself.
    gc.collect()
    gc.disable()
    heads: list[bytes] = []
    times: list[float] = []
    with contextlib.suppress(TimeoutError):
        while len(heads) < count:
            for envelope in await asyncio.wait_for(source.take(), 10):
                heads.append(envelope.payload[:HEAD_BYTES])
                times.append(envelope.received_s)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    numbers = [int(_SEQ.search(head)[1]) for head in heads]  # type: ignore[index]  # all are of `write`
    due = np.array(numbers) / rate
    late = np.array(times) - due
    late -= late.min()
    second = int(rate)
    drift = (np.median(late[-second:]) - np.median(late[:second])) / (due[-1] - due[0])
    trend = np.polyfit(due, late, 1)
    jitter = late - np.polyval(trend, due)
    jitter -= jitter.min()
    p50, p99 = np.percentile(jitter, (50, 99)) * 1e3
    return {
        "received": len(numbers),
        "lost": count - len(numbers),
        "drift": drift,
        "p50_ms": p50,
        "p99_ms": p99,
        "max_ms": jitter.max() * 1e3,
    }


async def control(seconds: float, rate: int) -> str:
    """Wake up `rate` times a second, and report this machine's own lateness.

    At its present load.
    """
    gc.collect()
    began_s = time.perf_counter()
    woken = []
    for number in range(round(seconds * rate)):
        await asyncio.sleep(max(0.0, began_s + number / rate - time.perf_counter()))
        woken.append(time.perf_counter() - began_s - number / rate)
    p50, p99 = np.percentile(woken, (50, 99)) * 1e3
    return (
        f"a loop that only wakes up: p50 {p50:.2f} ms, p99 {p99:.2f} ms, max"
        f" {max(woken) * 1e3:.1f} ms"
    )


def play(url: str, folder: Path, rate: int, speed: float, seconds: float) -> str:
    """Play a recording of a length, and return the subscriber's observations."""
    count = round(rate * speed * seconds)
    file = folder / f"{rate}-{speed:g}.mcap"
    write(file, rate, count)
    role = [sys.executable, "-m", "lab.bench.bench_replay", "--role", "subscribe", "--url", url]
    role += ["--count", str(count), "--rate", str(rate * speed)]
    with subprocess.Popen(role, stdout=subprocess.PIPE, text=True) as subscriber:
        assert subscriber.stdout is not None
        subscriber.stdout.readline()
        replay = [*COMMAND, "replay", str(file), "--broker", url, "--speed", str(speed)]
        subprocess.run(replay, check=True, env=environment(), stderr=subprocess.DEVNULL)
        found = json.loads(subscriber.stdout.read())
    return (
        f"{rate:>6,}/s x {speed:<4g} for {seconds:g} s: {found['received']:,} messages, lost"
        f" {found['lost']}, drift {found['drift']:+.5%}, jitter p50 {found['p50_ms']:.2f} ms, p99"
        f" {found['p99_ms']:.2f} ms, max {found['max_ms']:.1f} ms"
    )


def main() -> None:
    """Run the subscriber's role, or all of the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--role", choices=["subscribe"])
    parser.add_argument("--url", default="")
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--rate", type=float, default=1_000.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    asked = parser.parse_args()
    if asked.role:
        tell(json.dumps(asyncio.run(subscribe(asked.url, asked.count, asked.rate))))
        return
    tell(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    tell(asyncio.run(control(5.0, 1_000)))
    with tempfile.TemporaryDirectory() as folder:
        mosquitto = MosquittoProcess(Path(folder))
        mosquitto.start()
        try:
            for rate, speed in ((1_000, 1.0), (100, 10.0)):
                tell(play(str(mosquitto.url), Path(folder), rate, speed, asked.seconds))
        finally:
            mosquitto.stop()


if __name__ == "__main__":
    main()
