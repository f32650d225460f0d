"""A live fleet with the app open: CPU of each process, lag, loss, memory, keys.

`python -m lab.bench.bench_live [--fleet cluster-10k] [--seconds 60] [--columns 120 --rows 40]`

Everything runs on this machine: Mosquitto, `trnfleet simulate`, and `trnfleet monitor` in a
pseudo-terminal. Figures are printed, never asserted.
"""

# ruff: noqa: T201  a benchmark's figures go to the terminal

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from pathlib import Path

import psutil
from support.processes.mosquitto import MosquittoProcess
from support.processes.programs import Program
from support.processes.terminal import Terminal

from lab.bench.app import quantile, usage


def first_paint(columns: int, rows: int) -> None:
    """Print the demo's time to its first useful paint and to 192 live chips."""
    paints: list[float] = []
    lives: list[float] = []
    for _ in range(5):
        with Terminal(columns=columns, rows=rows) as terminal:
            terminal.wait_for("Fleet")
            paints.append(time.monotonic() - terminal.started_s)
            terminal.wait_for("192", "all live")
            lives.append(time.monotonic() - terminal.started_s)
            terminal.end(keys="q")
    print(
        f"demo: first paint {sorted(paints)[2]:.2f} s, 192 chips live {sorted(lives)[2]:.2f} s"
        " (median of 5)"
    )


def live(fleet: str, seconds: float, columns: int, rows: int, past: str) -> None:
    """Print the cost of a live fleet over some seconds."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = os.environ["XDG_CACHE_HOME"] = folder
        broker = MosquittoProcess(Path(folder), "max_queued_messages 4000")
        broker.start()
        url = str(broker.url)
        # The app first: what is lost while it starts belongs to the figures.
        with (
            Terminal(
                "monitor",
                "--broker",
                url,
                "--name",
                fleet,
                "--past",
                past,
                columns=columns,
                rows=rows,
            ) as terminal,
            Program(Path(folder), "simulate", "--broker", url, "--fleet", fleet) as simulator,
        ):
            terminal.wait_for("all live", within_s=90)
            time.sleep(10)
            processes = {
                "app": terminal.process,
                "simulator": psutil.Process(simulator.process.pid),
                "broker": psutil.Process(broker.pid),
            }
            used = usage(terminal, processes, seconds)
            status = terminal.lines[-1]
            terminal.end(keys="q")
            simulator.end()
            said = simulator.output.strip().splitlines()[-1:]
        broker.stop()
    print(f"{fleet}, {columns}x{rows}, {used.elapsed_s:.0f} s, {past} for the past")
    print(
        "  CPU, % of a core: "
        + ", ".join(f"{name} {share:.1f}" for name, share in used.cpu_pct.items())
        + f"; together {sum(used.cpu_pct.values()):.1f}"
    )
    print(
        "  memory, MiB: "
        + ", ".join(f"{name} {size:.0f}" for name, size in used.memory_mib.items())
    )
    print(
        f"  lag, ms: median {quantile(used.lags_ms, 0.5):.0f}, p95"
        f" {quantile(used.lags_ms, 0.95):.0f} ({len(used.lags_ms)} looks)"
    )
    print(
        f"  key to screen, ms: median {quantile(used.keys_ms, 0.5):.0f}, p95"
        f" {quantile(used.keys_ms, 0.95):.0f} ({len(used.keys_ms)} keys)"
    )
    print(f"  status line: {status.strip()}")
    print(f"  simulator: {' '.join(said)}")


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fleet", default="cluster-10k")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--columns", type=int, default=120)
    parser.add_argument("--rows", type=int, default=40)
    parser.add_argument("--past", default="1GiB", help="disk for going back in time; 0 for none")
    parser.add_argument("--no-paint", action="store_true", help="leave out the demo's first paint")
    options = parser.parse_args()
    print(
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python"
        f" {platform.python_version()}"
    )
    if not options.no_paint:
        first_paint(options.columns, options.rows)
    live(options.fleet, options.seconds, options.columns, options.rows, options.past)


if __name__ == "__main__":
    main()
