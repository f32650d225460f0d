"""Silences and acknowledgements refused by an Alertmanager."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
from support.monitor.alert_messages import BEGIN_NS
from support.monitor.silence_bench import FINGERPRINT, Bench
from support.processes.waiting import running

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.alerts.watches import NO_ERRORS, ReceiverError
from trnfleet.monitor.alerting.operator import withdrawn_silence
from trnfleet.services.watch import silence_exchange
from trnfleet.services.watch.silence_exchange import POLLED_EVERY_S
from trnfleet.wire.alerts import AckMessage

if TYPE_CHECKING:
    import pytest


def ack(**change: Any) -> AckMessage:
    """Return an acknowledgement of the alert that fires."""
    known: dict[str, Any] = {
        "fingerprint": FINGERPRINT,
        "owner": "ann",
        "at": format_rfc3339(BEGIN_NS),
        "until": format_rfc3339(BEGIN_NS + 3_600 * NS_PER_S),
    }
    return AckMessage(**known | change)


async def test_what_alertmanager_refuses_is_named_once_with_its_reason() -> None:
    """Each refused silence or acknowledgement has one line, not repeated for the same.

    None is left once it is accepted.
    """
    bench = Bench()
    said: list[str] = []
    bench.exchange._report = said.append
    bench.there.refused = 400
    bench.silence()
    async with running(bench.exchange.run()):
        await bench.clock.advance(2 * POLLED_EVERY_S + 1)
        assert bench.there.requests.count("POST") == 3
        assert said == ["alertmanager refuses silence s-1, 1 in all: HTTP 400 'no'"]
        error = ReceiverError("alertmanager", "silence", "s-1", "HTTP 400 'no'")
        assert bench.exchange.errors() == (1, (error,))
        bench.there.refused = 0
        await bench.clock.advance(POLLED_EVERY_S)
    assert bench.exchange.errors() == NO_ERRORS


async def test_what_alertmanager_does_not_end_is_an_error() -> None:
    """A refused end or acknowledgement is an error, and so are unreadable silences.

    The reasons go when it works again.
    """
    bench = Bench()
    bench.silence()
    bench.silences.put_ack(ack(revision=1))
    async with running(bench.exchange.run()):
        await bench.clock.advance(2)
        first, second = bench.there.alive()
        bench.there.refused = 403
        bench.silences.put_silence(withdrawn_silence(bench.silences.silence("s-1"), "ann"))
        bench.silences.put_ack(ack(revision=2, owner="bob"))
        await bench.clock.advance(POLLED_EVERY_S)
        refusal = "HTTP 403 'no'"
        assert bench.exchange.errors() == (
            2,
            (
                ReceiverError("alertmanager", "end of silence", first, refusal),
                ReceiverError("alertmanager", "acknowledgement", FINGERPRINT, refusal),
            ),
        )
        bench.there.answer = httpx.ConnectError("no")
        await bench.clock.advance(POLLED_EVERY_S)
        assert bench.exchange.errors().first[0] == ("alertmanager", "silences", "", "ConnectError")
        assert bench.exchange.errors().total == 3
        bench.there.answer = None
        bench.there.refused = 503
        await bench.clock.advance(POLLED_EVERY_S)
        assert bench.exchange.errors().first[0] == ("alertmanager", "silences", "", "HTTP 503 'no'")
        bench.there.refused = 0
        await bench.clock.advance(POLLED_EVERY_S)
    assert bench.exchange.errors() == NO_ERRORS
    assert list(bench.there.alive()) == [second]


async def test_an_answer_that_finds_a_bug_ends_nothing() -> None:
    """It is named and asked again; entries of another form are counted."""
    bench = Bench()
    async with running(bench.exchange.run()):
        bench.there.answer = ZeroDivisionError()
        await bench.clock.advance(2)
        reason = "internal error: ZeroDivisionError"
        assert bench.exchange.errors().first == (
            ReceiverError("alertmanager", "silences", "", reason),
        )
        bench.there.answer = b'[{"matchers": ["x"], "id": "1"}, "x", 1]'
        await bench.clock.advance(POLLED_EVERY_S)
        assert (
            bench.exchange._last_errors["alertmanager", "alertmanager_silences_left_out"][:9]
            == "3 entries"
        )
        assert bench.exchange.errors() == NO_ERRORS


async def test_many_that_are_refused_keep_none_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """With more than one batch, last time's refused ones come after the others."""
    monkeypatch.setattr(silence_exchange, "MOST_WRITES", 2)
    bench = Bench()
    bench.there.refused = 400
    for number in range(2):
        bench.silence(id=f"s-{number}")
    async with running(bench.exchange.run()):
        await bench.clock.advance(2)
        assert bench.exchange.errors().total == 2
        bench.there.refused = 0
        bench.silence(id="s-2")
        bench.silence(id="s-3")
        await bench.clock.advance(2)
        assert sorted(each["comment"].split()[-2] for each in bench.there.alive().values()) == [
            "s-2",
            "s-3",
        ]
