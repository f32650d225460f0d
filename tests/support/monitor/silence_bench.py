"""An exchange of silences without network, monitor and real time.

Alerts are set by hand, and an Alertmanager is in memory.
"""

from __future__ import annotations

import json
from email.utils import formatdate
from types import SimpleNamespace
from typing import Any

import httpx

from support.monitor.alert_messages import BEGIN_NS
from trnfleet.clock import NS_PER_S, ManualClock, format_rfc3339, parse_rfc3339
from trnfleet.domain.alerts.alert import Alert, fingerprint_of, labels_of
from trnfleet.domain.alerts.rules import Rule
from trnfleet.domain.alerts.status import AlertState, AlertStatus
from trnfleet.export.alertmanager_silences import AlertmanagerSilences
from trnfleet.export.http import HttpTarget
from trnfleet.monitor.alerting.engine import Alerts
from trnfleet.monitor.alerting.store import AlertStore
from trnfleet.monitor.sources.clocks import Moment
from trnfleet.services.watch.silence_exchange import SilenceExchange, SilenceMode
from trnfleet.wire.alerts import SilenceMessage
from trnfleet.wire.topics import TopicClass

RULE = Rule.model_validate(
    {
        "name": "down",
        "scope": "publisher",
        "severity": "warning",
        "figure": "state",
        "equals": "x",
        "summary": "{target}",
    }
)
FINGERPRINT = fingerprint_of("demo", "down", "a")


class Alertmanager:
    """An Alertmanager in memory, with its silence behaviour."""

    def __init__(self, clock: ManualClock) -> None:
        self.silences: dict[str, dict[str, Any]] = {}
        self.answer: bytes | Exception | None = None
        self.refused = 0
        self.requests: list[str] = []
        self.ahead_s: float | None = None
        """Seconds its reported clock is ahead of the right time. None for our clock."""
        self._clock = clock
        self.transport = httpx.MockTransport(self._handle)

    def now_ns(self) -> int:
        """Return its clock."""
        if self.ahead_s is None:
            return self._clock.wall_ns()
        return BEGIN_NS + round((self._clock.monotonic_s() - 100.0 + self.ahead_s) * NS_PER_S)

    def add(
        self, name: str = "alertname", value: str = "down", *, lasts_s: float = 3_600, **change: Any
    ) -> str:
        """Let somebody make a silence there; return its id."""
        now_ns = self.now_ns()
        given = {
            "matchers": [{"name": name, "value": value, "isRegex": False, "isEqual": True}],
            "startsAt": format_rfc3339(now_ns),
            "endsAt": format_rfc3339(now_ns + round(lasts_s * NS_PER_S)),
            "createdBy": "bob",
            "comment": "known",
        }
        return self._put({**given, **change})

    def expire(self, silence_id: str) -> None:
        silence = self.silences[silence_id]
        silence["endsAt"] = silence["updatedAt"] = format_rfc3339(self.now_ns())

    def alive(self) -> dict[str, dict[str, Any]]:
        return {
            name: each for name, each in self.silences.items() if self._state(each) != "expired"
        }

    def _put(self, content: dict[str, Any]) -> str:
        old = content.pop("id", None)
        former = self.silences.get(old or "")
        if former is not None and former["matchers"] != content["matchers"]:
            self.expire(str(old))
            old = None
        silence_id = old or f"00000000-0000-4000-8000-{len(self.silences):012d}"
        self.silences[silence_id] = {
            **content,
            "id": silence_id,
            "updatedAt": format_rfc3339(self.now_ns()),
        }
        return silence_id

    def _state(self, silence: dict[str, Any]) -> str:
        now_ns = self.now_ns()
        if parse_rfc3339(silence["endsAt"]) <= now_ns:
            return "expired"
        return "pending" if parse_rfc3339(silence["startsAt"]) > now_ns else "active"

    async def _handle(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request.method)
        if isinstance(self.answer, Exception):
            raise self.answer
        date = (
            {}
            if self.ahead_s is None
            else {"Date": formatdate(self.now_ns() // NS_PER_S, usegmt=True)}
        )
        if request.method == "GET":
            listed = [
                {**each, "status": {"state": self._state(each)}} for each in self.silences.values()
            ]
            return httpx.Response(
                200, content=self.answer or json.dumps(listed).encode(), headers=date
            )
        if self.refused:
            return httpx.Response(self.refused, text="no")
        if request.method == "POST":
            return httpx.Response(200, json={"silenceID": self._put(json.loads(request.content))})
        self.expire(request.url.path.rpartition("/")[2])
        return httpx.Response(200)


class Bench:
    """The leading watch's side: a monitor with manual alerts and time, and an Alertmanager."""

    def __init__(
        self, *, speed: float | None = None, mode: SilenceMode = SilenceMode.BOTH, count: int = 1
    ) -> None:
        self.clock = ManualClock(BEGIN_NS, 100.0)
        self.speed = speed
        self.wall_ahead_s = 0.0
        """Seconds our wall clock is ahead of the fleet's right time."""
        store = AlertStore("demo")
        self.alerts = Alerts("demo", [RULE], store=store)
        alert = Alert(RULE, "a", FINGERPRINT, state=AlertState.FIRING, fired_ns=BEGIN_NS)
        alert.labels = labels_of("demo", RULE, "a")
        self.alert = store.active[FINGERPRINT] = alert
        self.leads = True
        self.published: list[tuple[str, Any]] = []
        self.there = Alertmanager(self.clock)
        self._monitor: Any = SimpleNamespace(alerts=self.alerts, moment=self.moment)
        self._mode, self._names = mode, ("alertmanager", "alertmanager-2")[:count]
        self.exchange = self.made()

    def made(self) -> SilenceExchange:
        """Return an exchange as in a starting watch."""
        target, transport = HttpTarget("http://am:9093"), self.there.transport
        return SilenceExchange(
            "demo",
            [
                AlertmanagerSilences(name, target, self.clock, transport=transport)
                for name in self._names
            ],
            self._mode,
            self._monitor,
            clock=self.clock,
            leads=lambda: self.leads,
            publish=self._publish,
        )

    @property
    def silences(self) -> Any:
        return self.alerts.silences

    def moment(self) -> Moment:
        wall_ns = self.clock.wall_ns()
        if self.speed is None:
            return Moment(wall_ns - round(self.wall_ahead_s * NS_PER_S), 1.0, is_wall=True)
        return Moment(
            BEGIN_NS // 2 + round((wall_ns - BEGIN_NS) * self.speed), self.speed, is_wall=False
        )

    def _publish(self, topic_class: TopicClass, name: str, message: Any) -> None:
        self.published.append((name, message))
        silences = self.alerts.silences
        if topic_class is TopicClass.ACK:
            silences.put_ack(message) if message else silences.remove_ack(name)
        else:
            silences.put_silence(message) if message else silences.remove_silence(name)

    def silence(self, lasts_s: float = 3_600, **change: Any) -> None:
        now_ns = self.moment().time_ns
        known: dict[str, Any] = {
            "id": "s-1",
            "matchers": ('publisher=~"a|b"',),
            "starts": format_rfc3339(now_ns),
            "until": format_rfc3339(now_ns + round(lasts_s * NS_PER_S)),
            "who": "ann",
            "why": "swap",
            "revision": 1,
        }
        self.silences.put_silence(SilenceMessage(**known | change))

    def status(self) -> AlertStatus:
        return self.alerts.silences.status(self.alert, self.moment().time_ns)
