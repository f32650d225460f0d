"""Sums of paid time and power at ten instants of recordings, and where they are shown.

Causes add up to what is paid, and racks, UltraServers, jobs and reservations to the fleet's power.
`status --json`, the app, `usage` and history have the same figures.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.record.fixtures import RECORDINGS, make_fleet
from support.tui.figures import differences, figures
from support.tui.replayed import reach, replayed, showing

from trnfleet.cli.files import open_recording
from trnfleet.cli.status_report import KnownFleet
from trnfleet.clock import NS_PER_S, SystemClock
from trnfleet.domain.quantities import with_unit
from trnfleet.domain.site import Site
from trnfleet.monitor.goodput_report import goodput_facts, goodput_text
from trnfleet.monitor.power import PowerReader
from trnfleet.monitor.power_groups import GROUPS
from trnfleet.services.files.rules import load_rules
from trnfleet.services.usage import CauseReport, UsageReport
from trnfleet.services.viewing import monitors_at
from trnfleet.tui.jobs.view import JobsView
from trnfleet.tui.power.view import PowerView

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from support.tui.pilot import FleetPilot

    from trnfleet.monitor.monitor import Monitor
    from trnfleet.services.usage import CauseUsage

RUNS = {"demo": 130, "game-day": 300, "inference-day": 300, "cluster-10k": 70}
"""Seconds of the recordings; the faults of the game day have begun."""
SHOWN = 4
"""The instant that is looked at in the app."""
SITE = Site(
    ttft_limit=0.3, prices=(("trn2.48xlarge", Decimal(36)), ("trn2u.48xlarge", Decimal(36)))
)
"""Reservations have prices of their own."""
USEFUL = ("productive", "headroom", "unsplit")


@pytest.fixture(params=[pytest.param("demo", marks=pytest.mark.long), *list(RUNS)[1:]])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a recording with ticks of ten seconds."""
    shipped = RECORDINGS / f"{request.param}.mcap"
    ticks = RUNS[request.param] // 10 + 1
    return shipped if shipped.exists() else make_fleet(request.param, ticks, tmp_path)


async def test_sums_of_paid_time_and_power(file: Path) -> None:
    lasts_s = RUNS[file.stem]
    causes = CauseReport(every_s=60.0, lasts_s=1e9)
    reserved = UsageReport(every_s=1e9, lasts_s=1e9)
    intervals = []
    told = []
    with open_recording([str(file)]) as recording:
        (fleet,) = recording.abouts[0].fleets
        instants = [recording.start_ns + lasts_s * tenth * NS_PER_S // 10 for tenth in range(11)]
        for monitor in monitors_at(
            recording, fleet, instants, rules=load_rules(), site=SITE, clock=SystemClock()
        ):
            told.append(KnownFleet.from_monitor(monitor).facts(healthy=True))
            check_money(told[-1])
            check_power(monitor, told[-1])
            if len(told) > SHOWN:
                # `usage` begins its own sums.
                intervals += causes.follow(monitor)
                reserved.follow(monitor)
        check_usage([*intervals, *causes.finish()], causes, monitor)
        watched_s = (instants[-1] - instants[SHOWN]) / NS_PER_S
        check_fees(reserved, watched_s, monitor)
        async with (
            replayed(recording, fleet, instants[0], instants[-1], SITE) as viewing,
            showing(viewing, (240, 70)) as pilot,
        ):
            await reach(pilot, viewing, instants[SHOWN])
            await look_at_jobs(pilot, told[SHOWN])
            await look_at_power(pilot, told[SHOWN])


def check_money(facts: Mapping[str, Any]) -> None:
    """Causes add up to what is paid, jobs to the fleet, and causes by name to the lost time."""
    goodput = facts["goodput"]
    jobs = goodput["jobs"]
    assert goodput["paid_s"] == pytest.approx(facts["instances"] * goodput["lasts_s"])
    for unit, by_cause in (("s", "seconds"), ("usd", "usd")):
        paid = f"paid_{unit}"
        lost = f"lost_{unit}"
        for part in (goodput, *jobs):
            if part[paid] is not None:
                assert sum(part[by_cause].values()) == pytest.approx(part[paid])
                useful = sum(part[by_cause][cause] for cause in USEFUL)
                assert part[lost] + useful == pytest.approx(part[paid])
        if goodput[paid] is None:
            continue
        known = [job for job in jobs if job[paid] is not None]
        for figure in (paid, lost):
            assert sum(job[figure] for job in known) == pytest.approx(goodput[figure])
        for cause, amount in goodput[by_cause].items():
            assert sum(job[by_cause][cause] for job in known) == pytest.approx(amount), cause
        losses = sum(loss[lost] for loss in goodput["fix_first"])
        assert losses == pytest.approx(goodput[lost])
        for job in known:
            slow = sum(part[lost] for part in job["slow_by"])
            assert slow == pytest.approx(job[by_cause]["slow"]), job["job"]


def check_power(monitor: Monitor, facts: Mapping[str, Any]) -> None:
    """Every group adds up to the header's watts, and racks with their hosts to the IT power."""
    mean = facts["mean"]
    for kind in GROUPS:
        table = PowerReader(monitor).read(kind, monitor.averages, monitor.summary().announced)
        assert table is not None
        assert np.nansum(table.watts[:-1]) == pytest.approx(mean["power_w"], rel=1e-6), kind
        assert table.watts[-1] == pytest.approx(mean["power_w"], rel=1e-6)
        assert np.nansum(table.cap[:-1]) == pytest.approx(mean["power_cap_w"])
        assert np.nansum(table.chips[:-1]) == table.chips[-1] == facts["chips"]
    for figure in (facts, mean):
        assert figure["it_power_w"] == pytest.approx(figure["power_w"] + figure["host_power_w"])
        assert figure["facility_power_w"] == pytest.approx(facts["pue"] * figure["it_power_w"])
    if facts["live_chips"] == facts["chips"]:
        racks = sum(rack.power_w for rack in monitor.racks())
        assert racks == pytest.approx(facts["it_power_w"])


def check_usage(intervals: list[CauseUsage], causes: CauseReport, monitor: Monitor) -> None:
    """`usage --by cause` has the same total, and its intervals add up to it."""
    report = monitor.goodput.report()
    assert causes.total().partition("; not known")[0] == f"goodput {goodput_text(report)}"
    whole = goodput_facts(report)
    parts = [goodput_facts(interval.report) for interval in intervals]
    assert len(parts) > 1
    for figure in ("lasts_s", "paid_s", "paid_usd"):
        assert sum(part[figure] or 0 for part in parts) == pytest.approx(whole[figure]), figure


def check_fees(reserved: UsageReport, watched_s: float, monitor: Monitor) -> None:
    """What is paid is the fees of `usage` by reservation, and the price of other instances."""
    free = np.ones(len(monitor.store.layout.instances), np.bool_)
    for reservation in monitor.reservations.table():
        for rows in reservation.rows:
            free[rows.start : rows.stop] = False
    fees = float(sum(row.fee for row in reserved.finish() if row.fee is not None))
    paid = monitor.goodput.report()
    usd_per_s = fees / watched_s + 36 / 3_600 * int(free.sum())
    assert float(paid.fleet.usd.sum()) == pytest.approx(usd_per_s * paid.lasts_s)


async def look_at_jobs(pilot: FleetPilot, facts: Mapping[str, Any]) -> None:
    """Each job's goodput and loss, the sum's, and the first to fix, since the start."""
    await pilot.press("5")
    page = pilot.app.page
    assert isinstance(page, JobsView)
    while page.table.minutes is not None:
        await pilot.press("v")
        await pilot.paint()
    lines = pilot.screen()
    goodput = facts["goodput"]
    hour = 3_600 / goodput["lasts_s"]
    head = next(number for number, line in enumerate(lines) if "lost USD/h" in line)
    end = lines[head].index("goodput") + len("goodput")
    until = lines[head].index("USD/h") + len("USD/h")
    shown = {
        line[3:].split()[0]: (line[end - 9 : end].strip(), line[end:until].strip())
        for line in lines[head + 1 : head + 2 + len(page.table.rows)]
    }
    told = {job["job"] or "no": job for job in goodput["jobs"]} | {"sum": goodput}
    assert shown.keys() >= told.keys() - {None}
    for name, (share, lost) in shown.items():
        job = told[name]
        assert share == ("n/a" if job["goodput"] is None else f"{100 * job['goodput']:.1f} %"), name
        if lost != "n/a":
            assert float(lost.lstrip("≥").replace(",", "")) == pytest.approx(
                job["lost_usd"] * hour, abs=0.0051
            )
    assert f"paid {goodput['paid_usd']:,.2f} = lost {goodput['lost_usd']:,.2f} " in pilot.text()
    assert f"{goodput['fix_first'][0]['lost_usd']:,.2f} USD  " in pilot.text()


async def look_at_power(pilot: FleetPilot, facts: Mapping[str, Any]) -> None:
    """The header, the sums above, and the table by each group, which lists some rows."""
    await pilot.press("6")
    page = pilot.app.page
    assert isinstance(page, PowerView)
    mean = facts["mean"]
    for kind in GROUPS:
        await pilot.paint()
        lines = pilot.screen()
        assert page.kind == kind
        assert not differences(figures(lines, with_charts=False), mean)
        head = next(number for number, line in enumerate(lines) if "kW now" in line)
        end = lines[head].index("kW now") + len("kW now")
        sums = next(
            number for number, line in enumerate(lines) if line.startswith(f"  {facts['fleet']} ")
        )
        rows = [float(line[end - 9 : end].replace(",", "")) for line in lines[head + 1 : sums + 1]]
        # From a megawatt on without decimals.
        room = 0.0051 if rows[-1] < 1_000 else 0.51
        assert rows[-1] == pytest.approx(mean["power_w"] / 1e3, abs=room)
        if len(page.list.rows) == len(rows) - 1:
            assert sum(rows[:-1]) == pytest.approx(rows[-1], abs=room + 0.0051 * len(rows))
        await pilot.press("g")
    texts = [with_unit(mean[name], "W") for name in ("power_w", "host_power_w", "it_power_w")]
    chips, hosts, whole = map(re.escape, texts)
    assert re.search(rf"chips {chips} .*\+ hosts {hosts} = IT {whole} x PUE", pilot.text())
