"""Output of a run of `simulate --stdout` by chip, instance, job and event; no other part of the program is used."""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from support.processes.programs import COMMAND, environment

if TYPE_CHECKING:
    from numpy.typing import NDArray


class StdoutRun:
    """The lines of one run."""

    def __init__(self, *arguments: str) -> None:
        self.jobs: dict[str, list[dict[str, Any]]] = defaultdict(list)
        """By job, its object of each tick."""
        self.events: list[dict[str, Any]] = []
        self._series: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
        """By address and time, the object of a chip or an instance."""
        self.job_of: dict[str, str | None] = {}
        """The job of each address."""
        times: dict[str, None] = {}
        command = [*COMMAND, "simulate", "--stdout", *arguments]
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            stdin=subprocess.DEVNULL,
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            for line in process.stdout:
                got = json.loads(line)
                if "severity" in got:
                    self.events.append(got)
                elif "kind" in got:
                    self.jobs[got["job"]].append(got)
                else:
                    times[got["ts"]] = None
                    self._keep(got)
            problem = process.stderr.read().decode()
        assert process.returncode == 0, problem
        self.times = list(times)
        """Source times of the ticks."""

    def _keep(self, got: dict[str, Any]) -> None:
        address = "/".join((got["cluster"], got["ultraserver"], got["instance"]))
        if "chip" in got:
            address += f"/chip{got['chip']:02d}"
        self.job_of[address] = got["job"]
        self._series[address][got["ts"]] = got

    @property
    def chips(self) -> list[str]:
        """Addresses of all chips."""
        return [address for address in self._series if address.count("/") == 3]

    @property
    def instances(self) -> list[str]:
        """Addresses of all instances."""
        return [address for address in self._series if address.count("/") == 2]

    def chips_of(self, job: str) -> list[str]:
        """Return the addresses of a job's chips."""
        return [address for address in self.chips if self.job_of[address] == job]

    def below(self, address: str) -> list[str]:
        """Return the chips below an address."""
        return [chip for chip in self.chips if chip.startswith(address + "/") or chip == address]

    def of(self, address: str, metric: str) -> NDArray[np.float64]:
        """Return a metric of a chip or an instance over time, NaN where nothing was said: (ticks,) or (ticks, lanes)."""
        series = self._series[address]
        known = next(value[metric] for value in series.values() if value[metric] is not None)
        blank: Any = [np.nan] * len(known) if isinstance(known, list) else np.nan
        rows = [series[time][metric] if time in series else None for time in self.times]
        return np.array([blank if row is None else row for row in rows], np.float64)

    def mean(self, addresses: list[str], metric: str) -> NDArray[np.float64]:
        """Return the mean of a metric over some chips or instances: shape (ticks,)."""
        values = np.array([self.of(address, metric) for address in addresses])
        if values.ndim == 3:
            values = np.nanmean(values, axis=2)
        mean: NDArray[np.float64] = np.nanmean(values, axis=0)
        return mean

    def figure(self, job: str, name: str) -> NDArray[np.float64]:
        """Return a job's figure over time, NaN for null."""
        return np.array(
            [each[name] if each[name] is not None else np.nan for each in self.jobs[job]], np.float64
        )

    def states(self, job: str) -> list[str]:
        """Return a job's states over time."""
        return [each["state"] for each in self.jobs[job]]

    def named(self, name: str) -> list[dict[str, Any]]:
        """Return the events of a name."""
        return [event for event in self.events if event["name"] == name]
