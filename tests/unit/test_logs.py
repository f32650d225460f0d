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
    """Newlines and escapes in a value neither make a second line nor reach the terminal raw."""
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
    """A log that cannot be written is counted, and the program goes on."""
    from pathlib import Path  # noqa: PLC0415

    before = logs._Settings.lost_lines
    stream = logs.configure(level="info", file=Path("/dev/full"))
    for _ in range(3):
        logs.get_logger("t").warning("event_name", text="x" * 10_000)
    assert logs._Settings.lost_lines > before
    with contextlib.suppress(OSError):
        stream.close()
