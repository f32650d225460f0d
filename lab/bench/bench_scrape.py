"""Cost of scraping many hosts.

`python -m lab.bench.bench_scrape [--hosts 1000] [--interval 15] [--seconds 60] [--gzip]`

One fake server answers for all hosts with pages of 1,712 series (16 processes on a trn2.48xlarge,
419 kB), whose values change. `trnfleet scrape` publishes them to Mosquitto. Figures are those after
every host was scraped twice. They are printed, never asserted.
"""

# ruff: noqa: T201  a benchmark's figures go to the terminal

from __future__ import annotations

import argparse
import asyncio
import gzip
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from support.exporter import OK, answer, exporter_page, serve
from support.processes.mosquitto import MosquittoProcess, free_port

from lab.bench.app import cpu_s

VARIANTS = 4


async def answer_for_all(port: int, *, is_packed: bool) -> None:
    """Serve the page of host N under `/N`."""
    pages = [exporter_page(0, scrape).encode() for scrape in range(VARIANTS)]
    marker = b"i-%017x" % 0
    packed: dict[tuple[int, int], bytes] = {}

    def answer_to(path: str) -> bytes:
        host = int(path[1:])
        variant = int(time.time() / 5) % VARIANTS
        if not is_packed:
            return answer(pages[variant].replace(marker, b"i-%017x" % host))
        body = packed.get((host, variant))
        if body is None:
            page = pages[variant].replace(marker, b"i-%017x" % host)
            body = packed[host, variant] = gzip.compress(page, 1)
        head = OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body)
        return head + body

    server = await serve(answer_to, port)
    await server.serve_forever()


def main() -> None:
    """Measure one number of hosts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=1_000)
    parser.add_argument("--interval", type=float, default=15.0)
    parser.add_argument("--seconds", type=float, default=60.0, help="time to measure")
    parser.add_argument("--gzip", action="store_true", help="answer packed")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        asyncio.run(answer_for_all(options.serve, is_packed=options.gzip))
        return
    port = free_port()
    packed = ["--gzip"] * options.gzip
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        targets = folder / "hosts.txt"
        lines = (f"http://127.0.0.1:{port}/{host}\n" for host in range(options.hosts))
        targets.write_text("".join(lines))
        broker = MosquittoProcess(folder)
        broker.start()
        server = subprocess.Popen(
            [sys.executable, "-m", "lab.bench.bench_scrape", "--serve", str(port), *packed]
        )
        time.sleep(2)
        scraper = subprocess.Popen(
            [
                *(sys.executable, "-m", "trnfleet", "scrape", "--name", "bench"),
                *("--broker", str(broker.url), "--targets", str(targets)),
                *("--interval", f"{options.interval:g}s"),
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        process = psutil.Process(scraper.pid)
        try:
            # First pages cost more: each has its names parsed.
            time.sleep(2 * options.interval + options.hosts * 0.1)
            before = cpu_s(process)
            begun_s = time.monotonic()
            time.sleep(options.seconds)
            elapsed_s = time.monotonic() - begun_s
            used_s = cpu_s(process) - before
            memory_mib = process.memory_info().rss / 2**20
        finally:
            scraper.send_signal(signal.SIGINT)
            _, told = scraper.communicate()
            server.terminate()
            broker.stop()
        scrapes = options.hosts * elapsed_s / options.interval
        print(
            f"{options.hosts:,} hosts every {options.interval:g} s:"
            f" {used_s / elapsed_s:.2f} of a core, {1_000 * used_s / scrapes:.1f} ms a scrape,"
            f" {memory_mib:,.0f} MiB"
        )
        print(told.strip().splitlines()[-1])


if __name__ == "__main__":
    main()
