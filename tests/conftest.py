"""Fixtures for the whole suite."""

from __future__ import annotations

import fcntl
import gc
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
import textual.pilot  # noqa: F401  whole, before a command that a test loads defers it
from support.processes.certificates import Certificates
from support.processes.fork_server import ForkServer
from support.processes.mosquitto import MISSING, MosquittoProcess
from support.processes.programs import environment, fork_servers

from trnfleet.garbage import spare_collector
from trnfleet.transport.embedded import mosquitto_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


# A busy machine is no failure: timings are for lab/bench.
hypothesis.settings.register_profile("suite", deadline=None, max_examples=40)
hypothesis.settings.load_profile("suite")

# What stands in a developer's own settings files is no matter of the suite.
os.environ["TRNFLEET_CONFIG"] = "none"
os.environ.pop("TRNFLEET_PROFILE", None)

TESTS = Path(__file__).resolve().parent

_LONG_ONES = (
    "test_rewind",
    "test_watched_scenarios",
    "test_replay_is_exact",
    "test_alert_scenarios",
    "test_reservations",
    "test_scenarios",
    "test_shipped_recordings",
    "test_record_replay",
    "test_watch",
)
"""The slowest files. They begin first, so that none is left over at the end of a parallel run."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that shuffles files."""
    parser.addoption(
        "--random-files", metavar="SEED", help="run the files in a random order, by this seed"
    )


def pytest_report_header(config: pytest.Config) -> str | None:
    """Name the seed, to repeat an order."""
    seed = config.getoption("--random-files")
    return None if seed is None else f"files in random order: --random-files {seed}"


_RERUNS = 2


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort tests: the longest first, then process starters.

    Or shuffle the files.

    A failing test is repeated and named: a shared machine can stop a process or a thread for
    seconds. A broken one fails each time.
    """
    for item in items:
        item.add_marker(pytest.mark.flaky(reruns=_RERUNS, reruns_delay=2))

    def rank(item: pytest.Item) -> int:
        kind = item.path.relative_to(TESTS).parts[0]
        name = item.path.stem
        if kind == "flow":
            return _LONG_ONES.index(name) if name in _LONG_ONES else len(_LONG_ONES)
        return len(_LONG_ONES) + (1 if kind in {"broker", "tui"} else 2)

    seed = config.getoption("--random-files")
    if seed is None:
        items.sort(key=rank)
        return
    files = sorted({item.path for item in items})
    random.Random(seed).shuffle(files)  # noqa: S311  an order, no secret
    place = {path: number for number, path in enumerate(files)}
    items.sort(key=lambda item: place[item.path])


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Let one of the parallel processes collect first.

    It compiles the tests, and this takes longer than collecting them. The others read what it
    wrote, in an environment that asks for no such files, too.
    """
    sys.dont_write_bytecode = False
    if not hasattr(session.config, "workerinput"):
        yield
        return
    with Path(__file__).open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(file, fcntl.LOCK_SH)
        yield


def pytest_collection_finish() -> None:
    """Set larger steps for the garbage collector.

    With an interpreter's own steps it is a quarter of the cost of app tests.
    """
    spare_collector()


@pytest.fixture(scope="session", autouse=True)
def _forked_commands() -> Iterator[None]:
    """Fork commands from a process with the program imported, if forking is safe."""
    if sys.platform != "linux":
        yield
        return
    server = ForkServer(environment())
    fork_servers.append(server)
    yield
    fork_servers.remove(server)
    server.close()


@pytest.fixture(autouse=True)
def no_complaint_of_asyncio(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a real-broker test if asyncio logged an error.

    Nobody would see it otherwise.
    """
    if request.node.get_closest_marker("broker") is None:
        yield
        return
    caplog: pytest.LogCaptureFixture = request.getfixturevalue("caplog")
    yield
    gc.collect()
    complaints = [
        each.getMessage() for each in caplog.get_records("call") if each.name == "asyncio"
    ]
    assert not complaints


@pytest.fixture
def mosquitto_with(tmp_path: Path) -> Iterator[Callable[..., MosquittoProcess]]:
    """Start Mosquittos with extra lines in their configuration; they end with the test."""
    if mosquitto_program() is None:
        pytest.skip(MISSING)
    started: list[MosquittoProcess] = []

    def start(*extra_lines: str, **options: Any) -> MosquittoProcess:
        process = MosquittoProcess(tmp_path, *extra_lines, **options)
        started.append(process)
        process.start()
        return process

    try:
        yield start
    finally:
        for process in started:
            process.kill()


@pytest.fixture
def passwords(tmp_path: Path) -> Callable[..., str]:
    """Write password files of Mosquitto, of users by keyword."""

    def write(**users: str) -> str:
        file = tmp_path / f"passwords-{len(list(tmp_path.glob('passwords-*')))}"
        file.touch(0o600)
        for user, password in users.items():
            subprocess.run(
                ["mosquitto_passwd", "-b", str(file), user, password],
                check=True,
                capture_output=True,
            )
        return str(file)

    return write


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Make certificates, good and bad, once for the session."""
    if shutil.which("openssl") is None:
        pytest.skip("OPENSSL MISSING: install the openssl program; the tests of TLS did not run")
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def mosquitto(mosquitto_with: Callable[..., MosquittoProcess]) -> MosquittoProcess:
    """Start one Mosquitto that lets everyone on this machine in; it ends with the test."""
    return mosquitto_with()
