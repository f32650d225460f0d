from __future__ import annotations

import pytest

from trnfleet.clock import format_rfc3339
from trnfleet.errors import WireError
from trnfleet.export.election import GONE_S, Election
from trnfleet.wire.messages import PublisherMessage, encode_message

SECOND = 1_000_000_000


def presence(client: str, since_ns: int | None, state: str = "online", role: str = "watch") -> bytes:
    since = None if since_ns is None else format_rfc3339(since_ns)
    return encode_message(
        PublisherMessage.model_validate(
            {"client": client, "state": state, "boot": "b", "role": role, "since": since}
        )
    )


def test_the_one_that_began_first_speaks() -> None:
    """The watch that began first leads, ties go by the client id, and simulators do not count."""
    election = Election("watch-m", 5 * SECOND)
    assert election.leader(0) == "watch-m"
    election.take("sim", presence("sim", None, role="telemetry"), 0)
    election.take("watch-z", presence("watch-z", 5 * SECOND), 0)
    assert election.leader(0) == "watch-m"
    election.take("watch-a", presence("watch-a", 5 * SECOND), 0)
    assert election.leader(0) == "watch-a"
    election.take("watch-b", presence("watch-b", 4 * SECOND), 0)
    assert election.leader(0) == "watch-b"
    assert election.others(0) == ["watch-b", "watch-a", "watch-z"]


@pytest.mark.parametrize("farewell", [presence("watch-a", SECOND, "offline"), b""])
def test_the_next_one_takes_over(farewell: bytes) -> None:
    """A last will and a cleared message both let the next one speak."""
    election = Election("watch-m", 5 * SECOND)
    election.take("watch-a", presence("watch-a", SECOND), 0)
    assert election.leader(0) == "watch-a"
    election.take("watch-a", farewell, 1)
    assert election.leader(1) == "watch-m"


def test_a_message_that_outlived_its_watch_counts_for_a_while_only() -> None:
    """Without a heartbeat a watch is gone at `GONE_S`, not a moment before; a lost connection makes none gone."""
    election = Election("watch-m", 5 * SECOND)
    election.take("watch-a", presence("watch-a", SECOND), 0)
    assert election.leader(GONE_S - 0.001) == "watch-a"
    assert election.leader(GONE_S) == "watch-m"
    election.reset_heartbeats(GONE_S)
    assert election.leader(GONE_S + 1) == "watch-a"


def test_what_is_no_presence_is_refused() -> None:
    """A watch without a beginning, and one under another's name, do not count."""
    election = Election("watch-m", 5 * SECOND)
    with pytest.raises(WireError):
        election.take("watch-a", presence("watch-a", None), 0)
    election.take("watch-a", presence("watch-b", SECOND), 0)
    assert election.leader(0) == "watch-m"
