from __future__ import annotations

import asyncio
import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from support.memory_bus import MemoryBus

from trnfleet import logs
from trnfleet.clock import NS_PER_S, ManualClock, format_rfc3339
from trnfleet.errors import ConfigError
from trnfleet.sim.publish.commands import HOW_TO_ALLOW, CommandHandler
from trnfleet.wire.commands.server import (
    LONGEST_EXPIRY_S,
    LONGEST_REASON,
    MAX_COMMAND_BYTES,
    REMEMBERED,
    TOTAL_RATE,
    serve,
)
from trnfleet.wire.limits import Limits
from trnfleet.wire.messages import ReplyMessage, decode_message
from trnfleet.wire.ports import Envelope

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

WALL_NS = 1_767_600_000_000_000_000
NASTY = "[@click=app.quit]\x1b[2J\u202e\n"


@dataclass
class FakeControl:
    """A simulation that records its calls."""

    done: list[tuple[Any, ...]] = field(default_factory=list)
    active: dict[str, Any] = field(default_factory=lambda: {"active": []})
    says: str = "done"

    def inject(
        self, fault: str, target: str, *, lasts_s: float | None, magnitude: float | None, by: str
    ) -> str:
        if fault == "bug":
            raise ZeroDivisionError
        if fault == "hbm_uncorectable":
            raise ConfigError("no fault 'hbm_uncorectable': did you mean 'hbm_uncorrectable'?")
        self.done.append(("inject", fault, target, lasts_s, magnitude, by))
        return self.says

    def jump(self, by_s: float) -> str:
        self.done.append(("jump", by_s))
        return "jumped"

    def rebirth(self) -> str:
        self.done.append(("rebirth",))
        return "announced"

    def reserve(self, action: str, args: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        self.done.append((action, dict(args)))
        return "reserved", {"offerings": []}

    def faults(self) -> dict[str, Any]:
        return self.active


class SimulationRun:
    """Commands of fleet `demo` with a fake simulation behind."""

    def __init__(self, *, allowed: bool = True, **options: Any) -> None:
        self.control = FakeControl()
        self.commands = CommandHandler(
            self.control, "demo", allowed=allowed, simulator="sim-1", **options
        )
        self.number = 0
        self.now_s = 0.0

    def payload(self, **change: Any) -> bytes:
        """Return a good command, changed; a change to None leaves the field out."""
        self.number += 1
        good = {
            "v": 1,
            "id": f"id-{self.number}",
            "client": "ops",
            "action": "inject",
            "target": "uc1/us-0001",
            "args": {"fault": "straggler"},
            "expires": format_rfc3339(WALL_NS + 5 * NS_PER_S),
            "by": "alice",
        }
        return json.dumps(
            {key: value for key, value in (good | change).items() if value is not None}
        ).encode()

    def send(
        self, *, path: str = "fleet", raw: bytes | None = None, retain: bool = False, **change: Any
    ) -> list[Envelope]:
        """Hand a command over, a second after the one before, and return the replies."""
        self.now_s += 1.0
        payload = self.payload(**change) if raw is None else raw
        topic = f"trnfleet/v1/demo/command/{path}"
        return self.commands.handle(
            Envelope(topic, payload, 1, retain, received_s=self.now_s), WALL_NS
        )

    def reply(self, **how: Any) -> ReplyMessage:
        """Send a command and return the answer.

        There must be one.
        """
        (envelope,) = self.send(**how)
        return decode_message(envelope.payload, ReplyMessage)

    def counted(self) -> dict[str, int]:
        """Return the counts that are not zero."""
        return {name: count for name, count in asdict(self.commands.counts).items() if count}


@pytest.fixture
def stage() -> SimulationRun:
    return SimulationRun()


def test_inject_is_carried_out_and_answered(stage: SimulationRun) -> None:
    """A valid command acts once; its answer goes to the sender's own topic.

    The answer has QoS 1 and is not retained.
    """
    args = {"fault": "straggler", "for_s": 300, "magnitude": 0.5}
    (answer,) = stage.send(id="42", path="uc1/us-0001", args=args)
    assert stage.control.done == [("inject", "straggler", "uc1/us-0001", 300.0, 0.5, "alice")]
    assert answer.topic == "trnfleet/v1/demo/reply/ops/42"
    assert (answer.qos, answer.retain) == (1, False)
    assert json.loads(answer.payload) == {
        "v": 1,
        "id": "42",
        "ok": True,
        "reason": "done",
        "result": {"simulator": "sim-1"},
    }
    assert stage.counted() == {"carried_out": 1}


def test_the_other_actions(stage: SimulationRun) -> None:
    """Time jumps, faults are listed, and state is published again."""
    assert stage.reply(action="jump", target=None, args={"by_s": 3600}).reason == "jumped"
    assert stage.reply(action="rebirth", target=None, args=None).reason == "announced"
    listed = stage.reply(action="faults", target=None, args=None)
    assert listed.result == {"active": [], "simulator": "sim-1"}
    assert stage.control.done == [("jump", 3600.0), ("rebirth",)]


def test_without_leave_nothing_is_done() -> None:
    """Commands are off by default, except a rebirth.

    The answer explains how to start the simulator with them.
    """
    stage = SimulationRun(allowed=False)
    for action, args in (
        ("inject", {"fault": "straggler"}),
        ("jump", {"by_s": 60}),
        ("faults", {}),
    ):
        reply = stage.reply(action=action, args=args)
        assert (reply.ok, reply.reason) == (False, HOW_TO_ALLOW)
    assert "--allow-commands" in HOW_TO_ALLOW
    assert stage.control.done == []
    assert stage.reply(action="rebirth", args=None).ok
    assert stage.control.done == [("rebirth",)]


def test_a_retained_command_does_nothing(stage: SimulationRun) -> None:
    """A retained command is counted, and neither carried out nor answered."""
    assert stage.send(retain=True) == []
    assert stage.control.done == []
    assert stage.counted() == {"retained": 1}


@pytest.mark.parametrize("ahead_ns", [1_000_000, 3_600 * NS_PER_S])
def test_a_moment_before_expiry_is_in_time(ahead_ns: int) -> None:
    """The last millisecond counts, and so does a whole hour."""
    assert SimulationRun().reply(expires=format_rfc3339(WALL_NS + ahead_ns)).ok


def test_a_repeated_command_is_carried_out_once(stage: SimulationRun) -> None:
    """A client's repeated id has no second effect or answer; another client's is new."""
    raw = stage.payload()
    assert len(stage.send(raw=raw)) == 1
    assert stage.send(raw=raw) == []
    assert stage.send(raw=stage.payload(id="id-1", args={"fault": "other"})) == []
    assert len(stage.control.done) == 1
    assert stage.counted() == {"carried_out": 1, "repeated": 2}
    assert stage.reply(id="id-1", client="another").ok


def test_ids_are_remembered_for_as_long_as_commands_are_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No command is forgotten within the longest expiry at the full rate.

    Harmless ones displace none, and memory is bounded.
    """
    per_s, burst = TOTAL_RATE
    assert LONGEST_EXPIRY_S * per_s + burst < REMEMBERED
    monkeypatch.setattr("trnfleet.wire.commands.server.REMEMBERED", 10)
    stage = SimulationRun()
    first = stage.payload()
    stage.send(raw=first)
    for number in range(9):
        stage.send(id=f"n{number}")
        stage.send(id=f"r{number}", action="rebirth", target=None, args=None)
    assert stage.send(raw=first) == []
    assert stage.commands.counts.repeated == 1
    stage.send(id="n9")
    assert len(stage.commands.seen) == 10
    assert len(stage.send(raw=first)) == 1


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"action": "injekt"}, "unknown action 'injekt': did you mean 'inject'?"),
        ({"args": {"fault": "straggler", "magnitud": 1}}, "did you mean 'magnitude'?"),
        ({"args": {}}, "needs the argument 'fault'"),
        ({"args": {"fault": 3}}, "needs the argument 'fault'"),
        ({"args": {"fault": "straggler", "for_s": "5m"}}, "for_s must be a number"),
        ({"args": {"fault": "straggler", "for_s": True}}, "for_s must be a number"),
        ({"args": {"fault": "hbm_uncorectable"}}, "did you mean 'hbm_uncorrectable'?"),
        ({"action": "jump", "args": {}}, "needs the argument 'by_s'"),
        ({"action": "jump", "args": {"by_s": 0}}, "needs the argument 'by_s'"),
        ({"action": "jump", "args": {"by_s": 1e9}}, "at most 31622400"),
        ({"action": "jump", "args": {"by_s": -5}}, "args.by_s"),
        ({"target": "uc2/us-0001", "path": "uc1"}, "not below the topic's path 'uc1'"),
        ({"target": "uc1/us-00011", "path": "uc1/us-0001"}, "not below the topic's path"),
        ({"target": None, "path": "uc1"}, "not below the topic's path"),
        ({"action": "rebirth", "args": {"fault": "x"}}, "no argument 'fault'"),
        ({"v": 2}, "CommandMessage v"),
        ({"sudo": True}, "CommandMessage sudo"),
        ({"args": {f"a{number}": 1 for number in range(17)}}, "CommandMessage args"),
        ({"expires": None}, "CommandMessage expires"),
        ({"expires": format_rfc3339(WALL_NS)}, "expired at 2026-01-05T08:00:00.000Z"),
        ({"expires": format_rfc3339(WALL_NS - 1_000_000)}, "expired at"),
        (
            {"expires": format_rfc3339(WALL_NS + 3_600 * NS_PER_S + 1_000_000)},
            "more than 60 min from now",
        ),
        ({"expires": "2026-01-05T00:00:00"}, "not a time with its zone"),
        ({"expires": "soon"}, "not a time with its zone"),
    ],
)
def test_what_is_not_understood_is_refused(
    stage: SimulationRun, change: dict[str, Any], reason: str
) -> None:
    """A request for something unknown is answered with the nearest, and nothing is done.

    A command is valid before its expiry, for an hour at most.
    """
    reply = stage.reply(**change)
    assert not reply.ok
    assert reason in reply.reason
    assert stage.control.done == []
    assert stage.counted() == {"refused": 1}


@pytest.mark.parametrize(
    "change",
    [
        {"id": "../../telemetry/x"},
        {"id": "a/b"},
        {"id": ""},
        {"id": "a\n"},
        {"id": "#"},
        {"id": "x" * 65},
        {"id": None},
        {"id": 7},
        {"client": "../publisher"},
        {"client": "+"},
        {"client": "ops\u0000"},
        {"client": None},
    ],
)
def test_no_answer_leaves_the_reply_prefix(stage: SimulationRun, change: dict[str, Any]) -> None:
    """An id or a client of several segments gets no answer at all.

    So nothing is published outside `reply/`.
    """
    assert stage.send(**change) == []
    assert stage.control.done == []
    assert stage.counted() == {"undecodable": 1}


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff\xfe",
        b"[" * 10_000,
        b"null",
        b'"\\ud800"',
        b'{"id":"a","client":"b","v":' + b"9" * 5_000 + b"}",
        b"{}",
    ],
    ids=range(7),
)
def test_garbage_is_counted(stage: SimulationRun, raw: bytes) -> None:
    """Arbitrary bytes raise nothing and do nothing."""
    replies = stage.send(raw=raw)
    assert stage.control.done == []
    assert sum(stage.counted().values()) == 1
    assert all(reply.topic.startswith("trnfleet/v1/demo/reply/") for reply in replies)


@pytest.mark.parametrize(
    "topic",
    [
        "trnfleet/v1/prod/command/fleet",
        "trnfleet/v1/demo/reply/a/b",
        "other/v1/demo/command/fleet",
        "x",
        "",
    ],
)
def test_other_topics_are_not_commands(stage: SimulationRun, topic: str) -> None:
    """Only the fleet's own command topics count, for any subscription of a source."""
    assert stage.commands.handle(Envelope(topic, stage.payload(), 1), WALL_NS) == []
    assert stage.counted() == {"undecodable": 1}


def test_size_comes_before_parsing(stage: SimulationRun) -> None:
    """A payload over the limit is counted and dropped; one at the limit is read."""
    raw = stage.payload()
    assert stage.send(raw=raw + b" " * (MAX_COMMAND_BYTES - len(raw) + 1)) == []
    assert stage.counted() == {"oversize": 1}
    assert len(stage.send(raw=raw + b" " * (MAX_COMMAND_BYTES - len(raw)))) == 1


def test_a_bug_in_a_command_stops_nothing(stage: SimulationRun) -> None:
    """A command that triggers a bug is answered without details.

    The next command works.
    """
    reply = stage.reply(args={"fault": "bug"})
    assert not reply.ok
    assert "Zero" not in reply.reason
    assert stage.counted() == {"failed": 1}
    assert stage.reply().ok


def test_a_silent_shard_acts_and_does_not_answer() -> None:
    """A shard without answers of its own still carries the command out."""
    stage = SimulationRun(answers=False)
    assert stage.send() == []
    assert len(stage.control.done) == 1


def test_the_root_is_kept() -> None:
    """Under another root, filters and replies have it too."""
    stage = SimulationRun(root="site/a")
    assert stage.commands.filters() == [("site/a/v1/demo/command/#", 1)]
    (answer,) = stage.commands.handle(
        Envelope("site/a/v1/demo/command/uc1", stage.payload(), 1), WALL_NS
    )
    assert answer.topic == "site/a/v1/demo/reply/ops/id-1"


def test_a_long_answer_is_cut() -> None:
    """A reason has a limit; a too large result is left out with a note."""
    stage = SimulationRun(limits=Limits(payload_bytes=1_000))
    stage.control.says = "x" * 5_000
    reply = stage.reply()
    assert len(reply.reason) == LONGEST_REASON
    stage.control.active = {"active": ["y" * 2_000]}
    reply = stage.reply(action="faults", args=None)
    assert reply.ok
    assert reply.result == {"simulator": "sim-1"}
    assert "too long" in reply.reason


def test_nothing_of_a_command_is_raw_in_log_or_answer(tmp_path: Path) -> None:
    """A command's control characters and overrides never reach the log or an answer.

    Nor do line ends.
    """
    file = tmp_path / "log"
    stream = logs.configure(file=file)
    try:
        stage = SimulationRun()
        replies = [
            *stage.send(by=NASTY, target="uc1/us-0001", action=NASTY),
            *stage.send(by=NASTY, target=NASTY),
            *stage.send(args={"fault": NASTY}),
            *stage.send(args={NASTY: 1}),
            *stage.send(raw=stage.payload(**{NASTY: 1})),
            *stage.send(expires=NASTY),
        ]
        stage.send(id=NASTY)
        stage.commands.handle(Envelope("trnfleet/v1/demo/command/" + NASTY, b"{}", 1), WALL_NS)
    finally:
        stream.close()
        logs.configure()
    assert len(replies) == 6
    for reply in replies:
        reason = decode_message(reply.payload, ReplyMessage).reason
        assert reason.isascii()
        assert reason.isprintable()
    written = file.read_text()
    assert written.count("\n") == 8
    assert written.replace("\n", "").isascii()
    assert written.replace("\n", "").isprintable()


def test_a_flood_does_not_fill_the_log(tmp_path: Path) -> None:
    """Of many dropped commands a few are logged."""
    file = tmp_path / "log"
    stream = logs.configure(file=file)
    try:
        stage = SimulationRun()
        for _ in range(2_000):
            stage.send(retain=True)
    finally:
        stream.close()
        logs.configure()
    assert 1 <= file.read_text().count("\n") <= 130


async def test_serve_takes_and_answers(stage: SimulationRun) -> None:
    """Over a bus, commands are carried out and answered; a retained one is not.

    Expiry follows the clock's wall time.
    """
    clock = ManualClock(WALL_NS)
    bus = MemoryBus(clock)
    publisher = bus.publisher("sim-1")
    asker = bus.publisher("ops")
    asker.connect()
    topic = "trnfleet/v1/demo/command/fleet"
    await asker.publish([Envelope(topic, stage.payload(), 1, retain=True)])
    source = bus.source(stage.commands.filters())
    replies = bus.source([("trnfleet/v1/demo/reply/ops/+", 1)])
    for client in (publisher, source, replies):
        client.connect()
    serving = asyncio.create_task(serve(stage.commands, source, publisher, clock))
    await asker.publish([Envelope(topic, stage.payload(), 1)])
    await clock.advance(6)
    await asker.publish([Envelope(topic, stage.payload(), 1)])
    await clock.advance(0)
    answers = [decode_message(envelope.payload, ReplyMessage) for envelope in await replies.take()]
    assert [(answer.id, answer.ok) for answer in answers] == [("id-2", True), ("id-3", False)]
    assert "expired" in answers[1].reason
    assert stage.counted() == {"retained": 1, "carried_out": 1, "refused": 1}
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


@pytest.mark.parametrize("action", ["reserve_offerings", "reserve_extension_offerings"])
def test_looking_at_offerings_needs_no_leave(action: str) -> None:
    """Every simulator answers requests that buy nothing."""
    stage = SimulationRun(allowed=False)
    answer = stage.reply(action=action, target="", args={"days": 7.0})
    assert (answer.ok, answer.reason) == (True, "reserved")
    assert answer.result == {"offerings": [], "simulator": "sim-1"}
    assert stage.control.done == [(action, {"days": 7.0})]


@pytest.mark.parametrize("action", ["reserve_buy", "reserve_extend"])
def test_buying_needs_leave(action: str) -> None:
    """Purchases are refused unless commands are allowed."""
    stage = SimulationRun(allowed=False)
    answer = stage.reply(action=action, target="", args={"offering": "cbo-1"})
    assert (answer.ok, answer.reason) == (False, HOW_TO_ALLOW)
    assert stage.control.done == []
    assert SimulationRun().reply(action=action, target="", args={"offering": "cbo-1"}).ok


def test_a_request_with_an_unknown_argument() -> None:
    """An unknown argument of an action is refused with the nearest known one."""
    answer = SimulationRun().reply(action="reserve_buy", target="", args={"ofering": "cbo-1"})
    assert not answer.ok
    assert "'ofering': did you mean 'offering'?" in answer.reason
