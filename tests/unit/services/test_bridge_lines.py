from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from trnfleet.errors import ConfigError
from trnfleet.services.bridge import line_reader, open_events
from trnfleet.wire.eventbridge import MOST_BYTES

if TYPE_CHECKING:
    from pathlib import Path


def test_lines_are_read_one_by_one_and_long_ones_in_part(tmp_path: Path) -> None:
    """Only the beginning of a line beyond the limit is read.

    The next is whole, and the last needs no line end.
    """
    file = tmp_path / "events.ndjson"
    file.write_bytes(b"one\n\n" + b"x" * (3 * MOST_BYTES) + b"\ntwo\n" + b"last")
    next_line = line_reader(open_events(str(file)))
    assert [next_line(), next_line()] == [b"one\n", b"\n"]
    assert next_line() == b"x" * (MOST_BYTES + 1)
    assert [next_line() for _ in range(4)] == [b"two\n", b"last", b"", b""]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """An unreadable file is refused with its option and the reason."""
    with pytest.raises(ConfigError, match=r"^--events .*none\.ndjson: No such file"):
        open_events(str(tmp_path / "none.ndjson"))
