"""The shipped access lists on real brokers: every command as every user.

Checks the table of docs/brokers.md.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import pytest
from flow.reservations.test_bridge import Account
from support.documents import read
from support.exporter import answer, exporter_page, serve
from support.processes.forked import Ended, ForkedCommands
from support.processes.mosquitto import retain
from support.processes.programs import Program, run
from support.record.fixtures import RECORDINGS

from lab.brokers.listed import LISTS, ListedMosquitto, ListedNats
from lab.brokers.process import HOST, PASSWORD, BrokerProcess
from trnfleet.errors import BrokerError
from trnfleet.services.bridge import BridgeRequest, Ec2Bridge
from trnfleet.services.scrape.scraper import Scraper, ScrapeRequest
from trnfleet.services.scrape.targets import parse_target
from trnfleet.services.session import BrokerSession
from trnfleet.sim.publish.state import will_envelope
from trnfleet.transport.url import BrokerUrl, Password
from trnfleet.wire.alerts import SilenceMessage
from trnfleet.wire.messages import encode_message

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


pytestmark = pytest.mark.broker

USERS = ("viewer", "operator", "watch", "publisher", "relay")
WAIT = "--wait 1s"
SECRET = {"TRNFLEET_MQTT_PASSWORD": PASSWORD}
ASK = "--timeout 20s"
REFUSED = "not (authorised|confirmed)|still there|does not come back"


class Command(NamedTuple):
    """A command, and its output on success."""

    arguments: str
    works: str
    status: int = 0


COMMANDS = {
    "status": Command("status --wait 20s", " °C"),
    "record": Command("record {folder}/{user}.mcap --duration 2s", "lost 0"),
    "usage": Command("usage --for 1s --every 1s", "instance-hours reserved"),
    "history write": Command("history write {folder}/{user} --duration 2s", "wrote "),
    "reserve list": Command("reserve list", "no reservations"),
    "alerts": Command(f"alerts {WAIT} --name quiet", "no watch publishes alerts of fleet quiet", 1),
    "silence list": Command(f"silence list {WAIT} --name quiet", "known"),
    "doctor": Command("doctor --retained 0 --listen 100ms", "fleets"),
    "silence add": Command(
        f"silence add a=b --for 1h --why x --yes {WAIT}", "matches 0 firing alerts"
    ),
    "silence expire": Command(f"silence expire known-{{user}} {WAIT} --name quiet", "has expired"),
    "ack": Command(
        f"ack 0123456789abcdef --name {{user}} {WAIT}", "acknowledges alert 0123456789abcdef"
    ),
    "inject": Command(f"inject --active {ASK}", "the faults of this simulator"),
    "jump": Command(f"jump 1s {ASK}", "jumps ahead by 1 s"),
    "reserve offerings": Command(
        f"reserve offerings --days 1 --instance-type trn2.3xlarge {ASK}",
        "1 x trn2.3xlarge is not free",
        1,
    ),
    "reserve buy": Command(f"reserve buy cbo-1 --yes {ASK}", "'cbo-1' is not on offer", 1),
    "reserve extend": Command(f"reserve extend cb-1 --days 1 {ASK}", "no block 'cb-1'", 1),
    "simulate": Command("simulate --fleet lab --name sim-{user} --ticks 2", "published 2 ticks"),
    "replay --broker": Command(
        f"replay {RECORDINGS / 'steady-training.mcap'} --as again-{{user}} --speed 600",
        "replayed 7",
    ),
    "forget": Command("forget --name dead-{user} --yes", "cleared 2 retained messages"),
    "watch": Command("watch --name {watched} --exit-after 18s", "leader for "),
}
"""By their names in the table."""


def cells() -> dict[tuple[str, str], str]:
    """Return the cells of the page's table, by command and user."""
    page = read("brokers.md")
    table = page[page.index("| command | viewer |") :].split("\n\n")[0].splitlines()
    users = [each.strip() for each in table[0].strip("|").split("|")][1:]
    assert users == list(USERS)
    rows = [[each.strip() for each in line.strip("|").split("|")] for line in table[2:]]
    return {
        (row[0].strip("`"), user): cell
        for row in rows
        for user, cell in zip(users, row[1:], strict=True)
    }


CELLS = cells()


def url(broker: BrokerProcess, user: str) -> BrokerUrl:
    return BrokerUrl(HOST, broker.port, user)


@pytest.fixture(
    scope="module", params=[ListedMosquitto, ListedNats], ids=lambda broker: broker.name
)
def listed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerProcess]:
    """A broker with the shipped lists, and a dead fleet and a silence to clear."""
    if request.param.version() is None:
        pytest.skip(f"{request.param.name.upper()} MISSING")
    with request.param(tmp_path_factory.mktemp("access")) as broker:
        left: dict[str, bytes] = {}
        for user in USERS:
            gone = will_envelope(f"dead-{user}", "gone", "b")
            left |= {
                gone.topic: gone.payload,
                f"trnfleet/v1/dead-{user}/node/uc1/standalone/a": b"{}",
            }
            silence = SilenceMessage(
                id=f"known-{user}",
                matchers=('a="b"',),
                starts="2020-01-01T00:00:00Z",
                until="2100-01-01T00:00:00Z",
                who="x",
            )
            left[f"trnfleet/v1/quiet/silence/{silence.id}"] = encode_message(silence)
        retain(url(broker, "everybody"), left, Password(PASSWORD))
        yield broker


class Runs:
    """All commands as all users, in parallel per user.

    A repeated one runs alone.
    """

    def __init__(self, broker: BrokerProcess, folder: Path) -> None:
        self._broker = broker
        self._folder = folder
        self._ended: dict[str, Ended] = {}
        (folder / "watches").mkdir()
        with (
            ForkedCommands(folder, **SECRET) as running,
            ForkedCommands(folder / "watches", **SECRET) as watches,
        ):
            for user in USERS:
                watches.start(f"watch {user}", *self._words("watch", user))
            for user in USERS:
                for name in COMMANDS:
                    if name != "watch":
                        running.start(f"{name} {user}", *self._words(name, user))
                self._ended |= running.wait()
            self._ended |= watches.wait()

    def _words(self, name: str, user: str) -> list[str]:
        # A watch that may not write alerts shows it where one fires; others would lead there.
        watched = "lab" if user == "publisher" else f"quiet-{user}"
        words = (
            COMMANDS[name].arguments.format(folder=self._folder, user=user, watched=watched).split()
        )
        is_named = words[0] in {"replay", "simulate", "doctor"} or "--name" in words
        return [
            *words,
            "--broker",
            str(url(self._broker, user)),
            *(() if is_named else ("--name", "lab")),
        ]

    def of(self, name: str, user: str) -> tuple[int, str]:
        """Return status and output."""
        ended = self._ended.pop(f"{name} {user}", None)
        if ended is not None:
            return ended.status, ended.output
        again = run(*self._words(name, user), TRNFLEET_MQTT_PASSWORD=PASSWORD)
        return again.returncode, again.stdout + again.stderr


@pytest.fixture(scope="module")
def runs(listed: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """Run all commands beside a simulator."""
    folder = tmp_path_factory.mktemp("commands")
    broker = ("--broker", str(url(listed, "publisher")))
    with Program(
        folder, "simulate", "--fleet", "lab", "--allow-commands", *broker, **SECRET
    ) as simulator:
        simulator.wait_for("publishing lab")
        yield Runs(listed, folder)


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_as_every_user(name: str, user: str, runs: Runs) -> None:
    """A command works as in the table, or a line names the missing topic class."""
    command = COMMANDS[name]
    cell = CELLS[name, user]
    status, output = runs.of(name, user)
    missing = re.findall(r"`(\w+)/`", cell)
    if cell.startswith("refused"):
        refused = [line for line in output.splitlines() if re.search(REFUSED, line)]
        classes = [*missing, "reply"] if "command" in missing else missing
        assert status in {1, 4}, output
        assert any(f"/{each}/" in line for line in refused for each in classes), output
    elif cell.startswith("exit status 3"):
        assert (status, "0 of 1 chip live" in output) == (3, True), output
    else:
        # What a loaded machine makes late is not what this is about.
        assert status == command.status or name == "status", output
        assert command.works in output, output


def test_every_command_is_in_the_table() -> None:
    """Every command connecting to a broker has a row."""
    assert {name for name, _ in CELLS} == {*COMMANDS, "bridge", "scrape"}


@pytest.mark.parametrize("user", USERS)
async def test_a_bridge_as_each_user(listed: BrokerProcess, user: str) -> None:
    """A bridge works as a publisher.

    As any other user it ends with the refusal or missing reply.
    """
    session = BrokerSession(url(listed, user), password=Password(PASSWORD))
    publishing = Ec2Bridge(
        BridgeRequest(f"aws-{user}", session.root, 60.0, once=True), Account()
    ).publish(session, print)
    if CELLS["bridge", user] == "works":
        await publishing
        return
    with pytest.raises(BrokerError) as refused:
        await publishing
    [topic] = re.findall(r"`(\w+)/`", CELLS["bridge", user])
    # MQTT 3.1.1 shows it of what is read back.
    wanted = {topic, "reservation"} if isinstance(listed, ListedNats) else {topic}
    assert any(f"/{each}/" in str(refused.value) for each in wanted), refused.value


@pytest.mark.parametrize("user", USERS)
async def test_a_scrape_as_each_user(listed: BrokerProcess, user: str) -> None:
    """A scraper works as a publisher or a relay, and else ends with the refusal."""
    session = BrokerSession(url(listed, user), password=Password(PASSWORD))
    page = answer(exporter_page(runtimes=1))
    async with await serve(lambda _: page) as server:
        target = parse_target(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
        request = ScrapeRequest(f"scraped-{user}", session.root, (target,), 15.0, once=True)
        publishing = Scraper(request, session.clock).publish(session, print)
        if CELLS["scrape", user] == "works":
            await publishing
            return
        with pytest.raises(BrokerError) as refused:
            await publishing
    [topic] = re.findall(r"`(\w+)/`", CELLS["scrape", user])
    # MQTT 3.1.1 shows it of what is read back.
    wanted = {topic, "node"} if isinstance(listed, ListedNats) else {topic}
    assert any(f"/{each}/" in str(refused.value) for each in wanted), refused.value


def test_the_page_names_the_files_and_their_users() -> None:
    """docs/brokers.md has a row for each user of the shipped files."""
    page = read("brokers.md")
    for file, pattern in (("mosquitto.acl", r"^user (\S+)"), ("nats.conf", r"user: ([\w-]+),")):
        text = (LISTS / file).read_text(encoding="utf-8")
        users = re.findall(pattern, text, re.MULTILINE)
        assert users == [
            "publisher",
            "watch",
            "viewer",
            "operator",
            "relay",
            "agent-trn2-0001",
            "reporter-pretrain",
        ]
        assert f"config/brokers/{file}" in page
        for user in users:
            assert f"**{user}**" in page
