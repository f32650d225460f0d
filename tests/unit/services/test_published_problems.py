"""Published alerts make the same problems as the evaluation itself."""

from __future__ import annotations

from support.monitor.alert_run import AlertRun

from trnfleet.domain.alerts.status import AlertState
from trnfleet.monitor.alerting.store import AlertWithStatus
from trnfleet.monitor.problems import texts
from trnfleet.monitor.problems.state import problems_of
from trnfleet.monitor.problems.texts import problem_facts
from trnfleet.services.alerts_client import active_of
from trnfleet.services.watch.service import describe
from trnfleet.tui.state.alerts import AlertSnapshot


async def test_published_alerts_make_the_same_problems() -> None:
    """The app's badge and list, `status --json` and `alerts --json` have the same problems."""
    run = AlertRun("neuronlink-split", period_s=4.0)
    await run.play(176)
    monitor = run.monitor
    alerts, now_ns = monitor.alerts, monitor.alerts.instant.now_ns
    snapshot = AlertSnapshot(monitor)
    snapshot.refresh(1.0)
    messages = [
        describe(each, "watch-1") for each in alerts.active() if each.state is AlertState.FIRING
    ]
    published = problems_of(
        monitor, active_of(messages, alerts.silences, now_ns), rules=alerts.rules, now_ns=now_ns
    )
    own = snapshot.problems

    def named(problems: object) -> list[tuple[str, str, str, str]]:
        return [
            (each.key, texts.place_text(each.place), each.text, texts.impact_text(each, now_ns))
            for each in problems.all  # type: ignore[attr-defined]
        ]

    assert named(published) == named(own)
    assert len(own.all) >= 3
    assert published.counts().firing == snapshot.problem_counts.firing
    assert [problem_facts(each, now_ns) for each in published.all] == [
        problem_facts(each, now_ns) for each in own.all
    ]
    assert all(snapshot.problems.find(each.fingerprint) for each in messages)
    assert isinstance(snapshot.active[0], AlertWithStatus)
