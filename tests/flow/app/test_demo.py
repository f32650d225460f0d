"""The demo as a user has it: one command in a real terminal."""

from __future__ import annotations

import json
import re
import signal
import time
from typing import TYPE_CHECKING

import psutil
import pytest
from support.processes.mosquitto import MosquittoProcess, retain, retained
from support.processes.programs import Program, run
from support.processes.terminal import Terminal

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.broker

SIZES = [(80, 24), (120, 40), (240, 70)]


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def gone(processes: list[psutil.Process]) -> bool:
    _, alive = psutil.wait_procs(processes, timeout=10)
    return not alive


@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_every_view_at_every_size(columns: int, rows: int) -> None:
    """The demo shows 192 live chips, the hierarchy down to a NeuronCore, and a chip."""
    with Terminal(columns=columns, rows=rows) as terminal:
        terminal.wait_for("192", "all live", "us-0001", "w Enter open a problem")
        terminal.send("2")
        terminal.wait_for("uc1", "standalone", "us-0002")
        terminal.send("4")
        terminal.wait_for("chip00", "nc0", "nc7", "HBM")
        terminal.send("?")
        terminal.wait_for("Keys", "Next chip", "Quit")
        terminal.send("\x1b")
        # An escape with a key right behind it would be another key.
        terminal.wait_for_no("Keys")
        assert terminal.end(keys="q") == 0


def test_it_begins_with_five_minutes_of_history() -> None:
    """Charts begin before the start, rewinding works there, and the publisher goes on live."""
    with Terminal(columns=120, rows=40) as terminal:
        # Simulator and app take at most half of a core each for it.
        terminal.wait_for(
            "192", "all live", "history 5 min", "lost 0", "publishers 1/1", within_s=60
        )
        terminal.wait_for_no("before start")
        # A minute at a time, to before the simulator began.
        terminal.send("{")
        terminal.wait_for("1 min 0", "Viewing", "all live", "IT ")
        terminal.send("{")
        terminal.wait_for("2 min 0", "Viewing", "all live", "lost 0")
        assert terminal.end(keys="q") == 0


def test_it_begins_without_history_where_it_is_told_to() -> None:
    with Terminal("demo", "--no-history", columns=120, rows=40) as terminal:
        terminal.wait_for("192", "all live", "before start", "lost 0")
        # As long as the history takes to come where there is one.
        assert "history 5 min" not in terminal.wait_for("history 4 s")
        assert terminal.end(keys="q") == 0


@pytest.mark.parametrize(
    ("ending", "status"),
    [("q", 0), ("\x03\x03", 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=["q", "ctrl+c", "SIGTERM", "SIGHUP"],
)
def test_it_leaves_nothing_behind(ending: str | signal.Signals, status: int) -> None:
    """After any end the terminal is restored and no process is left.

    The status is the right one for the end.
    """
    with Terminal() as terminal:
        terminal.wait_for("192", "all live")
        children = terminal.children()
        assert len(children) >= 2
        got = terminal.end(keys=ending) if isinstance(ending, str) else terminal.end(ending)
        assert got == status
        assert terminal.is_restored()
        assert gone(children)


@pytest.mark.parametrize(
    ("number", "statuses"),
    # An interrupt before the app listens for it ends the interpreter as an interrupt does.
    [(signal.SIGTERM, {143}), (signal.SIGHUP, {129}), (signal.SIGINT, {0, 130})],
)
def test_a_signal_at_the_first_byte(number: signal.Signals, statuses: set[int]) -> None:
    """A signal during the terminal's setup ends the app as usual."""
    with Terminal() as terminal:
        deadline = time.monotonic() + 10
        while b"\x1b[?1049h" not in terminal.raw and time.monotonic() < deadline:
            time.sleep(0.001)
        children = terminal.children()
        assert terminal.end(number) in statuses
        assert terminal.is_restored()
        assert gone(children)


@pytest.mark.parametrize("after_s", [0.3, 0.6, 0.9])
def test_a_signal_while_starting(
    after_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A demo ended during its start leaves neither processes nor folders."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with Terminal() as terminal:
        time.sleep(after_s)
        children = terminal.children()
        assert terminal.end(signal.SIGTERM) in {143, -signal.SIGTERM}
        assert gone(children)
    assert not list(tmp_path.glob("trnfleet-broker-*"))


def test_a_terminal_that_takes_no_output() -> None:
    """A signal ends the app within seconds even if nobody reads its output."""
    with Terminal() as terminal:
        terminal.wait_for("192", "all live")
        children = terminal.children()
        terminal.stall()
        for step in range(60):
            terminal.resize(100 + step % 50, 30 + step % 20)
            time.sleep(0.02)
        assert terminal.end(signal.SIGTERM, within_s=6) == 143
        assert gone(children)


def test_children_that_die_are_started_again() -> None:
    """After a kill of broker and simulator the app reports it and recovers by itself."""
    with Terminal(columns=200) as terminal:
        terminal.wait_for("192", "all live")
        for child in terminal.children():
            child.kill()
        terminal.wait_for(
            "broker was killed by SIGKILL", "simulator was killed by SIGKILL", within_s=5
        )
        terminal.wait_for(
            "broker restarted 1", "simulator restarted 1", "all live", "publishers 1/1"
        )
        assert len(terminal.children()) == 2
        children = terminal.children()
        assert terminal.end(keys="q") == 0
        assert gone(children)


def test_killed_it_takes_its_children_along() -> None:
    """After kill -9 the broker and the simulator end by themselves."""
    with Terminal() as terminal:
        terminal.wait_for("192", "all live")
        children = terminal.children()
        assert terminal.end(signal.SIGKILL) == 137
        assert gone(children)


def test_the_apps_figures_are_the_statuss(mosquitto: MosquittoProcess, tmp_path: Path) -> None:
    """`monitor` and `status` against the same broker show the same fleet and nothing lost."""
    url = str(mosquitto.url)
    with (
        Program(tmp_path, "simulate", "--broker", url, "--fleet", "demo"),
        Terminal("monitor", "--broker", url, "--name", "demo") as terminal,
    ):
        terminal.wait_for("192", "all live", "lost 0")
        terminal.wait_for_match(r"\d+(\.\d+)? kW")
        status = run("status", "--broker", url, "--name", "demo", "--wait", "10s").stdout
        assert "192 of 192 chips live" in status
        assert terminal.end(keys="q") == 0


def test_the_view_of_a_fleet_is_kept(mosquitto: MosquittoProcess, tmp_path: Path) -> None:
    """`monitor` begins with the view that the last one ended with; the demo does not."""
    url = str(mosquitto.url)
    with Program(tmp_path, "simulate", "--broker", url, "--fleet", "demo"):
        for begin in ("[1 Fleet]", "[5 Jobs"):
            with Terminal("monitor", "--broker", url, "--local-time") as terminal:
                terminal.wait_for(begin, "all live", " UTC ")
                terminal.send("5")
                terminal.wait_for("[5 Jobs")
                assert terminal.end(keys="q") == 0
    with Terminal() as terminal:
        terminal.wait_for("[1 Fleet]", "all live")
        terminal.send("2")
        terminal.wait_for("[2 Hierarchy]")
        assert terminal.end(keys="q") == 0
    assert json.loads((tmp_path / "trnfleet/views.json").read_text()) == {"demo": "Jobs"}


def test_a_lost_broker_is_told_and_values_are_stale(
    mosquitto: MosquittoProcess, tmp_path: Path
) -> None:
    """The app reports a lost broker, draws values as stale, and recovers by itself."""
    url = str(mosquitto.url)
    coarse = ("--format", "cbor", "--granularity", "instance")
    with (
        Program(tmp_path, "simulate", "--broker", url, "--fleet", "demo", *coarse),
        Terminal("monitor", "--broker", url, "--name", "demo") as terminal,
    ):
        terminal.wait_for("192", "all live")
        mosquitto.kill()
        terminal.wait_for("no connection", within_s=5)
        terminal.wait_for("stale", within_s=6)
        terminal.wait_for_no("all live", within_s=3)
        mosquitto.start()
        terminal.wait_for("all live", within_s=10)
        terminal.wait_for_no("no connection", within_s=2)
        # The status line follows the header within a second or so.
        terminal.wait_for_match(r"lost [1-9]", within_s=5)


def test_the_variable_of_the_watched_broker_is_ignored(mosquitto: MosquittoProcess) -> None:
    """The demo uses its own broker, names the ignored variable, and writes nothing there."""
    with Terminal(columns=200, TRNFLEET_BROKER=str(mosquitto.url)) as terminal:
        terminal.wait_for(
            "192", "all live", "TRNFLEET_BROKER is ignored: the demo has its own broker"
        )
        assert terminal.end(keys="q") == 0
    assert retained(mosquitto.url) == {}


@pytest.mark.parametrize("ending", ["q", signal.SIGHUP])
def test_it_takes_away_what_it_retained_on_a_users_broker(
    mosquitto: MosquittoProcess, ending: str | signal.Signals
) -> None:
    """Its descriptors, jobs and presence are cleared at any end.

    Others' messages stay.
    """
    retain(mosquitto.url, {"trnfleet/v1/demo/job/other": b"theirs"})
    with Terminal("demo", "--broker", str(mosquitto.url)) as terminal:
        terminal.wait_for("192", "all live")
        assert len(retained(mosquitto.url)) > 12
        terminal.end(keys=ending) if isinstance(ending, str) else terminal.end(ending)
    assert retained(mosquitto.url) == {"trnfleet/v1/demo/job/other": b"theirs"}


def test_it_does_not_join_a_live_fleet(mosquitto: MosquittoProcess, tmp_path: Path) -> None:
    """A live fleet of the demo's name is refused, with the right commands named."""
    url = str(mosquitto.url)
    with Program(
        tmp_path, "simulate", "--broker", url, "--fleet", "demo", "--client-id", "first"
    ) as first:
        first.wait_for("publishing")
        with Terminal("demo", "--broker", url, columns=200) as terminal:
            terminal.wait_for(
                "has a live fleet 'demo', published by first", "trnfleet monitor --broker"
            )
            assert terminal.end() == 1


def test_a_wrong_file_is_named_before_a_missing_terminal(tmp_path: Path) -> None:
    """A faulty user file is reported before a missing terminal."""
    missing = str(tmp_path / "none.toml")
    monitor = ("monitor", "--broker", "127.0.0.1:1")
    for arguments in (
        ("demo", "--fleet", missing),
        ("demo", "--rules", missing),
        (*monitor, "--rules", missing),
        ("replay", missing),
    ):
        result = run(*arguments)
        assert (result.returncode, "none.toml" in result.stderr) == (2, True), result.stderr


def test_without_a_terminal() -> None:
    """Without a terminal the app names the command to use."""
    result = run()
    assert result.returncode == 1
    assert "needs a terminal" in result.stderr


def test_a_resize_storm_and_the_way_down_to_a_neuroncore() -> None:
    """A hundred sizes between tiny and huge, and the demo still shows its fleet.

    Opening node after node in the hierarchy then leads from cluster to NeuronCore.
    """
    with Terminal() as terminal:
        terminal.wait_for("192", "all live")
        for step in range(100):
            terminal.resize(20 + (step * 37) % 260, 5 + (step * 13) % 90)
            time.sleep(0.005)
        terminal.resize(120, 40)
        terminal.wait_for("192", "all live", "us-0001")
        terminal.send("2")
        terminal.wait_for("trn2u-0001-0")
        deadline = time.monotonic() + 15
        while "nc0" not in terminal.text and time.monotonic() < deadline:
            terminal.send("l")
            time.sleep(0.1)
            terminal.send("j")
            time.sleep(0.1)
        assert re.search(r"nc0\b", terminal.text)
        assert "chip00" in terminal.text
        assert terminal.end(keys="q") == 0
