"""Contents of each tab of the Alerts view, without a screen."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from support.tui.past_app import burn, burning

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.alerts.status import AlertStatus
from trnfleet.domain.filters.language import parse
from trnfleet.tui.alerts.query import AlertQuery, columns_of, matched_by_silences
from trnfleet.tui.state.alerts import AlertSnapshot
from trnfleet.wire.alerts import SilenceMessage
from trnfleet.wire.messages import encode_message
from trnfleet.wire.ports import Envelope
from trnfleet.wire.topics import TopicClass, build_topic

if TYPE_CHECKING:
    from trnfleet.monitor.monitor import Monitor


def silence(
    monitor: Monitor,
    name: str,
    *,
    matcher: str,
    why: str = "",
    begins_s: int = 0,
    lasts_s: int = 60,
) -> None:
    begins_ns = monitor.moment().time_ns + begins_s * NS_PER_S
    message = SilenceMessage(
        id=name,
        matchers=(matcher,),
        starts=format_rfc3339(begins_ns),
        until=format_rfc3339(begins_ns + lasts_s * NS_PER_S),
        who="ann",
        why=why,
    )
    topic = build_topic("demo", TopicClass.SILENCE, name)
    monitor.apply([Envelope(topic, encode_message(message), qos=1, retain=True)])


async def test_alerts_with_and_without_those_handling() -> None:
    """Silenced alerts are listed only among all alerts.

    The filter applies to both lists.
    """
    feed = await burning(3)
    await burn(feed, 40)
    snapshot = AlertSnapshot(feed.monitor)
    snapshot.refresh(0.0)
    query = AlertQuery(snapshot)
    first = next(each for each in snapshot.active if each.alert.place.endswith("chip03"))
    silence(feed.monitor, "s1", matcher=f'chip="{first.alert.place}"')
    snapshot.refresh(1.0)
    assert len(query.alerts(only_unhandled=True)) == 1
    assert len(query.alerts(only_unhandled=False)) == 2
    assert matched_by_silences(snapshot) == {"s1": [first.alert]}
    query.filter(parse("silenced", columns_of(())))
    assert [each.alert for each in query.alerts(only_unhandled=False)] == [first.alert]
    assert not query.alerts(only_unhandled=True)
    query.filter(parse("!silenced", columns_of(())))
    assert len(query.alerts(only_unhandled=False)) == 1


async def test_a_silence_matches_what_another_alert_hides() -> None:
    """List and details of a silence count the same alerts.

    Inhibited and pending ones count; after the silence nothing does.
    """
    feed = await burning(3)
    await burn(feed, 40)
    snapshot = AlertSnapshot(feed.monitor)
    snapshot.refresh(0.0)
    first = snapshot.active[0].alert
    first.inhibited_by = "another"
    silence(feed.monitor, "s1", matcher=f'alertname="{first.name}"')
    silence(feed.monitor, "over", matcher=f'alertname="{first.name}"', begins_s=-90)
    snapshot.refresh(1.0)
    assert {each.status for each in snapshot.active} == {
        AlertStatus.INHIBITED,
        AlertStatus.SILENCED,
    }
    assert {name: len(each) for name, each in matched_by_silences(snapshot).items()} == {"s1": 2}


async def test_silences_in_order() -> None:
    """Silences with hidden alerts come first, by end; future ones come last.

    Reasons and people are searched.
    """
    feed = await burning(3)
    for name, begins_s, lasts_s, why in (
        ("a", 600, 60, "later"),
        ("b", 0, 900, "Night"),
        ("c", 0, 60, "fans"),
    ):
        silence(
            feed.monitor,
            name,
            matcher='severity="info"',
            why=why,
            begins_s=begins_s,
            lasts_s=lasts_s,
        )
    snapshot = AlertSnapshot(feed.monitor)
    snapshot.refresh(0.0)
    query = AlertQuery(snapshot)
    for pattern, left in (
        ("", "cba"),
        ("night", "b"),
        ("!night", "ca"),
        ("ann", "cba"),
        ("nobody", ""),
    ):
        query.filter(parse(pattern, columns_of(())))
        assert "".join(each.id for each in query.silences()) == left, pattern


async def test_the_history_is_followed() -> None:
    """New entries come on top, filtered.

    Another filter or monitor is read from the beginning.
    """
    feed = await burning(3)
    snapshot = AlertSnapshot(feed.monitor)
    query = AlertQuery(snapshot)
    (before,) = query.history()
    await burn(feed, 40)
    after = query.history()
    assert after[1] is before
    assert [each.number for each in after] == [2, 1]
    query.filter(parse("chip03", columns_of(())))
    assert [each.number for each in query.history()] == [1]
    query.filter(parse("", columns_of(())))
    query.renew()
    assert query.history() == after


async def test_the_history_lets_go() -> None:
    """Evicted entries are no longer listed."""
    transition = (await burning(3)).monitor.alerts.history[0]
    alerts = SimpleNamespace(history=deque([transition] * 3, maxlen=3), happened=3)
    snapshot: Any = SimpleNamespace(alerts=alerts)
    query = AlertQuery(snapshot)
    assert [each.number for each in query.history()] == [3, 2, 1]
    alerts.history.append(transition)
    alerts.happened += 1
    assert [each.number for each in query.history()] == [4, 3, 2]
