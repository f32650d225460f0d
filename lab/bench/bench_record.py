"""Cost of recording: `python -m lab.bench.bench_record`.

A process queues messages to a recorder like the event loop. Output is processor time a message, for
all threads and for the event loop alone, the wait of a loop for its turn, and a message's size in
the file. Values drift slowly, as JSON (about 0.8 KB a chip) and as CBOR frames (about 2 KB an
instance). Timings are printed, never asserted: recording should cost less than 25 us a message.
"""

# ruff: noqa: T201  a benchmark's figures go to the terminal

from __future__ import annotations

import argparse
import asyncio
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from support.monitor.feed import ultraservers

from trnfleet.clock import SystemClock
from trnfleet.domain.metrics import CHIP_METRICS, INSTANCE_METRICS
from trnfleet.record.format.metadata import About
from trnfleet.record.write.recorder import Recorder
from trnfleet.wire.frames import FrameEncoder
from trnfleet.wire.ports import CONTENT_TYPE_CBOR, CONTENT_TYPE_JSON, Envelope
from trnfleet.wire.telemetry import Head, dump, encode_chips
from trnfleet.wire.topics import TopicClass, build_topic

if TYPE_CHECKING:
    from collections.abc import Iterator

TAKES_PER_S = 20
CHIPS = 16
STEP = 0.02
"""Share of values changed from tick to tick."""


def columns(instances: int, chance: np.random.Generator) -> dict[str, Any]:
    """Return columns with different values in each row."""
    made: dict[str, Any] = {}
    for metrics, rows in ((CHIP_METRICS, instances * CHIPS), (INSTANCE_METRICS, instances)):
        for metric in metrics:
            shape = (rows, metric.width) if metric.width > 1 else (rows,)
            made[metric.name] = chance.integers(0, min(metric.top, 1_000), shape).astype(
                metric.dtype
            )
    return made


def drift(made: dict[str, Any], chance: np.random.Generator) -> None:
    """Let some values go on to the next tick's."""
    for column in made.values():
        flat = column.reshape(-1)
        picked = chance.integers(0, flat.size, max(1, int(flat.size * STEP)))
        flat[picked] = (flat[picked].astype(int) + 1) % 250


def payloads(kind: str, count: int) -> Iterator[tuple[str, bytes]]:
    """Yield (path, payload) of `count` messages, tick by tick."""
    chance = np.random.default_rng(1)
    paths = [path for path, _ in ultraservers(16)]
    made = columns(len(paths), chance)
    encoders = [
        FrameEncoder(
            path,
            "b" * 16,
            revision=1,
            columns=made,
            chips=slice(row * CHIPS, row * CHIPS + CHIPS),
            instances=slice(row, row + 1),
        )
        for row, path in enumerate(paths)
    ]
    done = 0
    tick = 0
    while done < count:
        ts_ns = 1_767_571_200_000_000_000 + tick * 1_000_000_000
        for row, path in enumerate(paths):
            if kind == "cbor":
                yield path, encoders[row].encode(tick, ts_ns)
                done += 1
                continue
            head = Head("b" * 16, tick, ts_ns)
            for chip, value in encode_chips(
                head, path, "job-1", made, slice(row * CHIPS, row * CHIPS + CHIPS)
            ):
                yield chip, dump(value)
                done += 1
        drift(made, chance)
        tick += 1


async def measure(
    kind: str, count: int, rate: int, folder_of: str | None, *, durable: bool
) -> None:
    """Record messages at a rate; print one line."""
    content_type = CONTENT_TYPE_CBOR if kind == "cbor" else CONTENT_TYPE_JSON
    messages = [
        Envelope(build_topic("bench", TopicClass.TELEMETRY, path), payload, 0, False, content_type)
        for path, payload in payloads(kind, count)
    ]
    size = sum(len(each.payload) for each in messages) / len(messages)
    late: list[float] = []
    with tempfile.TemporaryDirectory(dir=folder_of) as folder:
        recorder = Recorder(
            Path(folder) / "bench.mcap", About(id="bench"), clock=SystemClock(), durable=durable
        )
        recorder.start()
        waiting = asyncio.create_task(_feel(late))
        loop_s = 0.0
        cpu_s = 0.0
        began_s = time.perf_counter()
        number = 0
        while number < len(messages):
            await asyncio.sleep(1 / TAKES_PER_S)
            until = min(len(messages), int((time.perf_counter() - began_s) * rate))
            now_s = time.monotonic()
            batch = [each._replace(received_s=now_s) for each in messages[number:until]]
            number = until
            began_cpu_s = time.thread_time()
            recorder.take(batch)
            loop_s += time.thread_time() - began_cpu_s
        waiting.cancel()
        await asyncio.to_thread(recorder.flush, 10)
        (thread,) = (each for each in threading.enumerate() if each.name == "recorder")
        assert thread.ident is not None
        cpu_s = time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
        recorder.close()
        status = recorder.status
        file_bytes = status.file_bytes
    late.sort()
    print(
        f"{kind:5} {size:7.0f} B  {rate:6}/s  {(cpu_s + loop_s) / count * 1e6:5.1f} us a message"
        f" ({loop_s / count * 1e6:4.2f} of it in the event loop)  {file_bytes / count:6.0f} B in"
        f" the file ({size * count / file_bytes:4.1f} to 1)  turns late p99"
        f" {late[len(late) * 99 // 100] * 1e3:4.1f} ms, at most {late[-1] * 1e3:4.1f} ms  lost"
        f" {status.lost}"
        + (
            f"  {status.syncs} syncs of {status.sync_s / status.syncs * 1e3:.1f} ms"
            if status.syncs
            else ""
        )
    )


async def _feel(late: list[float]) -> None:
    """Ask for a turn every 2 ms and note how late it comes."""
    while True:
        began_s = time.perf_counter()
        await asyncio.sleep(0.002)
        late.append(time.perf_counter() - began_s - 0.002)


def main() -> None:
    """Print one line for each kind and rate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=40_000)
    parser.add_argument("--rate", type=int, action="append", help="messages a second")
    parser.add_argument(
        "--folder", help="where to record; by default the folder for temporary files"
    )
    options = parser.parse_args()
    for kind in ("json", "cbor"):
        for rate in options.rate or (1_000, 10_000):
            for durable in (False, True):
                count = min(options.messages, rate * 10)
                asyncio.run(measure(kind, count, rate, options.folder, durable=durable))


if __name__ == "__main__":
    main()
