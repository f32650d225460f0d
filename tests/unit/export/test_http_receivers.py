"""Alertmanager and webhooks, with a fake network and a manual clock."""

from __future__ import annotations

import json
from datetime import datetime
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from support.monitor.alert_messages import BEGIN_NS, fingerprint, notification
from support.processes.waiting import running

from trnfleet.clock import NS_PER_S, ManualClock, SystemClock, format_rfc3339
from trnfleet.domain.alerts.watches import NO_ERRORS, ReceiverError
from trnfleet.errors import ConfigError
from trnfleet.export import http
from trnfleet.export.alertmanager import (
    REPEATED_EVERY_S,
    SETTLES_S,
    AlertmanagerReceiver,
)
from trnfleet.export.http import (
    WHOLE_LIMIT_S,
    HttpTarget,
    RequestOutcome,
    make_client,
    parse_target,
    request_json,
)
from trnfleet.export.notification import labels_of
from trnfleet.export.other_clock import OtherClock
from trnfleet.export.receiver import MOST_WAITING, RESOLVED_FOR_S
from trnfleet.export.webhook import WebhookReceiver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


class StoppedClock(ManualClock):
    """A clock that runs while the process is stopped."""

    def stop(self, seconds: float) -> None:
        self._move_to(self.monotonic_s() + seconds)

    def _move_to(self, monotonic_s: float) -> None:
        # Who slept until a moment of the stop wakes after it.
        super()._move_to(max(monotonic_s, self.monotonic_s()))


class Other:
    """The other side: notes requests, and answers as it is told to."""

    def __init__(self) -> None:
        self.requests: list[httpx.Request] = []
        self.status: int | Callable[[list[dict[str, Any]]], int] = 200
        self.error: Exception | None = None
        self.clock = StoppedClock(BEGIN_NS, 100.0)
        self.ahead_s: float | None = None
        """Seconds its clock is ahead of the wall clock of `BEGIN_NS`; None without a `Date`."""
        self.active: list[dict[str, str]] = []
        """Labels of its alerts, for queries."""
        self.begun_s = -1.0
        """When it began, in seconds after ours."""
        self.transport = httpx.MockTransport(self._answer)

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(each.content) for each in self.requests if each.content]

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if self.error is not None:
            raise self.error
        if request.method == "GET" and request.url.path.endswith("/alerts"):
            return httpx.Response(200, json=[{"labels": each} for each in self.active])
        if request.method == "GET" and self.active:
            begun = format_rfc3339(BEGIN_NS + round(self.begun_s * NS_PER_S))
            return httpx.Response(200, json={"uptime": begun})
        status = (
            self.status
            if isinstance(self.status, int)
            else self.status(json.loads(request.content or b"null"))
        )
        date = {} if self.ahead_s is None else {"Date": formatdate(self.now_s, usegmt=True)}
        return httpx.Response(status, text="no\n\x1b[31m", headers=date)

    @property
    def now_s(self) -> float:
        """Its clock."""
        return BEGIN_NS / 1e9 + (self.clock.monotonic_s() - 100.0) + (self.ahead_s or 0.0)


TARGET = HttpTarget("http://am:9093/", "ann", "secret")


def starts(other: Other) -> list[list[str]]:
    """Return which alerts each request was about."""
    return [
        [each["annotations"]["summary"].rpartition(" ")[2] for each in body]
        for body in other.bodies
    ]


@pytest.fixture
def other() -> Other:
    return Other()


@pytest.fixture
def receiver(other: Other) -> AlertmanagerReceiver:
    return AlertmanagerReceiver("alertmanager", TARGET, other.clock, transport=other.transport)


async def test_alertmanager_is_told_at_once_and_again_every_minute(
    other: Other, receiver: AlertmanagerReceiver
) -> None:
    """A firing alert is sent at once and repeated, without empty texts and labels.

    It ends 4 min after each repeat.
    """
    told: list[str] = []
    receiver.confirm = lambda each: told.append(each.mark)
    async with running(receiver.run()):
        receiver.notify([notification(1), notification(2)])
        await other.clock.advance(0.1)
        assert starts(other) == [["1", "2"]]
        await other.clock.advance(REPEATED_EVERY_S)
        assert starts(other) == [["1", "2"], ["1", "2"]]
    assert str(other.requests[0].url) == "http://am:9093/api/v2/alerts"
    assert other.requests[0].headers["Authorization"].startswith("Basic ")
    first, again = other.bodies[0][0], other.bodies[1][0]
    assert first["startsAt"] == again["startsAt"] == format_rfc3339(BEGIN_NS)
    assert (first["endsAt"], again["endsAt"][:16]) == (
        "2026-01-05T08:04:00.000Z",
        "2026-01-05T08:05",
    )
    assert "none" not in first["labels"]
    assert first["annotations"] == {
        "summary": "number 1",
        "runbook": "look",
        "value": "40",
        "fingerprint": fingerprint(1),
        "ack": f"trnfleet ack {fingerprint(1)} --name demo",
    }
    assert told == ["firing@2026-01-05T08:00:00.000Z"] * 2
    assert receiver.tally.delivered == 2


def seconds(text: str) -> float:
    """Return an instant of a request in seconds after the begin."""
    return datetime.fromisoformat(text).timestamp() - BEGIN_NS / 1e9


@pytest.mark.parametrize("ahead_s", [3_600.0, -3_600.0])
async def test_alertmanager_with_another_clock_is_told_its_own_times(
    other: Other, ahead_s: float
) -> None:
    """Times are by Alertmanager's clock, whichever clock is wrong.

    A firing alert ends in 4 min and a resolved one is over.
    """
    other.ahead_s = ahead_s
    receiver = AlertmanagerReceiver("alertmanager", TARGET, other.clock, transport=other.transport)
    async with running(receiver.run()):
        receiver.notify([notification(1)])
        await other.clock.advance(1)
        assert len(other.bodies) == 2, "the first one has the wrong times"
        told = other.bodies[1][0]
        assert seconds(told["startsAt"]) == pytest.approx(ahead_s, abs=2)
        assert seconds(told["endsAt"]) == pytest.approx(ahead_s + 240, abs=2)
        await other.clock.advance(3)
        receiver.notify([notification(1, resolved_s=4)])
        await other.clock.advance(1)
        assert seconds(other.bodies[2][0]["endsAt"]) == pytest.approx(ahead_s + 4, abs=2)


@pytest.mark.parametrize("step_s", [3_600.0, -3_600.0])
async def test_alertmanager_is_told_no_step_of_our_clock(other: Other, step_s: float) -> None:
    """Setting the wall clock wrong and right again changes no time sent to Alertmanager."""
    other.ahead_s = 0.0
    receiver = AlertmanagerReceiver("alertmanager", TARGET, other.clock, transport=other.transport)
    async with running(receiver.run()):
        receiver.notify([notification(1)])
        await other.clock.advance(1)
        for step in (step_s, -step_s):
            other.clock.step_wall(step)
            await other.clock.advance(REPEATED_EVERY_S)
            told = other.bodies[-1][0]
            assert seconds(told["startsAt"]) == pytest.approx(0, abs=2)
            assert seconds(told["endsAt"]) == pytest.approx(
                other.now_s - BEGIN_NS / 1e9 + 240, abs=3
            )
    # Not once with an end that is over there: Alertmanager would tell that it resolved.
    assert all(0 < seconds(each[0]["endsAt"]) < 400 for each in other.bodies)


async def test_alertmanager_is_told_nothing_again_that_another_watch_has_ended(
    other: Other, receiver: AlertmanagerReceiver
) -> None:
    """While the broker is away only alerts known to Alertmanager are repeated, and no end.

    All firing ones if it has forgotten them, or if this watch leads.
    """
    async with running(receiver.run()):
        receiver.notify([notification(1), notification(2), notification(3, resolved_s=0)])
        await other.clock.advance(1)
        receiver.set_sure(False)
        other.active = [labels_of(notification(2).message)]
        await other.clock.advance(REPEATED_EVERY_S)
        assert starts(other) == [["1", "2", "3"], ["2"]]
        assert other.requests[-2].url.params["filter"] == 'fleet="demo"'
        other.error = httpx.ConnectError("away")
        await other.clock.advance(REPEATED_EVERY_S)
        assert starts(other) == [["1", "2", "3"], ["2"]]
        other.error, other.begun_s = None, other.now_s - BEGIN_NS / 1e9
        await other.clock.advance(REPEATED_EVERY_S)
        assert sorted(starts(other)[-1] + starts(other)[-2])[:2] == ["1", "2"]
        receiver.set_sure(True)
        before = len(other.bodies)
        await other.clock.advance(REPEATED_EVERY_S + 1)
        assert {each for body in starts(other)[before:] for each in body} == {"1", "2", "3"}


async def test_alertmanager_is_told_nothing_at_once_after_a_stop(
    other: Other, receiver: AlertmanagerReceiver
) -> None:
    """A watch stopped for longer than a repeat first checks its alerts."""
    async with running(receiver.run()):
        receiver.notify([notification(1)])
        await other.clock.advance(1)
        other.clock.stop(2 * REPEATED_EVERY_S)
        await other.clock.advance(1)
        assert len(other.bodies) == 1
        receiver.notify([notification(1, resolved_s=2)])
        await other.clock.advance(SETTLES_S)
        assert [len(body) for body in other.bodies] == [1, 1]
        assert seconds(other.bodies[1][0]["endsAt"]) < 10


async def test_links_go_where_receivers_look_for_them(other: Other) -> None:
    """The runbook is the usual annotation, the link back the generatorURL, or neither."""
    links: dict[str, Any] = {
        "runbook_url": "https://wiki.example/hot",
        "generator_url": "https://dash.example/?fleet=demo",
    }
    alertmanager = AlertmanagerReceiver(
        "alertmanager", TARGET, other.clock, transport=other.transport
    )
    webhook = WebhookReceiver("webhook", TARGET, other.clock, transport=other.transport)
    async with running(alertmanager.run()), running(webhook.run()):
        for receiver in (alertmanager, webhook):
            receiver.notify([notification(1, **links), notification(2)])
            await other.clock.advance(0.1)
    for linked, plain in (other.bodies[0], other.bodies[1]["alerts"]):
        assert linked["annotations"]["runbook_url"] == links["runbook_url"]
        assert linked["generatorURL"] == links["generator_url"]
        assert not {"runbook_url", "generatorURL"} & {*plain, *plain["annotations"]}


async def test_alertmanager_hears_of_the_end_for_a_quarter_of_an_hour(
    other: Other, receiver: AlertmanagerReceiver
) -> None:
    """A resolved alert is sent with its end, again every minute, and then no more."""
    async with running(receiver.run()):
        receiver.notify([notification(1)])
        await other.clock.advance(5)
        receiver.notify([notification(1, resolved_s=4)])
        await other.clock.advance(RESOLVED_FOR_S + 120)
        count = len(other.requests)
        assert {each["endsAt"] for body in other.bodies[1:] for each in body} == {
            "2026-01-05T08:00:04.000Z"
        }
        assert 14 <= count - 1 <= 16
        await other.clock.advance(600)
        assert len(other.requests) == count


async def test_alertmanager_that_is_away_gets_everything_later(other: Other) -> None:
    """Failures are repeated with growing pauses; the newest state is sent."""
    other.error = httpx.ConnectError("no")
    receiver = AlertmanagerReceiver("alertmanager", TARGET, other.clock, transport=other.transport)
    told: list[str] = []
    receiver.confirm = lambda each: told.append(each.mark)
    async with running(receiver.run()):
        receiver.notify([notification(1)])
        await other.clock.advance(8)
        assert len(other.requests) == 4  # at 0, 1, 3 and 7 s
        assert told == []
        assert receiver.errors() == (
            1,
            (ReceiverError("alertmanager", "alerts", "", "ConnectError"),),
        )
        receiver.notify([notification(2)])
        other.error = None
        await other.clock.advance(30)
        assert len(told) == 2
        assert receiver.errors() == NO_ERRORS


async def test_alertmanager_refuses_one_and_takes_the_others(other: Other) -> None:
    """A refused alert is found, reported once and not repeated; the others arrive."""
    other.status = lambda body: (
        400 if any(each["annotations"]["summary"] == "number 3" for each in body) else 200
    )
    receiver = AlertmanagerReceiver("alertmanager", TARGET, other.clock, transport=other.transport)
    told: list[str] = []
    receiver.confirm = lambda each: told.append(each.fingerprint)
    async with running(receiver.run()):
        receiver.notify([notification(number) for number in range(1, 6)])
        await other.clock.advance(1)
        assert sorted(told) == [fingerprint(number) for number in (1, 2, 4, 5)]
        assert receiver.tally.refused == 1
        refused = ReceiverError(
            "alertmanager", "alert", fingerprint(3), "HTTP 400 'no\\n\\x1b[31m'"
        )
        assert receiver.errors() == (1, (refused,))
        other.requests.clear()
        await other.clock.advance(3 * REPEATED_EVERY_S)
        assert starts(other)
        assert all("3" not in body for body in starts(other))
        assert receiver.errors().first == (refused,)
        # Its end is refused, too: there is nothing to end, and no more to say.
        receiver.notify([notification(3, resolved_s=2)])
        await other.clock.advance(1)
        assert receiver.errors() == NO_ERRORS
        other.requests.clear()
        await other.clock.advance(3 * REPEATED_EVERY_S)
        assert all("3" not in body for body in starts(other))


async def test_an_alert_that_is_taken_later_is_repeated(other: Other) -> None:
    """A refused alert is sent with its next change, and is then no error."""
    other.status = 400
    receiver = AlertmanagerReceiver("alertmanager", TARGET, other.clock, transport=other.transport)
    async with running(receiver.run()):
        receiver.notify([notification(1)])
        await other.clock.advance(1)
        assert receiver.errors().total == 1
        other.status = 200
        receiver.notify([notification(1, fired_s=5)])
        await other.clock.advance(1)
        assert receiver.errors() == NO_ERRORS
        other.requests.clear()
        await other.clock.advance(REPEATED_EVERY_S + 1)
        assert len(other.requests) == 1


async def test_alertmanager_gets_batches_and_forgets_when_another_speaks(
    other: Other, receiver: AlertmanagerReceiver
) -> None:
    """No request has more than 500 alerts.

    Standby stops all repeats, and delivers once the ends unknown to others.
    """
    async with running(receiver.run()):
        receiver.notify([notification(number) for number in range(1_200)])
        await other.clock.advance(1)
        assert [len(body) for body in other.bodies] == [500, 500, 200]
        receiver.notify([notification(1, resolved_s=2), notification(2, resolved_s=2)])
        receiver.end_leadership({notification(1).fingerprint})
        await other.clock.advance(300)
        assert [each["endsAt"] for body in other.bodies[3:] for each in body] == [
            "2026-01-05T08:00:02.000Z"
        ]


async def test_what_a_former_watch_told_is_repeated(
    other: Other, receiver: AlertmanagerReceiver
) -> None:
    """Firing alerts are repeated with new values, without a new notification.

    Until another watch ends them.
    """
    async with running(receiver.run()):
        receiver.refresh(notification(1))
        await other.clock.advance(1)
        receiver.refresh(notification(1, value=50.0))
        await other.clock.advance(REPEATED_EVERY_S)
        receiver.refresh(notification(1, resolved_s=3))
        await other.clock.advance(2 * REPEATED_EVERY_S)
    assert [body[0]["annotations"]["value"] for body in other.bodies[:2]] == ["40", "50"]
    assert {body[0]["endsAt"] for body in other.bodies[2:]} == {"2026-01-05T08:00:03.000Z"}


async def test_a_webhook_gets_what_alertmanager_would_post(other: Other) -> None:
    """The body has Alertmanager's version 4 form, with the alerts' common entries."""
    receiver = WebhookReceiver(
        "webhook", HttpTarget("http://h/x"), other.clock, transport=other.transport
    )
    async with running(receiver.run()):
        receiver.notify([notification(1), notification(2, resolved_s=3)])
        await other.clock.advance(0)
    (body,) = other.bodies
    assert (body["version"], body["status"], body["receiver"]) == ("4", "firing", "webhook")
    assert body["commonLabels"] == {"alertname": "held-back", "severity": "critical"}
    assert [(each["status"], each["endsAt"]) for each in body["alerts"]] == [
        ("firing", "0001-01-01T00:00:00Z"),
        ("resolved", "2026-01-05T08:00:03.000Z"),
    ]
    assert body["alerts"][0]["fingerprint"] == fingerprint(1)


async def test_a_webhook_keeps_the_order_and_is_tried_again(other: Other) -> None:
    """A failed batch is posted before the next one; a refused one is dropped."""
    other.status = 503
    receiver = WebhookReceiver(
        "webhook", HttpTarget("http://h/x"), other.clock, transport=other.transport
    )
    told: list[str] = []
    receiver.confirm = lambda each: told.append(each.fingerprint)
    async with running(receiver.run()):
        receiver.notify([notification(1)])
        receiver.notify([notification(2)])
        await other.clock.advance(3.5)
        assert [body["alerts"][0]["fingerprint"] for body in other.bodies] == [fingerprint(1)] * 3
        assert receiver.tally.waiting == 2
        other.status = 400
        await other.clock.advance(10)
        assert receiver.tally.refused == 2
        assert receiver.tally.last_error.startswith("HTTP 400")
        assert "\x1b" not in receiver.tally.last_error
        other.status = 429
        receiver.notify([notification(3)])
        await other.clock.advance(0.5)
        other.status = 200
        await other.clock.advance(10)
        assert told == [fingerprint(3)]


async def test_a_webhook_s_queue_is_bounded() -> None:
    """Beyond its room a receiver takes nothing, and says how many it took."""
    receiver = WebhookReceiver("webhook", HttpTarget("http://h/x"), ManualClock())
    many = [notification(number) for number in range(MOST_WAITING - 1)]
    assert receiver.notify(many) == MOST_WAITING - 1
    assert receiver.notify(many[:3]) == 1
    assert receiver.notify(many[:3]) == 0
    assert receiver.tally.waiting == MOST_WAITING


async def test_an_answer_that_takes_for_ever_is_a_failure() -> None:
    """A request is given up after its time limit."""
    clock = ManualClock()

    async def hang(_: httpx.Request) -> httpx.Response:
        await clock.sleep(1e9)
        raise AssertionError("it goes on")

    answers = []

    async def post() -> None:
        async with make_client(HttpTarget("http://h/x"), httpx.MockTransport(hang)) as client:
            answers.append(await request_json(client, "POST", "http://h/x", clock, {}))

    async with running(post()):
        await clock.advance(WHOLE_LIMIT_S)
        assert answers[0].outcome is RequestOutcome.FAILED
        assert answers[0].why == "no answer within 20 s"


class Unread(httpx.AsyncByteStream):
    """A body that must not be read."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in [b"x"]:
            assert not part, "it is read"
            yield part


@pytest.mark.parametrize(
    ("status", "outcome", "why"),
    [
        (200, RequestOutcome.FAILED, "the answer is compressed, which was not asked for"),
        (
            400,
            RequestOutcome.REFUSED,
            "HTTP 400 (the answer is compressed, which was not asked for)",
        ),
        (
            503,
            RequestOutcome.FAILED,
            "HTTP 503 (the answer is compressed, which was not asked for)",
        ),
    ],
)
async def test_a_compressed_answer_is_not_read(
    status: int, outcome: RequestOutcome, why: str
) -> None:
    """A few kB could unpack to gigabytes; compression is not asked for."""
    requests = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        headers = {"Content-Encoding": "zstd, gzip", "Set-Cookie": "a=b"}
        return httpx.Response(status, headers=headers, stream=Unread())

    async with make_client(HttpTarget("http://h/x"), httpx.MockTransport(answer)) as client:
        for _ in range(2):
            got = await request_json(client, "GET", "http://h/x", SystemClock(), is_read=True)
            assert (got.outcome, got.why) == (outcome, why)
    assert [each.headers["Accept-Encoding"] for each in requests] == ["identity"] * 2
    assert "Cookie" not in requests[1].headers


async def test_a_long_answer_and_an_absurd_date_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An answer is read up to its limit, and an absurd clock is ignored."""

    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(
            200,
            headers={"Date": "Fri, 31 Dec 9999 23:59:59 GMT"},
            content=b"[" + b"1," * 500 + b"1]",
        )

    async with make_client(HttpTarget("http://h/x"), httpx.MockTransport(answer)) as client:
        monkeypatch.setattr(http, "MOST_BYTES", 1_000)
        got = await request_json(client, "GET", "http://h/x", SystemClock(), is_read=True)
        assert (got.outcome, got.why) == (
            RequestOutcome.FAILED,
            "the answer is longer than 1,000 bytes",
        )
        monkeypatch.setattr(http, "MOST_BYTES", 2_000)
        got = await request_json(client, "GET", "http://h/x", SystemClock(), is_read=True)
        assert (len(got.content), got.date_ns) == (501, None)


def test_urls_and_their_passwords() -> None:
    """User and password come from the URL or the variable and are never shown.

    Nor is a path that may be a secret.
    """
    target = parse_target("https://ann:s%40crt@[::1]:8443/hook?token=1", "other")
    assert (target.url, target.user, target.password) == (
        "https://[::1]:8443/hook?token=1",
        "ann",
        "s@crt",
    )
    assert str(target) == "https://[::1]:8443"
    assert "s@crt" not in repr(target)
    assert "token" not in repr(target)
    assert parse_target("http://ann@h/", "other") == HttpTarget("http://h/", "ann", "other")
    assert parse_target("http://h/", "other").user is None
    for bad in (
        "h:9093",
        "ftp://h",
        "http://",
        "http://h:0",
        "http://h:x",
        "http://h/\n",
        "http://[h",
    ):
        with pytest.raises(ConfigError, match="not a URL"):
            parse_target(bad)


async def test_a_change_during_a_refused_request_is_sent_and_repeated(
    other: Other, receiver: AlertmanagerReceiver
) -> None:
    """A refusal applies to the former state; the new one counts for itself."""

    def refuse_once(_body: list[dict[str, Any]]) -> int:
        if len(other.requests) > 1:
            return 200
        # It changes while the answer is on its way.
        receiver._kept[fingerprint(1)].notification = notification(1, fired_s=5)
        return 400

    other.status = refuse_once
    async with running(receiver.run()):
        receiver.notify([notification(1)])
        await other.clock.advance(1)
        assert len(other.requests) == 2
        assert receiver.errors() == NO_ERRORS
        await other.clock.advance(REPEATED_EVERY_S + 1)
        assert len(other.requests) == 3


def test_another_clock_that_drifts_is_not_learned_again() -> None:
    """A difference within the seconds of `Date` is not a change.

    An answer makes earlier steps of ours known.
    """
    clock = StoppedClock(BEGIN_NS, 100.0)
    there = OtherClock(clock)
    assert there.learn(BEGIN_NS + 60 * NS_PER_S)
    assert not there.learn(BEGIN_NS + 62 * NS_PER_S)
    assert there.ahead_ns == 60 * NS_PER_S
    assert there.learn(BEGIN_NS + 70 * NS_PER_S)
    clock.step_wall(3_600)
    assert there.has_stepped
    assert there.learn(BEGIN_NS + 3_600 * NS_PER_S)
    assert (there.ahead_ns, there.has_stepped) == (0, False)
    assert not there.learn(None)
