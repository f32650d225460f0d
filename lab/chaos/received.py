"""Notifications of a real Alertmanager's receiver, and their check against the faults."""

from __future__ import annotations

import http.server
import json
import threading
import time
from typing import TYPE_CHECKING, NamedTuple, Self

from lab.chaos.fleet_faults import HISTORICAL, OWN, Interval, Script

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


RECOVERY_S = 45.0
"""Recovery after a disturbance. A client looks for its broker again within 30 s, and its sources
have a grace then."""
SEEN_S = 8.0
"""Time until a firing alert has reached the receiver."""
LATE_S = 75.0
"""Longest delay of an alert after the fault, and of its end. It covers an outage and the recovery.
"""
EARLY_S = 10.0
"""Uncertainty of the fleet's clock against the wall clock. A restarted simulator is late by its
start."""
_EVENTS = frozenset({"retirement-notice", "rack-event"})
"""Rules of events, which are published once."""


class Told(NamedTuple):
    """A notification about one alert."""

    at_s: float
    """Wall clock."""
    is_firing: bool
    name: str
    """Rule and target."""
    scope: str


class Receiver:
    """A receiver of Alertmanager's webhooks, on a port of loopback."""

    def __init__(self) -> None:
        self.told: list[Told] = []
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                for each in json.loads(self.rfile.read(length))["alerts"]:
                    labels = each["labels"]
                    name = f"{labels['alertname']} {labels['target']}"
                    is_firing = each["status"] == "firing"
                    receiver.told.append(Told(time.time(), is_firing, name, labels["scope"]))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Write nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def fired(self, *, own: bool = False) -> set[str]:
        """Return the received alerts about the fleet, or about the data path."""
        return {
            each.name for each in list(self.told) if each.is_firing and (each.scope in OWN) == own
        }

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class Window(NamedTuple):
    """A disturbance of the data path, in seconds after the fleet's start."""

    begin_s: float
    end_s: float


def expected(
    script: Script, windows: Sequence[Window], until_s: float, unheard: Collection[str] = ()
) -> set[str]:
    """Return the alerts that must have been received, without `unheard` ones.

    They fire while the data path is undisturbed.
    """
    return {
        name
        for name, intervals in script.alerts.items()
        if name.partition(" ")[0] not in HISTORICAL
        and name not in unheard
        and any(_must_be_seen(name, each, windows, until_s) for each in intervals)
    }


def _must_be_seen(name: str, interval: Interval, windows: Sequence[Window], until_s: float) -> bool:
    end_s = min(interval.end_s, until_s)
    starts = [interval.begin_s, *(each.end_s + RECOVERY_S for each in windows)]
    if name.partition(" ")[0] in _EVENTS:
        starts = [interval.begin_s]
    return any(
        interval.begin_s <= start <= end_s - SEEN_S - EARLY_S
        and not any(
            each.begin_s - EARLY_S < start + SEEN_S and start < each.end_s + RECOVERY_S
            for each in windows
        )
        for start in starts
    )


def faults_of(
    script: Script,
    told: Sequence[Told],
    windows: Sequence[Window],
    start_s: float,
    until_s: float,
    unheard: Collection[str] = (),
) -> list[str]:
    """Return the errors in alerts about the fleet.

    They are missing, invented, resolved too early, or fired too late.

    Args:
        script: The faults and their alerts.
        told: All notifications, oldest first.
        windows: Disturbances.
        start_s: The fleet's start by the wall clock.
        until_s: End of the run, in seconds after the start.
        unheard: Alerts of which no telemetry may have shown anything.
    """
    fleet = [each for each in told if each.scope not in OWN]
    received = {each.name for each in fleet if each.is_firing}
    wrong = [
        f"missing: {name}"
        for name in sorted(expected(script, windows, until_s, unheard) - received)
    ]
    for each in fleet:
        at_s = each.at_s - start_s
        intervals = script.alerts.get(each.name, [])
        inside = [one for one in intervals if one.begin_s - EARLY_S <= at_s <= one.end_s + LATE_S]
        if not intervals:
            what = (
                "although it is inhibited" if each.name in script.inhibited else "without a fault"
            )
            wrong.append(
                f"invented: {each.name} at {at_s:.0f} s, {what}"
            ) if each.is_firing else None
        elif each.is_firing and not inside:
            wrong.append(
                f"invented: {each.name} at {at_s:.0f} s, but the fault's is {_shown(intervals)}"
            )
        elif (
            not each.is_firing
            and each.name.partition(" ")[0] not in HISTORICAL
            and any(one.begin_s + EARLY_S < at_s < one.end_s - EARLY_S for one in intervals)
        ):
            wrong.append(f"resolved too early: {each.name} at {at_s:.0f} s of {_shown(intervals)}")
    return wrong


def _shown(intervals: Sequence[Interval]) -> str:
    return ", ".join(f"{each.begin_s:.0f} to {each.end_s:.0f} s" for each in intervals)
