from __future__ import annotations

from typing import Any

import msgspec
import pytest
from support.monitor.rules import alert_of

from trnfleet.clock import NS_PER_S, format_rfc3339, parse_rfc3339
from trnfleet.domain.alerts.silences import Span
from trnfleet.domain.alerts.status import AlertState, AlertStatus
from trnfleet.errors import WireError
from trnfleet.monitor.alerting.silences import Silences
from trnfleet.wire.alerts import AckMessage, SilenceMessage

T0 = 1_767_571_200 * NS_PER_S
CHIP = "uc1/us-0001/trn2u-0001-0/chip00"


def at(seconds: float) -> int:
    return T0 + round(seconds * NS_PER_S)


def ack(begins: float = 0, ends: float = 100, *, owner: str = "ada") -> AckMessage:
    alert = alert_of("hot", CHIP)
    return AckMessage(
        fingerprint=alert.fingerprint,
        owner=owner,
        at=format_rfc3339(at(begins)),
        until=format_rfc3339(at(ends)),
    )


def silence(
    *matchers: str, begins: float = 0, ends: float = 100, key: str = "s-1"
) -> SilenceMessage:
    return SilenceMessage(
        id=key,
        matchers=matchers or ("alertname=hot",),
        starts=format_rfc3339(at(begins)),
        until=format_rfc3339(at(ends)),
        who="ada",
    )


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        (9.999, "FIRING"),
        (10, "SILENCED"),
        (99.999, "SILENCED"),
        (100, "FIRING"),
        (100.001, "FIRING"),
    ],
)
def test_a_silence_is_for_its_time(second: float, expected: str) -> None:
    """A silence covers `[starts, until)`: at its end an alert is notified again."""
    silences = Silences()
    silences.put_silence(silence(begins=10))

    assert silences.status(alert_of("hot", CHIP), at(second)) is AlertStatus[expected]


@pytest.mark.parametrize(
    ("second", "expected"), [(0, "ACKED"), (99.999, "ACKED"), (100, "FIRING"), (-5, "ACKED")]
)
def test_an_acknowledgement_is_until_its_end(second: float, expected: str) -> None:
    """It ends at its end; one from a clock ahead of ours counts at once."""
    silences = Silences()
    silences.put_ack(ack())

    assert silences.status(alert_of("hot", CHIP), at(second)) is AlertStatus[expected]


def test_an_acknowledgement_ends_when_the_alert_resolves() -> None:
    """A refired alert is not acknowledged until a new acknowledgement arrives."""
    silences = Silences()
    alert = alert_of("hot", CHIP)
    silences.put_ack(ack())
    silences.resolve(alert, at(20))
    assert silences.status(alert, at(30)) is AlertStatus.FIRING
    assert silences.has_ack(alert.fingerprint)

    silences.put_ack(ack(30))
    assert silences.status(alert, at(40)) is AlertStatus.ACKED
    silences.remove_ack(alert.fingerprint)
    assert silences.status(alert, at(40)) is AlertStatus.FIRING


def test_an_acknowledgement_after_the_alert_resolved_is_for_the_next() -> None:
    """An acknowledgement later than the resolution stays in force."""
    silences = Silences()
    alert = alert_of("hot", CHIP)
    silences.put_ack(ack(30))

    silences.resolve(alert, at(20))

    assert silences.status(alert, at(40)) is AlertStatus.ACKED


def test_what_matters_most_is_the_status() -> None:
    """Inhibited wins over silenced, silenced over acknowledged, acknowledged over firing.

    Pending and resolved always win.
    """
    silences = Silences()
    alert = alert_of("hot", CHIP)
    steps: list[tuple[Any, AlertStatus]] = [
        (lambda: None, AlertStatus.FIRING),
        (lambda: silences.put_ack(ack()), AlertStatus.ACKED),
        (lambda: silences.put_silence(silence()), AlertStatus.SILENCED),
        (lambda: setattr(alert, "inhibited_by", "f" * 16), AlertStatus.INHIBITED),
        (lambda: setattr(alert, "state", AlertState.PENDING), AlertStatus.PENDING),
        (lambda: setattr(alert, "state", AlertState.RESOLVED), AlertStatus.RESOLVED),
    ]
    for change, expected in steps:
        change()
        assert silences.status(alert, at(5)) is expected


def test_several_silences_of_one_alert() -> None:
    """All silences hiding an alert are returned, others are not."""
    silences = Silences()
    for number, matcher in enumerate(
        ["alertname=hot", "cluster=uc1", "cluster=uc2", 'chip=~".*chip00"']
    ):
        silences.put_silence(silence(matcher, key=f"s-{number}"))

    hiding = silences.silences_of(alert_of("hot", CHIP), at(5))

    assert [each.id for each in hiding] == ["s-0", "s-1", "s-3"]


def test_the_revision_goes_up_with_what_is_new() -> None:
    """A repeated message changes nothing; each new or removed one increases the revision."""
    silences = Silences()
    counts = []
    steps: list[Any] = [
        lambda: silences.put_ack(ack()),
        lambda: silences.put_ack(ack()),
        lambda: silences.put_ack(ack(owner="bob")),
        lambda: silences.put_silence(silence()),
        lambda: silences.put_silence(silence()),
        lambda: silences.remove_silence("s-2"),
        lambda: silences.remove_silence("s-1"),
        lambda: silences.remove_ack("0" * 16),
    ]
    for step in steps:
        step()
        counts.append(silences.revision)

    assert counts == [1, 1, 2, 3, 3, 3, 4, 4]
    assert silences.count() == (1, 0)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (ack(10, 10), "AckMessage: it ends before it begins"),
        (silence(begins=10, ends=5), "SilenceMessage: it ends before it begins"),
        (silence("alertname"), "SilenceMessage matcher 'alertname'"),
        (silence("job="), "SilenceMessage these matchers also match"),
        (silence('job=~"(a+"'), "missing ): (a+"),
    ],
)
def test_what_makes_no_sense_is_refused(message: AckMessage | SilenceMessage, said: str) -> None:
    """An invalid message is refused in one line without any change."""
    silences = Silences()

    put: Any = silences.put_ack if isinstance(message, AckMessage) else silences.put_silence
    with pytest.raises(WireError, match=r"AckMessage|SilenceMessage") as caught:
        put(message)

    assert said in str(caught.value)
    assert silences.count() == (0, 0)


def tombstone(message: Any, revision: int = 1) -> Any:
    """Return the withdrawal of an acknowledgement or a silence, as an operator writes it."""
    begins = "at" if isinstance(message, AckMessage) else "starts"
    end_ns = parse_rfc3339(getattr(message, begins)) + 1_000_000
    return msgspec.structs.replace(
        message, revision=revision, until=format_rfc3339(end_ns), withdrawn_until=message.until
    )


def put(silences: Silences, message: AckMessage | SilenceMessage) -> None:
    if isinstance(message, AckMessage):
        silences.put_ack(message)
    else:
        silences.put_silence(message)


@pytest.mark.parametrize("message", [ack(), silence()])
def test_what_was_withdrawn_is_not_restored(message: AckMessage | SilenceMessage) -> None:
    """After a withdrawal only a message with a higher revision counts."""
    silences = Silences()
    alert = alert_of("hot", CHIP)
    put(silences, message)
    put(silences, tombstone(message))
    assert silences.count() == (0, 0)
    assert silences.status(alert, at(10)) is AlertStatus.FIRING
    for old in (message, msgspec.structs.replace(message, revision=1)):
        put(silences, old)
        assert silences.count() == (0, 0)
    put(silences, msgspec.structs.replace(message, revision=2))
    assert sum(silences.count()) == 1
    assert silences.status(alert, at(10)) is not AlertStatus.FIRING


@pytest.mark.parametrize("message", [ack(), silence()])
def test_a_withdrawal_alone_is_no_silence(message: AckMessage | SilenceMessage) -> None:
    """A late reader of a tombstone lists nothing and ignores older messages."""
    silences = Silences()
    put(silences, tombstone(message))
    put(silences, message)
    assert silences.count() == (0, 0)
    assert [*silences.acks, *silences.known] == []
    if isinstance(message, AckMessage):
        silences.remove_ack(message.fingerprint)
    else:
        silences.remove_silence(message.id)
    put(silences, message)
    assert sum(silences.count()) == 1


def test_a_tombstone_is_over_for_readers_that_do_not_know_it() -> None:
    """Without the new fields a tombstone is an expired acknowledgement or silence."""
    silences = Silences()
    alert = alert_of("hot", CHIP)
    unknown = {"revision": 0, "withdrawn_until": None}
    put(silences, msgspec.structs.replace(tombstone(ack()), **unknown))
    put(silences, msgspec.structs.replace(tombstone(silence()), **unknown))
    assert silences.status(alert, at(1)) is AlertStatus.FIRING
    assert [each.span(at(1)) for each in silences.known] == [Span.OVER]


def test_a_writer_without_revisions_may_acknowledge_again() -> None:
    """Revision 0 with a later start is not taken for an old copy."""
    silences = Silences()
    alert = alert_of("hot", CHIP)
    put(silences, ack())
    put(silences, tombstone(ack()))
    assert silences.next_ack_revision(alert.fingerprint) == 2
    put(silences, ack(5))
    assert silences.status(alert, at(10)) is AlertStatus.ACKED


def test_withdrawals_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit, withdrawals with the earliest end are forgotten."""
    monkeypatch.setattr("trnfleet.monitor.alerting.silences.MOST_WITHDRAWN", 10)
    silences = Silences()
    for number in range(11):
        put(silences, tombstone(silence(ends=100 + number, key=f"s-{number}")))
    put(silences, silence(ends=110, key="s-10"))
    assert silences.count() == (0, 0)
    put(silences, silence(key="s-0"))
    assert silences.count() == (0, 1)
