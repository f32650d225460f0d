"""The shipped access lists on a real Mosquitto: what each command says to each user. docs/brokers.md has the same table."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import pytest
from flow.reservations.test_bridge import Account
from support.documents import read
from support.paths import ROOT
from support.processes.forked import ForkedCommands
from support.processes.mosquitto import MISSING, MosquittoProcess
from support.processes.programs import Program
from support.record.fixtures import RECORDINGS

from trnfleet.errors import BrokerError
from trnfleet.services.bridge import BridgeRequest, Ec2Bridge
from trnfleet.services.session import BrokerSession
from trnfleet.transport.embedded import mosquitto_program
from trnfleet.transport.url import parse_url

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.broker

LISTS = ROOT / "config" / "brokers" / "mosquitto.acl"
REFUSED = "the broker refuses trnfleet/v1/lab/"
UNWATCHED = "the broker refuses trnfleet/v1/unwatched/"
REPLAY = f"replay {RECORDINGS / 'steady-training.mcap'} --as again --speed 600"
OFFERINGS = "reserve offerings --days 1 --instance-type trn2.3xlarge"
COMMAND = f"{REFUSED}command/fleet: not authorised"
UNWATCHED_ACK = "ack 0123456789abcdef --wait 1s --name unwatched"
SILENCE = "silence add a=b --for 1h --why x --yes --wait 1s"


class Case(NamedTuple):
    """A command as a user, and what comes of it."""

    user: str
    command: str
    status: int
    says: str


CASES = [
    Case("viewer", "status --wait 20s", 0, "lab (healthy: 1 of 1 chip live)"),
    Case("viewer", "simulate --fleet lab --ticks 2 --client-id other", 1, f"{REFUSED}node/"),
    Case("viewer", SILENCE, 1, f"{REFUSED}silence/"),
    # Without a watch every alert can be acknowledged; of the other fleet one runs meanwhile.
    Case("viewer", UNWATCHED_ACK, 1, f"{UNWATCHED}ack/0123456789abcdef: not authorised"),
    Case("viewer", "jump 1h", 1, COMMAND),
    Case("viewer", "watch --exit-after 20s", 1, f"{REFUSED}publisher/trnfleet-watch-"),
    Case("viewer", "record {}/viewer.mcap --duration 2s", 0, "lost 0"),
    Case("viewer", "usage --for 1s --every 1s", 0, "instance-hours reserved"),
    Case("viewer", "reserve list", 0, "no reservations"),
    Case("viewer", "reserve show cb-1", 1, "no reservation 'cb-1'"),
    Case("viewer", "reserve extend cb-1 --days 1", 1, COMMAND),
    Case("viewer", OFFERINGS, 1, COMMAND),
    Case("viewer", "inject --active", 1, COMMAND),
    Case("viewer", "reserve buy cbo-1 --yes", 1, COMMAND),
    Case("viewer", REPLAY, 1, "nothing is published: the broker refuses trnfleet/v1/again/"),
    Case("watch", "watch --exit-after 4s", 0, "leader for lab"),
    Case(
        "watch",
        REPLAY.replace("again", "once-more"),
        1,
        "messages were refused; the last: the broker refuses",
    ),
    Case("watch", "record {}/watch.mcap --duration 2s", 0, "lost 0"),
    Case("watch", "usage --for 1s --every 1s", 0, "instance-hours reserved"),
    Case("watch", "reserve list", 0, "no reservations"),
    Case("watch", "reserve extend cb-1 --days 1", 1, COMMAND),
    Case("watch", "inject --active", 1, COMMAND),
    Case("watch", "jump 1h", 1, COMMAND),
    Case("watch", UNWATCHED_ACK, 0, "acknowledges alert 0123456789abcdef"),
    Case("publisher", "status --wait 5s", 3, "lab (UNHEALTHY: 0 of 1 chip live"),
    Case("publisher", "reserve list", 0, "no reservations"),
    Case("publisher", "usage --for 1s --every 1s", 0, "instance-hours reserved"),
    Case("publisher", "record {}/publisher.mcap --duration 2s", 0, "lost 0"),
    Case("publisher", "inject --active", 1, COMMAND),
    Case("publisher", OFFERINGS, 1, COMMAND),
    Case("publisher", SILENCE, 1, f"{REFUSED}silence/"),
    Case("publisher", "silence list --wait 1s", 0, "no silences"),
    Case("publisher", "silence expire other --wait 1s", 1, "no silence 'other'"),
    Case("publisher", "alerts --wait 1s", 1, "no watch publishes alerts of fleet lab"),
    Case("publisher", REPLAY.replace("again", "third"), 0, "replayed 7"),
    Case("operator", "record {}/operator.mcap --duration 2s", 0, "lost 0"),
    Case("operator", "usage --for 1s --every 1s", 0, "instance-hours reserved"),
    Case("operator", "simulate --fleet lab --ticks 2 --client-id third", 1, f"{REFUSED}node/"),
    Case(
        "operator", REPLAY.replace("again", "fourth"), 1, "nothing is published: the broker refuses"
    ),
    Case("operator", "watch --exit-after 20s", 1, f"{REFUSED}publisher/trnfleet-watch-"),
    Case("operator", f"{OFFERINGS} --timeout 20s", 1, "1 x trn2.3xlarge is not free"),
    Case("operator", "reserve extend cb-1 --days 1 --timeout 20s", 1, "no block 'cb-1'"),
    Case("operator", "inject --active --timeout 20s", 0, "the faults of this simulator"),
    Case("operator", "jump 1h --timeout 20s", 0, "jumps ahead by 3,600 s"),
    Case("operator", SILENCE, 0, "matches 0 firing alerts"),
]


def url(mosquitto: MosquittoProcess, user: str) -> str:
    return f"mqtt://{user}@127.0.0.1:{mosquitto.port}"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MosquittoProcess]:
    """A Mosquitto with the shipped lists."""
    if mosquitto_program() is None:
        pytest.skip(MISSING)
    folder = tmp_path_factory.mktemp("access")
    lists = folder / "acl"
    lists.write_text(LISTS.read_text(encoding="utf-8"), encoding="utf-8")
    lists.chmod(0o600)
    mosquitto = MosquittoProcess(folder, f"acl_file {lists}")
    mosquitto.start()
    try:
        yield mosquitto
    finally:
        mosquitto.kill()


@pytest.fixture(scope="module")
def said(
    broker: MosquittoProcess, tmp_path_factory: pytest.TempPathFactory
) -> dict[Case, tuple[int, str]]:
    """Run all cases at once beside a simulator, and return status and output of each."""
    folder = tmp_path_factory.mktemp("cases")
    simulate = ("simulate", "--fleet", "lab", "--period", "200ms", "--allow-commands")
    with (
        ForkedCommands(folder) as running,
        Program(folder, *simulate, "--broker", url(broker, "publisher")) as simulator,
    ):
        until = time.monotonic() + 20
        while "publishing lab" not in simulator.output:
            assert time.monotonic() < until, simulator.output
            time.sleep(0.05)
        for number, case in enumerate(CASES):
            is_named = case.command.startswith(("simulate", "replay")) or "--name" in case.command
            named = () if is_named else ("--name", "lab")
            arguments = case.command.format(folder).split()
            running.start(str(number), *arguments, "--broker", url(broker, case.user), *named)
        ended = running.wait()
    return {
        case: (ended[str(number)].status, ended[str(number)].output)
        for number, case in enumerate(CASES)
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.user}: {case.command.split()[0]}")
def test_each_user_may_do_what_the_lists_say(case: Case, said: dict[Case, tuple[int, str]]) -> None:
    """What is allowed is done, what is not is an error with the topic and the broker's reason."""
    status, output = said[case]
    assert case.says in output
    assert (status, "not authorised" in output) == (case.status, "the broker refuses" in case.says)


@pytest.mark.parametrize(
    ("user", "says"),
    [
        ("publisher", ""),
        ("viewer", f"{REFUSED}publisher/"),
        ("operator", f"{REFUSED}publisher/"),
        ("watch", f"1 message was refused; the last: {REFUSED}reservation/cb-1: not authorised"),
    ],
)
async def test_a_bridge_as_each_user(broker: MosquittoProcess, user: str, says: str) -> None:
    """A publisher's is taken; all others end with what was refused."""
    session = BrokerSession(parse_url(url(broker, user)))
    publishing = Ec2Bridge(BridgeRequest("lab", session.root, once=True), Account()).publish(
        session, print
    )
    if not says:
        await publishing
        return
    with pytest.raises(BrokerError) as refused:
        await publishing
    assert says in str(refused.value)


def test_the_page_names_the_file_and_its_users() -> None:
    """docs/brokers.md has a row for each user of the shipped file, and for each command that was tried."""
    page = read("brokers.md")
    users = [
        line.removeprefix("user ")
        for line in LISTS.read_text(encoding="utf-8").splitlines()
        if line.startswith("user ")
    ]
    assert users == ["publisher", "watch", "viewer", "operator", "relay", "agent-trn2-0001"]
    assert "config/brokers/mosquitto.acl" in page
    for case in CASES:
        assert f"`{case.command.split()[0]}" in page
    for user in users:
        assert f"**{user}**" in page
