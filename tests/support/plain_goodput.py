"""Goodput by job from the lines of `simulate --stdout`, with nothing of the program.

It follows the definitions of docs/goodput.md by hand, line by line, so that the monitor's sums can
be compared with it: `simulate --stdout --include telemetry,events,jobs,reservations`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

STATES = {
    "idle": "idle",
    "finished": "idle",
    "failed": "recovery",
    "waiting": "recovery",
    "hung": "recovery",
    "lost": "recovery",
    "starting": "start_up",
    "compiling": "start_up",
    "loading": "start_up",
    "checkpointing": "checkpoint",
    "stalled": "data_wait",
    "evaluating": "evaluation",
}
SILENT_PERIODS = 3


def instant_s(text: str) -> float:
    """Return the seconds of a time."""
    return datetime.fromisoformat(text).timestamp()


def covers(place: str, path: str) -> bool:
    """Return whether an address or a range of siblings covers an instance."""
    first, _, last = place.partition("..")
    depth = first.count("/") + 1
    ancestor = "/".join(path.split("/")[:depth])
    parent = first.rpartition("/")[0]
    return first <= ancestor <= f"{parent}/{last}" if last else ancestor == first


class PlainJob:
    """Sums of one job."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.usd = 0.0
        self.stepping_s = 0.0
        self.kept = self.lost = self.since_failure = 0.0
        """Instance-steps, and steps since the last failure."""
        self.last: tuple[float, float] | None = None
        self.ideal_s: float | None = None

    def follow(self, message: dict[str, Any], instances: int) -> None:
        """Count the steps since the last message."""
        if message.get("steps_completed") is None:
            return
        now = (message["steps_completed"], message["steps_lost"] or 0.0)
        before = self.last
        self.last = now if instances else None
        self.ideal_s = message["ideal_step_s"]
        if before is None:
            return
        gone = now[1] - before[1]
        made = now[0] - before[0] + gone
        if made < 0 or gone < 0:
            self.since_failure = 0.0
            return
        self.since_failure += made
        lost = min(gone, self.since_failure)
        if gone:
            self.since_failure = 0.0
        self.kept += (made - lost) * instances
        self.lost += lost * instances

    def by_cause(self) -> dict[str, float]:
        """Return the seconds by cause, stepping time split."""
        if self.ideal_s is None:
            return {**self.seconds, "unsplit": self.stepping_s}
        lost = min(self.lost * self.ideal_s, self.stepping_s)
        productive = min(self.kept * self.ideal_s, self.stepping_s - lost)
        slow = self.stepping_s - lost - productive
        split = {"productive": productive, "lost_work": lost, "slow": slow}
        return {
            cause: split.get(cause, 0.0) + self.seconds.get(cause, 0.0)
            for cause in {*split, *self.seconds}
        }


class PlainFleet:
    """What the lines have said so far."""

    def __init__(self, described: set[str], period_s: float) -> None:
        self.jobs: dict[str, PlainJob] = defaultdict(PlainJob)
        self._described = described
        self._silent_s = SILENT_PERIODS * period_s
        self._messages: dict[str, dict[str, Any]] = {}
        self._blocks: dict[str, dict[str, Any]] = {}
        self._job_of: dict[str, str] = {}
        self._busy_pct: dict[str, float] = {}
        self._seen_s: dict[str, float] = {}
        self._out: set[str] = set()

    def read(self, lines: list[dict[str, Any]], at_s: float) -> None:
        """Read the lines of a tick."""
        cores: dict[str, list[float]] = defaultdict(list)
        for line in lines:
            if "chip" in line:
                path = path_of(line)
                cores[path] += [core for core in line["nc_util_pct"] if core is not None]
                self._job_of[path] = line["job"] or ""
                self._seen_s[path] = at_s
            elif "kind" in line:
                self._messages[line["job"]] = line
            elif "instance_type" in line:
                self._blocks[line["id"]] = line
            elif line.get("name") == "instance_quarantined":
                self._out.add(line["path"])
            elif line.get("name") == "instance_returned":
                self._out.discard(line["path"])
        self._busy_pct |= {path: sum(values) / len(values) for path, values in cores.items()}

    def add(self, at_s: float, lasted_s: float) -> None:
        """Add the time up to a tick."""
        heard: dict[str, int] = defaultdict(int)
        for path in self._described:
            blocks = [
                block
                for block in self._blocks.values()
                if any(covers(place, path) for place in block["on"])
            ]
            paying = [
                block
                for block in blocks
                if block["state"] in {"active", "unavailable"}
                and instant_s(block["start"]) <= at_s < instant_s(block["terminates"])
            ]
            if blocks and not paying:
                continue
            name = self._job_of.get(path, "")
            job = self.jobs[name]
            cause = self._cause(path, name, at_s)
            if cause == "idle" and paying:
                cause = "idle_reserved"
            heard[name] += cause not in {"down", "unobserved"}
            for block in paying[-1:]:
                span_s = instant_s(block["end"]) - instant_s(block["start"])
                job.usd += float(block["fee"]) / span_s / block["instances"] * lasted_s
            message = self._messages.get(name, {})
            if cause == "stepping" and message.get("kind") == "inference":
                share = self._busy_pct[path] / 100.0
                is_slow = (message["ttft_s"] or 0) > 2.0 or (message["tpot_s"] or 0) > 0.2
                job.seconds["slow" if is_slow else "productive"] += share * lasted_s
                job.seconds["headroom"] += (1.0 - share) * lasted_s
            elif cause == "stepping":
                job.stepping_s += lasted_s
            else:
                job.seconds[cause] += lasted_s
        for name, message in self._messages.items():
            self.jobs[name].follow(message, heard[name])

    def _cause(self, path: str, name: str, at_s: float) -> str:
        if path in self._out:
            return "down"
        if at_s - self._seen_s.get(path, -1e9) > self._silent_s:
            return "unobserved"
        if not name:
            return "idle" if self._busy_pct.get(path, 100.0) <= 1.0 else "unsplit"
        return STATES.get(self._messages.get(name, {}).get("state", ""), "stepping")


def path_of(line: dict[str, Any]) -> str:
    """Return the address of a line's instance."""
    return f"{line['cluster']}/{line['ultraserver']}/{line['instance']}"


def plain_goodput(lines: Iterable[bytes | str], from_s: float, to_s: float) -> dict[str, PlainJob]:
    """Return the jobs' sums over `from_s < time <= to_s`; "" is no job.

    Args:
        lines: The lines.
        from_s: Begin, seconds since 1970.
        to_s: End.
    """
    ticks: dict[float, list[dict[str, Any]]] = defaultdict(list)
    described: set[str] = set()
    for text in lines:
        line = json.loads(text)
        at_s = instant_s(line["ts"])
        if at_s <= to_s:
            ticks[at_s].append(line)
        if "instance" in line:
            described.add(path_of(line))
    times = sorted(at_s for at_s, some in ticks.items() if any("chip" in line for line in some))
    fleet = PlainFleet(described, times[1] - times[0])
    before_s = from_s
    for at_s in sorted(ticks):
        fleet.read(ticks[at_s], at_s)
        if at_s in times and at_s >= from_s:
            fleet.add(at_s, at_s - before_s)
            before_s = at_s
    return fleet.jobs
