from __future__ import annotations

from support.tui.alerts import NOW_NS, Board, held, rule, storm

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.alerts.matchers import parse_matchers
from trnfleet.domain.alerts.reach import Known, preview
from trnfleet.domain.alerts.status import AlertStatus
from trnfleet.tui.format import alerts as texts
from trnfleet.tui.widgets.cells import text_of, width_of
from trnfleet.wire.alerts import AckMessage, SilenceMessage


def test_the_status_of_an_alert() -> None:
    """The status shows owner and duration, inhibitor, pending time, and oddities."""
    alerts = Board().alerts
    hour_ns = 3_600 * NS_PER_S
    mine = held(status=AlertStatus.ACKED)
    until = format_rfc3339(NOW_NS + 2 * hour_ns)
    ack = AckMessage(
        fingerprint=mine.alert.fingerprint, owner="ann\x1b", at=format_rfc3339(NOW_NS), until=until
    )
    alerts.silences.put_ack(ack)
    assert texts.status_text(mine, alerts, NOW_NS) == "acked ann\\u001b, 2h00 left"
    begins = format_rfc3339(NOW_NS)
    ends = format_rfc3339(NOW_NS + hour_ns)
    alerts.silences.put_silence(
        SilenceMessage(
            id="s", matchers=("alertname=hot",), starts=begins, until=ends, who="bob", why="why"
        )
    )
    assert (
        texts.status_text(held(status=AlertStatus.SILENCED), alerts, NOW_NS)
        == "silenced bob, 1h00 left"
    )
    pending = held(of=rule(**{"for": "30s"}), status=AlertStatus.PENDING, age_s=12)
    assert texts.status_text(pending, alerts, NOW_NS) == "pending 12s of 30s"
    assert texts.status_text(held(is_flapping=True, times=5), alerts, NOW_NS) == "flaps 5x"
    assert texts.status_text(held(is_silent=True), alerts, NOW_NS) == "last known"
    assert texts.status_text(held(status=AlertStatus.INHIBITED), alerts, NOW_NS) == "inhibited"
    assert texts.status_text(held(), alerts, NOW_NS) == ""


def test_extents_and_addresses() -> None:
    """Several chips are counted.

    Links and cores have their own names; an alert without a place is the fleet's.
    """
    assert texts.amount_text(held(chips=64).alert) == "64 chips"
    assert texts.amount_text(held().alert) == ""
    link = rule("slow", scope="link", figure="link_up", above=None, below=1.0)
    assert texts.amount_text(held(of=link, members=3, chips=2).alert) == "3 links"
    assert texts.where_text(held("", place="").alert) == "fleet"
    assert texts.where_text(held().alert, 20) == "trn2u-0001-0/chip05"
    assert texts.where_text(held().alert, 15) == "…-0001-0/chip05"


def test_the_preview_of_a_silence() -> None:
    """The preview counts firing, critical and pending alerts, and names the first."""
    alerts = [each.alert for each in storm(5)]
    pending = held("uc1/us-0009", of=rule("soon"), status=AlertStatus.PENDING).alert
    told = texts.preview_text(
        preview(parse_matchers(['cluster="uc1"']), Known("demo", (), alerts=[*alerts, pending]))
    )
    assert told.startswith(
        "matches 5 firing alerts (5 critical), 1 pending: hot trn2u-0001-0/chip00, hot "
    )
    assert told.endswith(", …")
    nothing = preview(parse_matchers(["cluster=uc9"]), Known("demo", ()))
    assert texts.preview_text(nothing) == "matches no alert now"
    more = nothing._replace(other_chips=32)
    assert texts.preview_text(more) == "matches no alert now, also 32 chips without an alert"
    assert texts.preview_text(more._replace(doubts=("no rule", "no rack"))) == "no rule; no rack"


def test_a_line_of_alerts() -> None:
    """The line lists titles, worst first, and counts the rest."""
    given = [held(of=rule("warm", "warning")), held(of=rule("hot")), held(of=rule("odd", "info"))]
    assert (
        text_of(texts.alerts_line(given, NOW_NS, 80))
        == "✖ hot 95.0 °C (1m)  ▲ warm 95.0 °C (1m)  • odd 95.0 °C (1m)  "
    )
    assert text_of(texts.alerts_line(given, NOW_NS, 30)) == "✖ hot 95.0 °C (1m)  +2 more"
    for room in range(40):
        assert width_of(texts.alerts_line(given, NOW_NS, room)) <= room + 2
    assert texts.tally_text(given) == "✖ 1 ▲ 1 • 1"
    placed = text_of(texts.alerts_line(given[:1], NOW_NS, 80, with_place=True))
    assert placed == "▲ warm 95.0 °C at trn2u-0001-0/chip05 (1m)  "
