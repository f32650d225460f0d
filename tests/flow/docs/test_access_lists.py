"""The shipped access lists on a real Mosquitto: what each command says to each user. docs/brokers.md has the same table."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING, NamedTuple

import pytest
from support.documents import read
from support.paths import ROOT
from support.processes.mosquitto import MISSING, MosquittoProcess
from support.processes.programs import COMMAND, Program, environment

from trnfleet.transport.embedded import mosquitto_program

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.broker

LISTS = ROOT / "config" / "brokers" / "mosquitto.acl"
REFUSED = "the broker refuses trnfleet/v1/lab/"


class Case(NamedTuple):
    """A command as a user, and what comes of it."""

    user: str
    command: str
    status: int
    says: str


CASES = [
    Case("viewer", "status --wait 20s", 0, "lab (healthy: 1 of 1 chip live)"),
    Case("viewer", "simulate --fleet lab --ticks 2 --client-id other", 1, f"{REFUSED}node/"),
    Case("viewer", "silence add a=b --for 1h --why x --yes --wait 1s", 1, f"{REFUSED}silence/"),
    Case("viewer", "jump 1h", 1, f"{REFUSED}command/fleet: not authorised"),
    Case("viewer", "watch --exit-after 20s", 1, f"{REFUSED}publisher/trnfleet-watch-"),
    Case("watch", "watch --exit-after 4s", 0, "leader for lab"),
    Case("operator", "jump 1h --timeout 20s", 0, "jumps ahead by 3,600 s"),
    Case("operator", "silence add a=b --for 1h --why x --yes --wait 1s", 0, "hides 0 that fire"),
]


def url(mosquitto: MosquittoProcess, user: str) -> str:
    return f"mqtt://{user}@127.0.0.1:{mosquitto.port}"


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Case, tuple[int, str]]]:
    """Run all cases at once beside a simulator, and return status and output of each."""
    if mosquitto_program() is None:
        pytest.skip(MISSING)
    folder = tmp_path_factory.mktemp("access")
    lists = folder / "acl"
    lists.write_text(LISTS.read_text(encoding="utf-8"), encoding="utf-8")
    lists.chmod(0o600)
    mosquitto = MosquittoProcess(folder, f"acl_file {lists}")
    mosquitto.start()
    simulate = ("simulate", "--fleet", "lab", "--period", "200ms", "--allow-commands")
    try:
        with Program(folder, *simulate, "--broker", url(mosquitto, "publisher")) as simulator:
            until = time.monotonic() + 20
            while "publishing lab" not in simulator.output:
                assert time.monotonic() < until, simulator.output
                time.sleep(0.05)
            processes = {
                case: subprocess.Popen(
                    [
                        *COMMAND,
                        *case.command.split(),
                        *("--broker", url(mosquitto, case.user)),
                        *(() if case.command.startswith("simulate") else ("--name", "lab")),
                    ],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    env=environment(),
                )
                for case in CASES
            }
            outputs = {case: process.communicate(timeout=60)[0] for case, process in processes.items()}
            yield {case: (processes[case].returncode, output) for case, output in outputs.items()}
    finally:
        mosquitto.kill()


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.user}: {case.command.split()[0]}")
def test_each_user_may_do_what_the_lists_say(case: Case, said: dict[Case, tuple[int, str]]) -> None:
    """What is allowed is done, what is not is an error with the topic and the broker's reason."""
    status, output = said[case]
    assert case.says in output
    assert (status, "not authorised" in output) == (case.status, status == 1)


def test_the_page_names_the_file_and_its_users() -> None:
    """docs/brokers.md has a row for each user of the shipped file, and for each command that was tried."""
    page = read("brokers.md")
    users = [
        line.removeprefix("user ")
        for line in LISTS.read_text(encoding="utf-8").splitlines()
        if line.startswith("user ")
    ]
    assert users == ["publisher", "watch", "viewer", "operator"]
    assert "config/brokers/mosquitto.acl" in page
    for case in CASES:
        assert f"`{case.command.split()[0]}" in page
    for user in users:
        assert f"**{user}**" in page
