"""Killed, stopped and cut-off processes while the fleet has faults.

A real Alertmanager must receive the faults' alerts and no others.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import signal
import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import psutil

from lab.chaos import fleet_faults
from lab.chaos.cases import Case, ChaosError, InconclusiveError
from lab.chaos.fleet_faults import HISTORICAL, OWN
from lab.chaos.network import lossy
from lab.chaos.overload import Overload
from lab.chaos.received import EARLY_S, RECOVERY_S, Window, expected, faults_of
from lab.chaos.world import RELAYS, WATCHES, SlowMachineError, World

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

    from trnfleet.domain.scenario import FaultEntry

LASTS_S = 300.0
"""Time from the first fault until all becomes quiet. At least half of it has faults."""
FAULTS = 6
SETTLE_S = 120.0
"""Longest time after the last disturbance until alerts are right. A returning broker is found
within 30 s, and an alert about the data path looks half a minute back."""
HOUR_S = 3_600
LOSS = 0.1
"""Share of the packets."""
_THROTTLED_BYTES_PER_S = 3_000.0
"""At most a third of the demo fleet's output."""
_TOLD_FROM_S = 15.0
"""Least outage of the whole path that must be reported. It is known after 5 s of nothing, and a
broker may answer late."""

UPWARDS = ("top", *RELAYS)
"""The top broker and its senders. Alertmanager must not notice their faults."""
_KINDS: tuple[tuple[str, tuple[str, ...], tuple[float, float]], ...] = (
    ("kill", ("broker", "simulator", *WATCHES, *UPWARDS), (0.5, 20.0)),
    ("stop", ("broker", "simulator", *WATCHES, "app", *UPWARDS), (1.0, 20.0)),
    ("partition", ("simulator", *WATCHES, "app"), (3.0, 40.0)),
    ("loss", ("simulator", *WATCHES, "app"), (10.0, 40.0)),
    ("cut", ("simulator", *WATCHES, "app"), (0.5, 15.0)),
    ("throttle", (*WATCHES, "app"), (10.0, 30.0)),
    ("unread", ("app",), (5.0, 20.0)),
    ("clock +1h", ("simulator", *WATCHES, "app"), (10.0, 40.0)),
    ("clock -1h", ("simulator", *WATCHES, "app"), (10.0, 40.0)),
)


class Disturbance(NamedTuple):
    """A disturbance of one process or of its way to the broker."""

    at_s: float
    kind: str
    target: str
    seconds: float

    @property
    def window(self) -> Window:
        """Its time."""
        return Window(self.at_s, self.at_s + self.seconds)

    def __str__(self) -> str:
        return f"{self.at_s:.0f} s {self.kind} {self.target} for {self.seconds:.1f} s"


class Seen(NamedTuple):
    """What came of a case."""

    disturbances: list[Disturbance]
    faults: Counter[str]
    short: int
    expected: int
    received: set[str]
    own: set[str]
    settled_s: float

    def __str__(self) -> str:
        kinds = Counter(f"{each.kind} {each.target}" for each in self.disturbances)
        return (
            f"{len(self.disturbances)} disturbances ({_shown(kinds)}); {self.faults.total()}"
            f" faults, {self.short} of them too short for an alert ({_shown(self.faults)});"
            f" {len(self.received)} alerts received, {self.expected} of them had to be, none was"
            f" invented; about the way of the data: {', '.join(sorted(self.own)) or 'none'}; right"
            f" after {self.settled_s:.0f} s"
        )


def _shown(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


def plan(random: Random, lasts_s: float, begin_s: float) -> list[Disturbance]:
    """Return the disturbances: overlapping bursts, and pauses.

    After each pause all alerts must have been right.
    """
    planned: list[Disturbance] = []
    busy: dict[str, float] = {}
    at_s = begin_s
    last_s = lasts_s - 45.0
    while at_s < last_s:
        kind, targets, (least_s, most_s) = random.choice(_KINDS)
        target = random.choice(targets)
        seconds = min(random.uniform(least_s, most_s), last_s - at_s + least_s)
        if busy.get(target, 0.0) <= at_s:
            planned.append(Disturbance(at_s, kind, target, seconds))
            busy[target] = at_s + seconds + 1.0
        at_s += random.choice(
            (random.uniform(0.5, 6), seconds + random.uniform(1, 8), seconds + RECOVERY_S + 20)
        )
    return planned


class _Run:
    """A world and what is done to it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._losses: dict[str, contextlib.ExitStack] = {}

    def begin(self, each: Disturbance) -> None:
        world = self._world
        target = each.target
        match each.kind.split():
            case ["kill"]:
                world.kill(target)
            case ["stop"]:
                world.signal(target, signal.SIGSTOP)
            case ["partition" | "loss" as kind]:
                stack = self._losses[target] = contextlib.ExitStack()
                stack.enter_context(
                    lossy(world.proxies[target], 1.0 if kind == "partition" else LOSS)
                )
            case ["cut"]:
                world.proxies[target].cut()
            case ["throttle"]:
                world.proxies[target].bytes_per_s = _THROTTLED_BYTES_PER_S
            case ["unread"]:
                world.app.stall()
            case ["clock", step]:
                world.step_clock(target, HOUR_S if step == "+1h" else -HOUR_S)

    def end(self, each: Disturbance) -> None:
        world = self._world
        target = each.target
        match each.kind.split():
            case ["kill"]:
                world.revive(target)
            case ["stop"]:
                world.signal(target, signal.SIGCONT)
            case ["partition" | "loss"]:
                self._losses.pop(target).close()
            case ["cut" | "throttle"]:
                world.proxies[target].mend()
            case ["unread"]:
                world.app.unstall()
            case ["clock", _]:
                world.step_clock(target, 0)


def run_case(
    case: Case,
    folder: Path,
    *,
    lasts_s: float = LASTS_S,
    begin_s: float = 15.0,
    settle_s: float = SETTLE_S,
    faults: list[FaultEntry] | None = None,
    disturbances: list[Disturbance] | None = None,
    records: bool = True,
    published: tuple[str, ...] = (),
) -> Seen:
    """Disturb processes while the fleet has faults, and check Alertmanager's alerts.

    They are compared with the alerts due to the faults.

    Raises:
        ChaosError: an alert is missing, was invented or resolved too early, a process has ended, or
            the app shows something wrong.
        InconclusiveError: the same, where the machine was too slow for the programs.
    """
    random = case.random()
    folder.mkdir(parents=True, exist_ok=True)
    if faults is None:
        faults = fleet_faults.draw(random, lasts_s, begin_s=begin_s, count=FAULTS)
    script = fleet_faults.play(faults, lasts_s + settle_s + 60, folder)
    planned = plan(random, lasts_s, begin_s + 5) if disturbances is None else disturbances
    fill_s = random.uniform(0.3, 0.7) * lasts_s
    told = "\n".join(
        [
            *(
                f"{each.at:.0f} s {each.fault} {each.target} for {each.lasts_s:g} s"
                for each in script.faults
            ),
            *map(str, planned),
        ]
    )
    with contextlib.ExitStack() as stack:
        try:
            world = World(folder, stack, records=records, published=published)
        except SlowMachineError as error:
            raise InconclusiveError(case, str(error), told) from None
        overload = stack.enter_context(Overload(lambda: world.pids))
        doing = _Run(world)
        steps = [
            *((each.at_s, number, doing.begin, each) for number, each in enumerate(planned)),
            *((each.window.end_s, number, doing.end, each) for number, each in enumerate(planned)),
        ]
        steps.sort(key=lambda step: step[:2])
        is_filled = world.disk is None
        try:
            for at_s, _, act, each in steps:
                if not is_filled and at_s > fill_s:
                    is_filled = True
                    _wait_until(world, fill_s)
                    world.fill_disk()
                _wait_until(world, at_s)
                act(each)
            _wait_until(world, lasts_s)
            unheard = script.unheard(_outages_s(planned))
            settled_s = _settle(world, script, planned, unheard)
            until_s = world.now_s()
            windows = [each.window for each in planned if each.target not in {"app", *UPWARDS}]
            wrong = faults_of(script, world.receiver.told, windows, world.start_s, until_s, unheard)
            wrong += _own_faults(world, planned)
            wrong += _ended(world)
            if is_filled and world.disk is not None and (why := world.check_recorder()):
                wrong.append(why)
            wrong += _app_faults(world)
            wrong += world.relay_faults()
            wrong += _untold(world)
        except AssertionError as error:
            wrong = [str(error), *_ended(world)]
        if wrong:
            parts = {
                "what was done": told,
                "what the faults lead to": str(script),
                "what was received": _as_lines(world),
                **{
                    f"what {name} said": each.output[-2_000:]
                    for name, each in world.programs.items()
                },
            }
            what = "\n".join([*wrong, *(f"-- {name}:\n{text}" for name, text in parts.items())])
            why = world.why_slow or overload.why
            if why and not _ended(world):
                raise InconclusiveError(case, why, what)
            raise ChaosError(case, what)
        must = expected(script, windows, until_s, unheard)
        return Seen(
            planned,
            script.kinds(),
            script.short,
            len(must),
            world.receiver.fired(),
            world.receiver.fired(own=True),
            settled_s,
        )


def _as_lines(world: World) -> str:
    return "\n".join(
        f"{each.at_s - world.start_s:.1f} s {'firing' if each.is_firing else 'resolved'}"
        f" {each.name}"
        for each in world.receiver.told
    )


def _wait_until(world: World, at_s: float) -> None:
    time.sleep(max(0.0, at_s - world.now_s()))


def _outages_s(planned: list[Disturbance]) -> list[tuple[float, float]]:
    """Return when the simulator could not be heard."""
    return [
        (each.at_s - EARLY_S, each.window.end_s + RECOVERY_S)
        for each in planned
        if each.target in {"simulator", "broker"} and not each.kind.startswith("clock")
    ]


def _settle(
    world: World, script: fleet_faults.Script, planned: list[Disturbance], unheard: set[str]
) -> float:
    """Wait until Alertmanager has the alerts firing now, and none about the data path.

    Return the seconds.

    Raises:
        AssertionError: it has something else.
    """
    begun_s = max((each.window.end_s for each in planned), default=world.now_s())
    restarts_s = [
        each.window.end_s + RECOVERY_S
        for each in planned
        if each.kind == "kill" and each.target in WATCHES
    ]
    history_is_lost = bool(restarts_s)
    while True:
        found = world.active()
        now_s = world.now_s()
        fleet = {name for name, scope in found.items() if scope not in OWN}
        allowed = script.firing(now_s, EARLY_S + 5)
        sure = {name for name in allowed - unheard if _fires_throughout(script, name, now_s)}
        allowed |= script.held(now_s - EARLY_S - 5, restarts_s)
        if history_is_lost:
            sure = {name for name in sure if name.partition(" ")[0] not in HISTORICAL}
        own = set(found) - fleet
        told = {each.name: each.is_firing for each in world.receiver.told if each.scope not in OWN}
        firing = {name for name, is_firing in told.items() if is_firing}
        if sure <= fleet <= allowed and sure <= firing <= allowed and not own:
            return max(0.0, now_s - begun_s)
        assert now_s < begun_s + SETTLE_S + 45, (
            f"not right {now_s - begun_s:.0f} s after the last disturbance: missing"
            f" {sorted(sure - fleet)}, invented {sorted(fleet - allowed)}, about the way of the"
            f" data {sorted(own)}"
        )
        time.sleep(0.5)


def _fires_throughout(script: fleet_faults.Script, name: str, now_s: float) -> bool:
    return any(
        each.begin_s < now_s - 2 and now_s + EARLY_S < each.end_s for each in script.alerts[name]
    )


def _own_faults(world: World, planned: list[Disturbance]) -> list[str]:
    """Return unreported outages, if no other disturbance of the path overlaps."""
    wrong = []
    told = [
        (each.at_s - world.start_s, each.name) for each in world.receiver.told if each.is_firing
    ]
    for each in planned:
        others = [one for one in planned if one is not each and one.target not in {"app", *UPWARDS}]
        if any(
            one.at_s < each.window.end_s and each.at_s < one.window.end_s + RECOVERY_S
            for one in others
        ):
            continue
        wanted = None
        if each.target == "broker" and each.seconds >= _TOLD_FROM_S:
            wanted = "connection-lost pipeline"
        elif each.target == "simulator" and each.kind == "kill" and each.seconds >= _TOLD_FROM_S:
            wanted = "publisher-offline sim-1"
        if wanted and not any(
            name == wanted and each.at_s <= at_s <= each.window.end_s + RECOVERY_S
            for at_s, name in told
        ):
            wrong.append(f"missing: {wanted} for {each}")
    return wrong


def _ended(world: World) -> list[str]:
    """Return programs that have ended, or printed a traceback."""
    return [
        f"{name} has ended with {program.process.poll()}: {program.output[-2_000:]}"
        for name, program in world.programs.items()
        if program.process.poll() is not None or "Traceback" in program.output
    ]


def _untold(world: World) -> list[str]:
    """Return a fault if no watch has named the dead webhook."""
    said = "".join(world.programs[name].output for name in WATCHES)
    return [] if "webhook" in said else ["no watch names the webhook that it cannot reach"]


def _app_faults(world: World) -> list[str]:
    """Return the app's faults: ended, not live, or without an answer to keys."""
    app = world.app
    if app.process.status() == psutil.STATUS_ZOMBIE:
        return [f"the app has ended: {app.text}"]
    try:
        app.wait_for("192", "all live", within_s=60)
        for key, pattern in itertools.chain((("8", r"(?i)rule|no alert"), ("1", "192"))):
            app.send(key)
            app.wait_for_match(pattern, within_s=10)
    except AssertionError as error:
        return [f"the app: {error}"]
    return [] if re.search(r"\S", app.text) else ["the app shows nothing"]
