"""The queue on disk: order, bounds, and whatever can happen to its file."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING

from trnfleet.clock import NS_PER_S
from trnfleet.services.agent.outbox import MOST_AGE_S, Outbox
from trnfleet.wire.ports import CONTENT_TYPE_CBOR, Envelope

if TYPE_CHECKING:
    from pathlib import Path

HOST = "uc1/standalone/trn2-0001"
NOW_NS = 1_767_571_200_000_000_000


def telemetry(number: int, size: int = 10) -> Envelope:
    """Return a frame of the host."""
    payload = f"{number:08d}".encode().ljust(size, b".")
    return Envelope(f"trnfleet/v1/lab/telemetry/{HOST}", payload, 0, False, CONTENT_TYPE_CBOR)


def event(number: int) -> Envelope:
    """Return an event of the host."""
    return Envelope(f"trnfleet/v1/lab/event/{HOST}", b"%d" % number, 1)


def state(name: str, payload: bytes) -> Envelope:
    """Return retained state."""
    return Envelope(f"trnfleet/v1/lab/{name}", payload, 1, True)


def waiting(outbox: Outbox) -> list[Envelope]:
    """Return all that waits but state."""
    return [row.envelope for row in outbox.oldest(1_000_000)]


def disk_bytes(path: Path) -> int:
    """Return the bytes of a queue's files."""
    return sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))


def test_events_come_first_and_state_is_the_newest(tmp_path: Path) -> None:
    """Each in order, with its content type; a late reply does not wait."""
    outbox = Outbox(tmp_path / "o")
    outbox.put([telemetry(1), event(1), state("publisher/a", b"old"), telemetry(2)], NOW_NS)
    reply = Envelope("trnfleet/v1/lab/reply/me/1", b"{}", 1)
    outbox.put([state("publisher/a", b"new"), state("claim/x", b""), event(2), reply], NOW_NS)
    assert waiting(outbox) == [event(1), event(2), telemetry(1), telemetry(2)]
    assert [row.envelope.payload for row in outbox.state()] == [b"new", b""]
    assert outbox.dropped == {"reply": 1}
    outbox.done(outbox.oldest(3))
    assert waiting(outbox) == [telemetry(2)]
    assert outbox.waiting == {"telemetry": 1, "publisher": 1, "claim": 1}
    outbox.close()
    assert (tmp_path / "o").stat().st_mode & 0o777 == 0o600


def test_a_thread_that_is_late_at_the_end_damages_nothing(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "o")
    outbox.put([event(1)], NOW_NS)
    outbox.close()
    outbox.put([event(2)], NOW_NS)
    outbox.done(outbox.oldest(1))
    assert [path.name for path in tmp_path.iterdir()] == ["o"]

    outbox = Outbox(tmp_path / "o")
    assert waiting(outbox) == [event(1)]
    outbox.close()


def test_a_killed_process_leaves_all_that_it_put(tmp_path: Path) -> None:
    """With -9, in the middle of its work."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[2])\n"
        "from pathlib import Path\n"
        "from test_outbox import telemetry, NOW_NS, Outbox\n"
        "outbox = Outbox(Path(sys.argv[1]))\n"
        "for number in range(1_000_000):\n"
        "    outbox.put([telemetry(number)], NOW_NS)\n"
        "    print(number, flush=True)\n"
    )
    folder = os.path.dirname(__file__)  # noqa: PTH120  sys.path has texts
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "o"), folder], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        put = [int(process.stdout.readline()) for _ in range(50)]
        process.send_signal(signal.SIGKILL)
        put += [int(line) for line in process.stdout.read().split()]
    outbox = Outbox(tmp_path / "o")
    there = waiting(outbox)
    outbox.close()
    assert there == [telemetry(number) for number in range(len(there))]
    assert len(there) in {len(put), len(put) + 1}


def test_a_full_queue_drops_the_oldest_and_counts_them(tmp_path: Path) -> None:
    """Whatever their sizes, the files stay below the limit."""
    outbox = Outbox(tmp_path / "o", most_bytes=16 * 2**20)
    sizes = [100, 5_000, 60_000, 128 * 2**10]
    for number in range(600):
        outbox.put([telemetry(number, sizes[number % 4]), event(number)], NOW_NS)
        assert disk_bytes(tmp_path / "o") <= 16 * 2**20
    left = waiting(outbox)
    events = [envelope for envelope in left if envelope.qos]
    assert outbox.waiting.total() == len(left) > 100
    assert outbox.dropped == {
        "telemetry": 600 - (len(left) - len(events)), "event": 600 - len(events)
    }  # fmt: skip
    assert events == [event(number) for number in range(600 - len(events), 600)]
    outbox.close()


def test_age_survives_a_clock_that_jumps_back(tmp_path: Path) -> None:
    """A message is dropped a quarter of an hour after it was put, whatever the clock says."""
    outbox = Outbox(tmp_path / "o")
    outbox.put([telemetry(1)], NOW_NS)
    outbox.put([telemetry(2)], NOW_NS + 600 * NS_PER_S)
    back_ns = NOW_NS - 86_400 * NS_PER_S
    outbox.put([telemetry(3)], back_ns)
    assert waiting(outbox) == [telemetry(1), telemetry(2), telemetry(3)]
    outbox.put([telemetry(4)], back_ns + (MOST_AGE_S - 600 + 1) * NS_PER_S)
    assert waiting(outbox) == [telemetry(2), telemetry(3), telemetry(4)]
    assert outbox.dropped == {"telemetry": 1}
    outbox.close()


def test_what_was_dropped_is_told_once_even_by_the_next_process(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "o")
    outbox.put([telemetry(1), event(1)], NOW_NS)
    outbox.put([telemetry(2)], NOW_NS + (MOST_AGE_S + 1) * NS_PER_S)
    outbox.close()
    again = Outbox(tmp_path / "o")
    assert again.tell_dropped() == {"telemetry": 1, "event": 1}
    assert again.tell_dropped() == {}
    again.close()
    last = Outbox(tmp_path / "o")
    assert last.dropped == {}
    last.close()


def test_without_a_folder_messages_wait_in_memory(tmp_path: Path) -> None:
    """The reason is there, and memory is bounded."""
    (tmp_path / "file").write_text("no folder")
    outbox = Outbox(tmp_path / "file" / "o")
    assert "messages wait in memory" in outbox.problem
    outbox.put([telemetry(number, 100_000) for number in range(100)], NOW_NS)
    left = waiting(outbox)
    assert left == [telemetry(number, 100_000) for number in range(100 - len(left), 100)]
    assert 30 < len(left) < 42
    assert outbox.dropped["telemetry"] == 100 - len(left)
    outbox.close()


def test_a_disk_that_becomes_full_loses_nothing(tmp_path: Path) -> None:
    """What waits goes to memory, in order, and is not there twice at the next start."""
    outbox = Outbox(tmp_path / "o")
    outbox.put([telemetry(number) for number in range(10)], NOW_NS)
    outbox._database.execute("PRAGMA max_page_count = 1")
    outbox.put([telemetry(number, 20_000) for number in range(10, 20)], NOW_NS)
    assert "full" in outbox.problem
    outbox.put([telemetry(20)], NOW_NS)
    assert [int(envelope.payload[:8]) for envelope in waiting(outbox)] == [*range(21)]
    assert outbox.dropped == {}
    outbox.close()
    again = Outbox(tmp_path / "o")
    assert (waiting(again), again.problem) == ([], "")
    again.close()


def test_a_damaged_file_is_set_aside(tmp_path: Path) -> None:
    """Named, and a new queue begins, at the start or later."""
    path = tmp_path / "o"
    outbox = Outbox(path)
    outbox.put([telemetry(number, 4_000) for number in range(100)], NOW_NS)
    outbox.close()
    torn = path.read_bytes()[:4_096].ljust(path.stat().st_size, b"\0")
    for content in (torn, b"no database" * 1_000):
        path.write_bytes(content)
        outbox = Outbox(path)
        assert "it is now o.damaged, and a new queue begins" in outbox.problem
        assert (tmp_path / "o.damaged").read_bytes() == content
        outbox.put([telemetry(1)], NOW_NS)
        assert waiting(outbox) == [telemetry(1)]
        outbox.close()
    path.unlink()

    with sqlite3.connect(path) as newer:
        newer.execute("PRAGMA user_version = 9")
    newer.close()
    outbox = Outbox(path)
    assert "format 9" in outbox.problem
    outbox.close()


def test_damage_while_it_is_open_is_survived(tmp_path: Path) -> None:
    """What cannot be read any more is counted as dropped."""
    path = tmp_path / "o"
    outbox = Outbox(path)
    outbox.put([telemetry(number, 4_000) for number in range(100)], NOW_NS)
    outbox._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    outbox._database.execute("PRAGMA cache_size = 0")
    with path.open("r+b") as file:
        file.seek(4_096)
        file.write(b"\xff" * (path.stat().st_size - 4_096))
    outbox.put([telemetry(100)], NOW_NS)
    left = waiting(outbox)
    assert left[-1] == telemetry(100)
    assert len(left) + outbox.dropped["telemetry"] == 101
    outbox.close()


def test_a_second_process_does_not_share_the_file(tmp_path: Path) -> None:
    """It has its own memory, and says why."""
    first = Outbox(tmp_path / "o")
    second = Outbox(tmp_path / "o")
    assert "locked" in second.problem
    second.put([telemetry(1)], NOW_NS)
    assert (waiting(first), waiting(second)) == ([], [telemetry(1)])
    first.close()
    second.close()
