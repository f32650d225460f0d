"""Links by state at ten instants: in the app, in `status --json`, and by a plain script.

They add up to all links everywhere.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from typing import TYPE_CHECKING

from support.plain_links import plain_links
from support.processes.programs import run
from support.tui.replayed import reach, replayed, showing

from trnfleet.cli.files import open_recording
from trnfleet.cli.status_report import KnownFleet
from trnfleet.clock import NS_PER_S, SystemClock, format_rfc3339
from trnfleet.domain.site import DEFAULT_SITE
from trnfleet.services.files.rules import load_rules
from trnfleet.services.viewing import monitors_at
from trnfleet.tui.topology.view import TopologyView
from trnfleet.tui.view import TOPOLOGY

if TYPE_CHECKING:
    from pathlib import Path

    from support.tui.pilot import FleetPilot

OPTIONS = ("--scenario", "neuronlink-split", "--ticks", "72", "--period", "1s", "--speed", "20")
"""A tick is a second of the clock, and 20 s of the scenario."""
SPLIT = 12
TICKS = {
    0: "all is well",
    2: "a link is slow",
    4: "it has recovered",
    5: "another is down",
    7: "its instance is drained",
    9: "the instance is silent, a Z link down",
    SPLIT: "the UltraServer is split",
    22: "the instance is replaced",
    60: "the cables are back",
    70: "the job runs in pairs",
}
STATES = ("all", "up", "slow", "down", "unknown")
US = "uc1/us-0001"


def by_state(text: str) -> dict[str, int]:
    """Return the numbers of `190 of 192 up, 1 down, 1 slow`."""
    match = re.search(r"([\d,]+) of ([\d,]+) up((?:, [\d,]+ (?:down|slow|not known))*)", text)
    assert match, text
    up, total, others = match.groups()
    bad = {word: number for number, word in re.findall(r"([\d,]+) (down|slow|not known)", others)}
    numbers = (total, up, bad.get("slow", "0"), bad.get("down", "0"), bad.get("not known", "0"))
    return {
        state: int(number.replace(",", "")) for state, number in zip(STATES, numbers, strict=True)
    }


async def look_at_links(pilot: FleetPilot) -> tuple[dict[str, int], dict[str, int]]:
    """Return the numbers of the fleet and of an UltraServer, as they stand on the screen."""
    pilot.app.go("", TOPOLOGY)
    await pilot.paint()
    page = pilot.app.page
    assert isinstance(page, TopologyView)
    lines = pilot.screen()
    fleet = by_state(next(line for line in lines if "Links of the fleet" in line))
    head = next(line for line in lines if "UltraServer or instance" in line)
    ends = [
        head.index(title) + len(title) for title in ("links", "up", "slow", "down", "not known")
    ]
    begin = lines.index(head) + 1
    rows = lines[begin : begin + page.domains.count]
    listed = [[int(row[:end].split()[-1].replace(",", "")) for end in ends] for row in rows]
    assert dict(zip(STATES, map(sum, zip(*listed, strict=True)), strict=True)) == fleet
    pilot.app.go(US, TOPOLOGY)
    await pilot.paint()
    ultraserver = by_state(next(line for line in pilot.screen() if "links of us-0001" in line))
    states = Counter(str(row[1]) for row in page.export().rows)
    states["unknown"] = states.pop("not known", 0)
    assert as_told(states) == ultraserver
    return fleet, ultraserver


def as_told(states: Counter[str]) -> dict[str, int]:
    """Return numbers of links as `status --json` has them."""
    return {"all": states.total(), **{state: states[state] for state in STATES[1:]}}


async def test_links_by_state_at_ten_instants(tmp_path: Path) -> None:
    file = tmp_path / "split.mcap"
    compact = ("--format", "cbor", "--granularity", "instance")
    run("simulate", "--record", str(file), *OPTIONS, *compact).check_returncode()
    lines = run("simulate", "--stdout", *OPTIONS).stdout.splitlines()
    with open_recording([str(file)]) as recording:
        (fleet,) = recording.abouts[0].fleets
        # Half a period after the tick.
        instants = [recording.start_ns + tick * NS_PER_S + NS_PER_S // 2 for tick in TICKS]
        told = [
            KnownFleet.from_monitor(monitor).facts(healthy=True)["links"]
            for monitor in monitors_at(
                recording,
                fleet,
                instants,
                rules=load_rules(),
                site=DEFAULT_SITE,
                clock=SystemClock(),
            )
        ]
        shown = []
        async with (
            replayed(recording, fleet, recording.start_ns, recording.end_ns) as viewing,
            showing(viewing, (120, 40)) as pilot,
        ):
            for instant in instants:
                await reach(pilot, viewing, instant)
                shown.append(await look_at_links(pilot))
    table = ["", " tick          " + "".join(f"{state:>9}" for state in STATES)]
    counted = plain_links(lines, TICKS)
    for tick, facts, on_screen, domains in zip(TICKS, told, shown, counted, strict=True):
        plain = as_told(sum(domains.values(), Counter()))
        for name, numbers in (("app", on_screen[0]), ("status", facts), ("plain", plain)):
            row = "".join(f"{numbers[state]:9}" for state in STATES)
            table.append(f"{tick:5}  {name:8}{row}   {TICKS[tick]}")
        assert on_screen[0] == facts == plain, TICKS[tick]
        assert on_screen[1] == as_told(domains["us-0001"]), TICKS[tick]
        assert facts["all"] == sum(facts[state] for state in STATES[1:])
    sys.stdout.write("\n".join([*table, ""]))
    for state in STATES:
        assert any(facts[state] for facts in told), state
    at = format_rfc3339(instants[list(TICKS).index(SPLIT)])
    status = run("status", "--recording", str(file), "--at", at, "--json")
    assert json.loads(status.stdout)["links"] == told[list(TICKS).index(SPLIT)]
