"""NeuronLinks by state from the lines of `simulate --stdout`, with nothing of the program.

It follows the table of states in docs/app.md by hand, for trn2 and trn2u: 16 chips in a torus of
4 x 4, and rings of four chips between the instances of an UltraServer.
"""

from __future__ import annotations

import json
from collections import Counter
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NORTH, SOUTH, WEST, EAST, Z_PREV, Z_NEXT = range(6)
WORST_FIRST = ("down", "slow", "unknown", "up")
SILENT_PERIODS = 3
SLOW_BELOW = 0.85
LEAST_MEDIAN = 2e9
LEAST_PEERS = 4
Ends = tuple[tuple[str, int, int], tuple[str, int, int]]
"""Instance, chip and lane of both ends."""


def links(instances: Iterable[str]) -> Iterator[Ends]:
    """Return the links of instances, each once, by its south, east or next end."""
    for instance in instances:
        for chip in range(16):
            row, column = divmod(chip, 4)
            below = (row + 1) % 4 * 4 + column
            right = row * 4 + (column + 1) % 4
            yield (instance, chip, SOUTH), (instance, below, NORTH)
            yield (instance, chip, EAST), (instance, right, WEST)
            if instance.startswith("trn2u"):
                ultraserver, _, member = instance.rpartition("-")
                other = f"{ultraserver}-{(int(member) + 1) % 4}"
                yield (instance, chip, Z_NEXT), (other, chip, Z_PREV)


class PlainFleet:
    """The last message of each chip, and the number of its tick."""

    def __init__(self) -> None:
        self.tick = -1
        self.domains: dict[str, str] = {}
        """UltraServer or standalone instance, by instance."""
        self.chips: dict[str, dict[int, tuple[int, dict[str, Any]]]] = {}

    def follow(self, message: dict[str, Any]) -> None:
        """Take a chip's telemetry."""
        instance = message["instance"]
        above = message["ultraserver"]
        self.domains[instance] = instance if above == "standalone" else above
        self.chips.setdefault(instance, {})[message["chip"]] = (self.tick, message)

    def is_live(self, instance: str, chip: int) -> bool:
        """Return whether a chip is live half a period after the tick."""
        return self.tick + 0.5 - self.chips[instance][chip][0] <= SILENT_PERIODS

    def medians(self, instance: str) -> list[float]:
        """Return what the chips of an instance send, by lane; 0 with too few of them."""
        newest = max(tick for tick, _ in self.chips[instance].values())
        peers = [
            chip["link_tx_bytes_per_s"]
            for tick, chip in self.chips[instance].values()
            if tick == newest
        ]
        known = [[rate for rate in lane if rate is not None] for lane in zip(*peers, strict=True)]
        return [median(lane) if len(lane) >= LEAST_PEERS else 0.0 for lane in known]

    def state(self, instance: str, chip: int, lane: int) -> str:
        """Return the state of one end."""
        bits = self.chips[instance][chip][1].get("links_up")
        if not self.is_live(instance, chip) or bits is None:
            return "unknown"
        if not bits >> lane & 1:
            return "down"
        medians = self.medians(instance)
        sent = self.chips[instance][chip][1]["link_tx_bytes_per_s"]
        shares = [
            rate / usual if rate and usual else 0.0
            for rate, usual in zip(sent, medians, strict=True)
        ]
        is_judged = shares[lane] > 0 and medians[lane] > LEAST_MEDIAN
        is_slow = is_judged and shares[lane] < SLOW_BELOW * min(1.0, max(shares))
        return "slow" if is_slow else "up"

    def count(self) -> dict[str, Counter[str]]:
        """Return the numbers of links by state of each UltraServer and standalone instance."""
        made: dict[str, Counter[str]] = {domain: Counter() for domain in self.domains.values()}
        for ends in links(self.domains):
            worst = min((self.state(*end) for end in ends), key=WORST_FIRST.index)
            made[self.domains[ends[0][0]]][worst] += 1
        return made


def plain_links(lines: Iterable[str], ticks: Iterable[int]) -> Iterator[dict[str, Counter[str]]]:
    """Return the numbers of links at some ticks, ascending."""
    fleet = PlainFleet()
    wanted = set(ticks)
    now = ""
    for line in lines:
        message = json.loads(line)
        if "links_up" not in message:
            continue
        if message["ts"] != now:
            if fleet.tick in wanted:
                yield fleet.count()
            now = message["ts"]
            fleet.tick += 1
        fleet.follow(message)
    if fleet.tick in wanted:
        yield fleet.count()
