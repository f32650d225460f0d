"""Silences of here and of an Alertmanager in memory: passed on, taken, ended on either side, and never twice."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from support.monitor.alert_messages import BEGIN_NS
from support.processes.waiting import running

from trnfleet.clock import NS_PER_S, ManualClock, format_rfc3339, parse_rfc3339
from trnfleet.domain.alerts.alert import Alert, fingerprint_of, labels_of
from trnfleet.domain.alerts.rules import Rule
from trnfleet.domain.alerts.status import AlertState, AlertStatus
from trnfleet.export.alertmanager_silences import AlertmanagerSilences
from trnfleet.export.http import Target
from trnfleet.monitor.alerting.engine import Alerts
from trnfleet.monitor.alerting.operator import withdrawn_silence
from trnfleet.monitor.alerting.store import AlertStore
from trnfleet.monitor.sources.clocks import Moment
from trnfleet.services.watch.silence_exchange import POLLED_EVERY_S, SilenceExchange, SilenceMode
from trnfleet.wire.alerts import AckMessage, SilenceMessage
from trnfleet.wire.topics import TopicClass

RULE = Rule.model_validate(
    {"name": "down", "scope": "publisher", "severity": "warning", "figure": "state", "equals": "x", "summary": "{target}"}
)  # fmt: skip  # one line is the rule
FINGERPRINT = fingerprint_of("demo", "down", "a")


class Alertmanager:
    """An Alertmanager in memory, with what it does to silences."""

    def __init__(self, clock: ManualClock) -> None:
        self.silences: dict[str, dict[str, Any]] = {}
        self.answer: bytes | Exception | None = None
        self.refused = 0
        self.requests: list[str] = []
        self._clock = clock
        self.transport = httpx.MockTransport(self._handle)

    def add(
        self, name: str = "alertname", value: str = "down", *, lasts_s: float = 3_600, **change: Any
    ) -> str:
        """Let somebody make a silence there; return its id."""
        now_ns = self._clock.wall_ns()
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
        silence["endsAt"] = silence["updatedAt"] = format_rfc3339(self._clock.wall_ns())

    def alive(self) -> dict[str, dict[str, Any]]:
        return {name: each for name, each in self.silences.items() if self._state(each) != "expired"}

    def _put(self, content: dict[str, Any]) -> str:
        old = content.pop("id", None)
        former = self.silences.get(old or "")
        if former is not None and former["matchers"] != content["matchers"]:
            self.expire(str(old))
            old = None
        silence_id = old or f"00000000-0000-4000-8000-{len(self.silences):012d}"
        self.silences[silence_id] = {
            **content, "id": silence_id, "updatedAt": format_rfc3339(self._clock.wall_ns())
        }  # fmt: skip  # one line is the entry
        return silence_id

    def _state(self, silence: dict[str, Any]) -> str:
        now_ns = self._clock.wall_ns()
        if parse_rfc3339(silence["endsAt"]) <= now_ns:
            return "expired"
        return "pending" if parse_rfc3339(silence["startsAt"]) > now_ns else "active"

    async def _handle(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request.method)
        if isinstance(self.answer, Exception):
            raise self.answer
        if request.method == "GET":
            listed = [{**each, "status": {"state": self._state(each)}} for each in self.silences.values()]
            return httpx.Response(200, content=self.answer or json.dumps(listed).encode())
        if self.refused:
            return httpx.Response(self.refused, text="no")
        if request.method == "POST":
            return httpx.Response(200, json={"silenceID": self._put(json.loads(request.content))})
        self.expire(request.url.path.rpartition("/")[2])
        return httpx.Response(200)


class Bench:
    """The leading watch's side: a monitor whose alerts and time are set by hand, and an Alertmanager in memory."""

    def __init__(
        self, *, speed: float | None = None, mode: SilenceMode = SilenceMode.BOTH, count: int = 1
    ) -> None:
        self.clock = ManualClock(BEGIN_NS, 100.0)
        self.speed = speed
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
        """Return an exchange as a watch that begins has it."""
        target, transport = Target("http://am:9093"), self.there.transport
        return SilenceExchange(
            "demo",
            [AlertmanagerSilences(name, target, self.clock, transport=transport) for name in self._names],
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
            return Moment(wall_ns, 1.0, is_wall=True)
        return Moment(BEGIN_NS // 2 + round((wall_ns - BEGIN_NS) * self.speed), self.speed, is_wall=False)

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
            "id": "s-1", "matchers": ('publisher=~"a|b"',), "starts": format_rfc3339(now_ns),
            "until": format_rfc3339(now_ns + round(lasts_s * NS_PER_S)), "who": "ann", "why": "swap", "revision": 1,
        }  # fmt: skip  # a table of keys
        self.silences.put_silence(SilenceMessage(**known | change))

    def status(self) -> AlertStatus:
        return self.alerts.silences.status(self.alert, self.moment().time_ns)


async def test_ours_is_there_and_ends_there() -> None:
    """A silence is passed on at once with its fleet and owner, its new end follows, and it ends with ours."""
    bench = Bench()
    async with running(bench.exchange.run()):
        await bench.clock.advance(1)
        bench.silence()
        await bench.clock.advance(2)
        ((silence_id, there),) = bench.there.alive().items()
        assert there["matchers"] == [
            {"name": "fleet", "value": "demo", "isRegex": False, "isEqual": True},
            {"name": "publisher", "value": "a|b", "isRegex": True, "isEqual": True},
        ]
        assert (there["createdBy"], there["comment"]) == ("ann", "swap [trnfleet demo silence s-1 1]")
        bench.silence(7_200, revision=2)
        await bench.clock.advance(2)
        assert list(bench.there.alive()) == [silence_id]
        assert bench.there.alive()[silence_id]["endsAt"] == format_rfc3339(BEGIN_NS + 7_203 * NS_PER_S)
        bench.silences.put_silence(withdrawn_silence(bench.silences.silence("s-1"), "ann"))
        await bench.clock.advance(2)
        assert bench.there.alive() == {}
        assert [each.id for each in bench.silences.known] == []


async def test_the_end_is_the_fleets_time_on_the_wall_clock() -> None:
    """An hour of a fleet whose time runs sixty times as fast is a minute there, and an hour there is 60 hours here."""
    bench = Bench(speed=60.0)
    bench.silence()
    theirs = bench.there.add()
    async with running(bench.exchange.run()):
        await bench.clock.advance(2)
        (own,) = [each for name, each in bench.there.alive().items() if name != theirs]
        assert abs(parse_rfc3339(own["endsAt"]) - BEGIN_NS - 60 * NS_PER_S) < NS_PER_S
        taken = bench.silences.silence(f"alertmanager-{theirs}")
        assert abs(taken.ends_ns - BEGIN_NS // 2 - 60 * 3_600 * NS_PER_S) < 60 * NS_PER_S
        before = len(bench.published)
        await bench.clock.advance(3 * POLLED_EVERY_S)
        assert len(bench.published) == before
        assert bench.there.requests.count("POST") == 1


async def test_an_acknowledgement_is_a_silence_of_its_alert() -> None:
    """It is there while the alert fires, and ends with it."""
    bench = Bench()
    until = format_rfc3339(BEGIN_NS + 3_600 * NS_PER_S)
    ack = AckMessage(
        fingerprint=FINGERPRINT, owner="ann", at=format_rfc3339(BEGIN_NS), until=until, revision=1
    )
    bench.silences.put_ack(ack)
    async with running(bench.exchange.run()):
        await bench.clock.advance(1)
        (there,) = bench.there.alive().values()
        assert {each["name"]: each["value"] for each in there["matchers"]} == {
            "fleet": "demo", "alertname": "down", "target": "a"
        }  # fmt: skip  # one line is the list
        bench.alert.state = AlertState.RESOLVED
        await bench.clock.advance(2 * POLLED_EVERY_S)
        assert bench.there.alive() == {}


async def test_neither_a_restart_nor_another_watch_writes_it_twice() -> None:
    """It is found again by its comment; of copies that two watches wrote at once one is left."""
    bench = Bench(count=2)
    bench.silence()
    async with running(bench.exchange.run()):
        await bench.clock.advance(1)
    ((silence_id, there),) = bench.there.alive().items()
    bench.there._put({key: each for key, each in there.items() if key != "id"})
    assert len(bench.there.alive()) == 2
    async with running(bench.made().run()):
        await bench.clock.advance(20)
    assert list(bench.there.alive()) == [silence_id]
    assert bench.silences.count() == (0, 1)


async def test_ours_that_is_ended_there_ends_here() -> None:
    """An expired copy ends the silence here; one whose time there was simply over is written again."""
    bench = Bench()
    bench.silence()
    async with running(bench.exchange.run()):
        await bench.clock.advance(1)
        (silence_id,) = bench.there.alive()
        lapsed = bench.there.silences[silence_id]
        lapsed["endsAt"] = format_rfc3339(bench.clock.wall_ns() + NS_PER_S)
        await bench.clock.advance(POLLED_EVERY_S)
        (silence_id,) = bench.there.alive()
        assert bench.silences.count() == (0, 1)
        bench.there.expire(silence_id)
        await bench.clock.advance(POLLED_EVERY_S + 1)
    assert bench.silences.is_withdrawn("s-1")
    assert bench.there.alive() == {}
    assert bench.published[-1][1].who == "alertmanager"


async def test_theirs_counts_here_until_it_ends_there() -> None:
    """It hides alerts here with its owner and origin, stays while nobody answers, and goes when it is expired."""
    bench = Bench()
    theirs = bench.there.add()
    async with running(bench.exchange.run()):
        await bench.clock.advance(1)
        taken = bench.silences.silence(f"alertmanager-{theirs}")
        assert (taken.whose, taken.why, taken.not_applied) == ("bob at alertmanager", "known", "")
        assert bench.status() is AlertStatus.SILENCED
        bench.there.answer = httpx.ConnectError("no")
        await bench.clock.advance(3 * POLLED_EVERY_S)
        assert bench.status() is AlertStatus.SILENCED
        bench.there.answer = None
        bench.there.expire(theirs)
        await bench.clock.advance(POLLED_EVERY_S + 1)
        assert bench.status() is AlertStatus.FIRING
        assert list(bench.silences.known) == []


async def test_theirs_that_is_ended_here_ends_there() -> None:
    """An operator's `silence expire` ends it on both sides."""
    bench = Bench()
    theirs = bench.there.add()
    async with running(bench.exchange.run()):
        await bench.clock.advance(1)
        taken = bench.silences.silence(f"alertmanager-{theirs}")
        bench.silences.put_silence(withdrawn_silence(taken, "ann"))
        await bench.clock.advance(3)
    assert bench.there.alive() == {}
    assert bench.silences.is_withdrawn(taken.id)


@pytest.mark.parametrize(
    ("matcher", "why"),
    [
        ({"name": "pod", "value": "x"}, "no alert here has the label pod"),
        ({"name": "publisher", "value": "(a+)+", "isRegex": True}, "patterns have no repeated groups"),
        ({"name": "publisher", "value": "[a", "isRegex": True}, "no regular expression"),
        ({"name": "publisher", "value": "a\x1b[31m"}, "characters that do not show"),
        ({"name": "publisher", "value": "a" * 500}, "at most 400 characters"),
        ({"name": "fleet", "value": " " * 500_000, "isEqual": False}, "at most 400 characters"),
    ],
)  # fmt: skip  # a table reads as rows
async def test_what_has_no_equivalent_is_shown_and_hides_nothing(matcher: dict[str, Any], why: str) -> None:
    """It is published with the reason, and with matchers that no reader of before can apply."""
    bench = Bench()
    alike = {"name": "alertname", "value": "down", "isRegex": False, "isEqual": True}
    matchers = [alike, {"isRegex": False, "isEqual": True, **matcher}]
    theirs = bench.there.add(matchers=matchers, createdBy="b\x1bb")
    async with running(bench.exchange.run()):
        await bench.clock.advance(1)
    taken = bench.silences.silence(f"alertmanager-{theirs}")
    assert why in taken.not_applied
    assert taken.who == "b\\u001bb"
    assert bench.status() is AlertStatus.FIRING
    assert not any(each.matches(bench.alert.labels) and each.label != "alertname" for each in taken.matchers)


async def test_what_is_about_another_fleet_is_left_out() -> None:
    """Its own copies and those of other fleets are not shown."""
    bench = Bench()
    bench.there.add("fleet", "other")
    async with running(bench.exchange.run()):
        await bench.clock.advance(1)
    assert bench.published == []


@pytest.mark.parametrize(
    "answer", [b"{}", b"[", b"[" * 100_000, b"[1, {}, null]", b'"' + b"x" * 5_000_000 + b'"', b"\xff"]
)  # fmt: skip  # one line is the list
async def test_nonsense_ends_nothing(answer: bytes) -> None:
    """An answer that is none, or too long, leaves what was read before, and the next good one counts."""
    bench = Bench()
    theirs = bench.there.add()
    async with running(bench.exchange.run()):
        await bench.clock.advance(1)
        if answer != b"[1, {}, null]":
            bench.there.answer = answer
            await bench.clock.advance(POLLED_EVERY_S + 1)
            assert bench.status() is AlertStatus.SILENCED
        else:
            bench.there.silences["bad"] = {
                "endsAt": format_rfc3339(BEGIN_NS),
                "startsAt": format_rfc3339(BEGIN_NS),
            }
            await bench.clock.advance(POLLED_EVERY_S + 1)
            assert bench.status() is AlertStatus.SILENCED
        bench.there.answer = None
        bench.there.silences.pop("bad", None)
        bench.there.expire(theirs)
        await bench.clock.advance(POLLED_EVERY_S + 1)
        assert bench.status() is AlertStatus.FIRING


@pytest.mark.parametrize(("mode", "requests"), [(SilenceMode.READ, {"GET"}), (SilenceMode.OFF, set())])
async def test_modes(mode: SilenceMode, requests: set[str]) -> None:
    """Read writes nothing there, off does not even ask."""
    bench = Bench(mode=mode)
    bench.silence(matchers=('publisher="z"',))
    bench.there.add()
    async with running(bench.exchange.run()):
        await bench.clock.advance(2)
    assert set(bench.there.requests) == requests
    assert (bench.status() is AlertStatus.SILENCED) is (mode is SilenceMode.READ)


async def test_a_standby_asks_for_nothing() -> None:
    """Only the leader exchanges silences."""
    bench = Bench()
    bench.leads = False
    bench.silence()
    async with running(bench.exchange.run()):
        await bench.clock.advance(20)
    assert bench.there.requests == []


async def test_what_alertmanager_refuses_is_tried_again_later() -> None:
    """A refusal keeps nothing else back, and what is refused comes with the next look."""
    bench = Bench()
    bench.there.refused = 400
    bench.silence()
    bench.silence(id="s-2")
    async with running(bench.exchange.run()):
        await bench.clock.advance(2)
        assert bench.there.requests.count("POST") == 2
        bench.there.refused = 0
        await bench.clock.advance(POLLED_EVERY_S)
    assert len(bench.there.alive()) == 2
