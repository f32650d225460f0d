from __future__ import annotations

import contextlib
import json
import logging
from typing import TYPE_CHECKING

import pytest

from trnfleet import logs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    yield
    logs.configure()
    logging.basicConfig(force=True)


def written(tmp_path: Path, log_format: logs.LogFormat, **values: object) -> str:
    file = tmp_path / "log"
    stream = logs.configure(log_format=log_format, level="info", file=file)
    logs.get_logger("t").warning("event_name", **values)
    logs.get_logger("t").debug("quiet")
    stream.close()
    return file.read_text()


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_a_payload_makes_one_line(tmp_path: Path, log_format: logs.LogFormat) -> None:
    """Newlines and escapes in a value stay on its line, never raw."""
    text = written(tmp_path, log_format, topic="a\nb\x1b[2J\u202e", number=5)
    assert text.count("\n") == 1
    assert "\x1b" not in text
    assert "event_name" in text


def test_secrets_are_not_logged(tmp_path: Path) -> None:
    """Values under a secret's name are replaced."""
    text = written(tmp_path, "json", password="hunter2", mqtt_password="hunter2")  # noqa: S106  that is the test
    assert "hunter2" not in text
    assert json.loads(text)["password"] == "***"  # noqa: S105  what it is replaced by


def test_a_full_disk_ends_nothing() -> None:
    """A failed write to the log is counted, and the program goes on."""
    from pathlib import Path  # noqa: PLC0415

    before = logs._Settings.lost_lines
    stream = logs.configure(level="info", file=Path("/dev/full"))
    for _ in range(3):
        logs.get_logger("t").warning("event_name", text="x" * 10_000)
    assert logs._Settings.lost_lines > before
    with contextlib.suppress(OSError):
        stream.close()


class Seconds:
    """A clock that is set by hand."""

    now_s = 0.0

    def monotonic_s(self) -> float:
        """Return the time."""
        return self.now_s


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> Seconds:
    """Return the log's clock."""
    clock = Seconds()
    monkeypatch.setattr(logs._Windows, "clock", clock)
    return clock


def test_a_flood_of_one_kind_is_a_few_lines(tmp_path: Path, seconds: Seconds) -> None:
    """A kind's first lines are written, the rest is one line a minute.

    Other kinds, audits and debugging are not cut.
    """
    file = tmp_path / "log"
    handler = logs.configure(level="debug", log_format="json", file=file)
    log = logs.get_logger("t")
    for _ in range(2_000):
        log.warning("flood", reason="rejected")
    log.warning("flood", reason="misplaced")
    log.warning("other")
    for _ in range(10):
        log.audit("command")
        log.debug("detail")
    logging.getLogger("library").warning("a library's")
    seconds.now_s = logs.WINDOW_S
    log.warning("flood", reason="rejected")
    handler.close()
    lines = file.read_text().splitlines()
    events = [json.loads(line) for line in lines if line.startswith("{")]
    names = [event["event"] for event in events]
    assert names.count("flood") == logs.FIRST_LINES + 2
    assert (names.count("other"), names.count("command"), names.count("detail")) == (1, 10, 10)
    told = next(event for event in events if event["event"] == "lines_suppressed")
    assert (told["kind"], told["count"]) == ("flood: rejected", 2_000 - logs.FIRST_LINES)
    assert "WARNING library a library's" in lines


def test_what_the_last_minute_leaves_out_is_told_at_the_end(
    tmp_path: Path, seconds: Seconds
) -> None:
    """A process ending in a flood logs its size.

    Libraries are counted as we are.
    """
    file = tmp_path / "log"
    handler = logs.configure(level="info", file=file)
    for _ in range(logs.FIRST_LINES + 7):
        logging.getLogger("library").warning("a library's")
    logs._tell_last()
    handler.close()
    assert file.read_text().count("a library's") == logs.FIRST_LINES
    assert 'kind="library: WARNING" count=7' in file.read_text()
    assert seconds.now_s == 0


def test_kinds_are_bounded() -> None:
    """Kinds may come from the wire: beyond a number they count as one."""
    windows = logs.Windows()
    admitted = sum(
        windows.admits("event", str(number), 0.0) for number in range(3 * logs.MOST_KINDS)
    )
    assert admitted == logs.MOST_KINDS + logs.FIRST_LINES


def test_a_file_is_rotated_and_its_owners_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log is at most two files of a size.

    If no second is possible, the one is emptied.
    """
    monkeypatch.setattr(logs, "FILE_BYTES", 2_000)
    file = tmp_path / "log"

    def write() -> None:
        handler = logs.configure(level="info", file=file)
        for _ in range(100):
            logs.get_logger("t").audit("event_name", text="x" * 100)
        handler.close()

    write()
    assert {path.name for path in tmp_path.iterdir()} == {"log", "log.1"}
    assert all(path.stat().st_size <= 2_000 for path in tmp_path.iterdir())
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in tmp_path.iterdir())
    (tmp_path / "log.1").unlink()
    (tmp_path / "log.1" / "in the way").mkdir(parents=True)
    before = logs._Settings.lost_lines
    write()
    assert file.stat().st_size <= 2_000
    assert logs._Settings.lost_lines == before
