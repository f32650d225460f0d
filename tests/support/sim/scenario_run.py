"""A run of `simulate --record` by chip, instance, job and event.

Reading a frame takes tens of microseconds, a line of JSON thousands.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from support.processes.programs import run
from trnfleet.clock import format_rfc3339
from trnfleet.domain.layout import Layout
from trnfleet.domain.metrics import METRICS, Scope
from trnfleet.record.read.recording import Recording
from trnfleet.wire.frames import Frame, Unit
from trnfleet.wire.messages import Descriptor, decode_message, parse_json_object
from trnfleet.wire.topics import TopicClass, parse_topic

if TYPE_CHECKING:
    from numpy.typing import NDArray


_METRICS = {metric.name: metric for metric in METRICS}


class ScenarioRun:
    """The messages of one run."""

    def __init__(self, *arguments: str, **variables: str) -> None:
        self.jobs: dict[str, list[dict[str, Any]]] = defaultdict(list)
        """By job, its message of each tick."""
        self.events: list[dict[str, Any]] = []
        self._units: dict[str, Unit] = {}
        self._frames: dict[str, dict[int, Frame]] = defaultdict(dict)
        """By instance and source time."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "run.mcap"
            run(
                *("simulate", "--record", str(file), *arguments),
                *("--format", "cbor", "--granularity", "instance"),
                timeout_s=300,
                **variables,
            ).check_returncode()
            recording = Recording.open([file])
            try:
                for stored in recording.all():
                    self._keep(stored.envelope.topic, stored.envelope.payload)
            finally:
                recording.close()
        self._ticks = sorted({time_ns for frames in self._frames.values() for time_ns in frames})
        self.times = [format_rfc3339(each) for each in self._ticks]
        """Source times of the ticks."""
        self.instances = list(self._units)
        """Addresses of all instances."""
        self.chips = [
            f"{path}/chip{number:02d}"
            for path, unit in self._units.items()
            for number in range(unit.chips[-1])
        ]
        """Addresses of all chips."""
        self.job_of = self._placement()
        """The job of each address."""

    def _keep(self, name: str, payload: bytes) -> None:
        topic = parse_topic(name, "trnfleet")
        if topic.topic_class is TopicClass.NODE:
            self._units[topic.path] = Unit.of(decode_message(payload, Descriptor))
        elif topic.topic_class is TopicClass.TELEMETRY:
            frame = self._units[topic.path].decode(payload)
            self._frames[topic.path][frame.head.ts_ns] = frame
        elif topic.topic_class is TopicClass.EVENT:
            self.events.append(parse_json_object(payload))
        elif topic.topic_class is TopicClass.JOB and self._frames:
            # State from before the first tick is repeated by the tick.
            self.jobs[topic.path].append(parse_json_object(payload))

    def _placement(self) -> dict[str, str | None]:
        layout = Layout.of((path, unit.instances[0][1]) for path, unit in self._units.items())
        job_of: dict[str, str | None] = dict.fromkeys((*self.instances, *self.chips))
        for job, messages in self.jobs.items():
            for target in messages[-1]["on"]:
                for number in layout.find_instances(target) or ():
                    path = layout.instances[number]
                    job_of[path] = job
                    job_of |= {chip: job for chip in self.chips if chip.startswith(path + "/")}
        return job_of

    def chips_of(self, job: str) -> list[str]:
        """Return the addresses of a job's chips."""
        return [address for address in self.chips if self.job_of[address] == job]

    def below(self, address: str) -> list[str]:
        """Return the chips below an address."""
        return [chip for chip in self.chips if chip.startswith(address + "/") or chip == address]

    def of(self, address: str, metric: str) -> NDArray[np.float64]:
        """Return a metric of a chip or instance over time: (ticks,) or (ticks, lanes).

        NaN without a value.
        """
        row = _METRICS[metric]
        path = address
        chip = 0
        if row.scope is Scope.CHIP:
            path, _, name = address.rpartition("/chip")
            chip = int(name)
        frames = self._frames[path]
        known = [
            (frame.chip if row.scope is Scope.CHIP else frame.instance)[metric][chip]
            for frame in frames.values()
        ]
        values = row.decode(np.array(known))
        all_ticks = np.full((len(self._ticks), *values.shape[1:]), np.nan)
        all_ticks[np.searchsorted(self._ticks, list(frames))] = values
        return all_ticks

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
            [each[name] if each[name] is not None else np.nan for each in self.jobs[job]],
            np.float64,
        )

    def states(self, job: str) -> list[str]:
        """Return a job's states over time."""
        return [each["state"] for each in self.jobs[job]]

    def named(self, name: str) -> list[dict[str, Any]]:
        """Return the events of a name."""
        return [event for event in self.events if event["name"] == name]
