"""`trnfleet alerts` with and without a watch."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from trnfleet.cli.commands import alerts
from trnfleet.cli.commands.alerts import Publishers, Seen, find_publishers
from trnfleet.cli.commands.silence import list_all
from trnfleet.clock import NS_PER_S, ManualClock, format_rfc3339
from trnfleet.domain.alerts.alert import fingerprint_of
from trnfleet.domain.severity import Severity
from trnfleet.monitor.alerting.silences import Silences
from trnfleet.wire.alerts import AlertMessage
from trnfleet.wire.messages import PublisherMessage, WatchMessage, encode_message
from trnfleet.wire.ports import Envelope, LinkStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

BEGIN_NS = 1_700_000_000 * NS_PER_S
BROKER = ["--broker", "mqtt://127.0.0.1:1", "--name", "demo"]


class Script:
    """A source whose messages are planned by the second; where none is, time passes until nothing comes any more."""

    def __init__(self, clock: ManualClock, plan: dict[float, list[Envelope]]) -> None:
        self.status = LinkStatus(connected=True)
        self._clock = clock
        self._plan = plan
        self._begun_s = clock.monotonic_s()

    async def take(self) -> list[Envelope]:
        """Return what is due."""
        now_s = self._clock.monotonic_s() - self._begun_s
        due = [at_s for at_s in self._plan if at_s <= now_s]
        if due:
            return self._plan.pop(due[0])
        await self._clock.advance(0.5)
        raise TimeoutError


def presence(
    client: str = "w",
    state: str = "online",
    *,
    ts_s: float | None = None,
    since_s: float = -600,
    retain: bool = True,
) -> Envelope:
    """Return what a watch says of itself; times in seconds from the beginning."""
    message = WatchMessage.model_validate(
        {
            "client": client,
            "state": state,
            "boot": "b",
            "role": "watch",
            "since": format_rfc3339(BEGIN_NS + round(since_s * NS_PER_S)),
            "ts": None if ts_s is None else format_rfc3339(BEGIN_NS + round(ts_s * NS_PER_S)),
        }
    )
    return Envelope(f"trnfleet/v1/demo/publisher/{client}", encode_message(message), 1, retain)


SIMULATOR = Envelope(
    "trnfleet/v1/demo/publisher/sim",
    encode_message(PublisherMessage(client="sim", state="online", boot="b")),
    1,
    retain=True,
)


async def found(*at_once: Envelope, **later: Sequence[Envelope]) -> tuple[Publishers, float]:
    """Return what is found, and after how long."""
    clock = ManualClock(BEGIN_NS, 100.0)
    plan = {0.0: list(at_once), **{float(at_s.removeprefix("s")): list(each) for at_s, each in later.items()}}
    publishers = await find_publishers(Script(clock, plan), "trnfleet", clock)
    return publishers, clock.monotonic_s() - 100.0


async def test_a_watch_with_a_fresh_heartbeat_is_there_at_once() -> None:
    """What it has left retained tells by its time that it is there; nothing more is waited for."""
    assert await found(presence(ts_s=-9), SIMULATOR) == (Publishers(("w",), (), True, 600.5), 0.5)


async def test_an_old_heartbeat_is_doubted_until_the_next_is_overdue() -> None:
    """A message that a dead watch has left does not count; it is listed as gone after a heartbeat's time."""
    publishers, after_s = await found(presence(ts_s=-60), SIMULATOR)
    assert publishers[:3] == ((), ("w",), True)
    assert after_s == pytest.approx(12, abs=0.6)


@pytest.mark.parametrize("ts_s", [None, -3_600.0, 3_600.0])
async def test_a_heartbeat_that_comes_settles_it(ts_s: float | None) -> None:
    """A watch without times, or with a clock that is wrong, is there as soon as it says so itself."""
    beat = presence(ts_s=ts_s, retain=False)
    publishers, after_s = await found(presence(ts_s=ts_s), s4=[beat])
    assert publishers[:2] == (("w",), ())
    assert after_s < 6


async def test_one_live_watch_is_enough() -> None:
    """Where one is there for sure, the doubtful ones are not waited for."""
    publishers, after_s = await found(presence("old", ts_s=-60), presence("new", ts_s=-1, since_s=-2))
    assert publishers[:2] == (("new",), ("old",))
    assert publishers.watched_s == pytest.approx(2.5)
    assert after_s == 0.5


async def test_a_last_will_and_nothing_are_no_watch() -> None:
    """Who is offline is gone at once; where there is no watch at all nothing is waited for."""
    assert await found(presence(state="offline")) == (Publishers((), ("w",), False, float("inf")), 0.5)
    assert await found(SIMULATOR) == (Publishers((), (), True, float("inf")), 0.5)


def alert(severity: str) -> AlertMessage:
    fired = format_rfc3339(BEGIN_NS - 90 * NS_PER_S)
    return AlertMessage.model_validate(
        {
            "fingerprint": fingerprint_of("demo", "hot", "a"),
            "rule": "hot",
            "severity": Severity(severity),
            "state": "firing",
            "target": "a",
            "summary": "a is hot",
            "since": fired,
            "fired": fired,
            "watch": "w",
        }
    )


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a command against what is said to be seen."""

    def ask(
        *arguments: str, command: Any = alerts.command, told: tuple[AlertMessage, ...] = (), **seen: Any
    ) -> tuple[int, str, str]:
        async def look(_: object) -> Seen:
            known = {each.fingerprint: each for each in told}
            return Seen("demo", known, Silences(), BEGIN_NS, **{"watches": (), **seen})

        monkeypatch.setattr("trnfleet.cli.commands.alerts.look", look)
        monkeypatch.setattr("trnfleet.cli.commands.silence.look", look)
        result = CliRunner().invoke(command, [*arguments, *BROKER])
        return result.exit_code, result.stdout, result.stderr

    return ask


def test_without_a_watch_it_does_not_say_that_nothing_fires(asked: Any) -> None:
    """Nobody knows what fires: one line says so and what to do, with status 1."""
    status, out, _ = asked()
    assert (status, out) == (1, "no watch publishes alerts of fleet demo; start `trnfleet watch`\n")
    status, out, _ = asked(gone=("w",))
    assert (status, out) == (
        1,
        "no watch publishes alerts of fleet demo (w has gone); start `trnfleet watch`\n",
    )


@pytest.mark.parametrize("severity", ["critical", "warning"])
def test_what_a_dead_watch_left_is_last_known(asked: Any, severity: str) -> None:
    """Alerts of a watch that is gone are listed as last known, with their age and status 1."""
    status, out, _ = asked(told=(alert(severity),), gone=("w",))
    first, heading, row = out.splitlines()
    assert status == 1
    assert first.endswith("(w has gone); start `trnfleet watch`; as last known:")
    assert heading.split() == ["ALERT", "SEVERITY", "STATE", "AGE", "WHAT"]
    assert "firing (last known)  1 min 30 s" in row or "firing (last known)  90 s" in row


def test_json_says_whether_it_is_watched(asked: Any) -> None:
    """Scripts find in a field of its own whether what is listed holds now, and stderr says it in words."""
    status, out, told = asked("--json", told=(alert("critical"),), gone=("w",))
    facts = json.loads(out)
    assert (status, facts["watched"], facts["watches"], facts["gone"]) == (1, False, [], ["w"])
    assert [(each["last_known"], each["age_s"]) for each in facts["alerts"]] == [(True, 90.0)]
    assert told.startswith("no watch publishes alerts of fleet demo (w has gone)")
    status, out, told = asked("--json", told=(alert("critical"),), watches=("w",))
    facts = json.loads(out)
    assert (status, facts["watched"], facts["alerts"][0]["last_known"], told) == (3, True, False, "")


def test_with_a_watch_nothing_fires_or_something_does(asked: Any) -> None:
    """The status is 0 where nothing critical fires and 3 where something does."""
    assert asked(watches=("w",)) == (0, "nothing fires\n", "")
    assert asked(watches=("w",), told=(alert("warning"),))[0] == 0
    assert asked(watches=("w",), told=(alert("critical"),))[0] == 3


def test_silences_are_listed_with_a_word_about_what_they_hide(asked: Any) -> None:
    """Silences need no watch; that what they hide is only last known is told on stderr."""
    status, out, told = asked(command=list_all)
    assert (status, out) == (0, "nothing is silenced\n")
    assert told == "no watch publishes alerts of fleet demo; start `trnfleet watch`\n"
