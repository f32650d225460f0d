from __future__ import annotations

import msgspec
import pytest

from trnfleet.clock import format_rfc3339
from trnfleet.domain.alerts.watches import DOUBT_S, GONE_S
from trnfleet.errors import WireError
from trnfleet.export.election import LISTEN_S, Attendance, Election
from trnfleet.wire.messages import WatchMessage, decode_message, encode_message
from trnfleet.wire.values import LATEST_NS

SECOND = 1_000_000_000
NOW_NS = 1_000 * SECOND


def presence(
    client: str,
    since_ns: int | None,
    state: str = "online",
    role: str = "watch",
    *,
    leads: bool | None = None,
    boot: str = "b",
) -> bytes:
    since = None if since_ns is None else format_rfc3339(since_ns)
    return encode_message(
        msgspec.convert(
            {
                "client": client,
                "state": state,
                "boot": boot,
                "role": role,
                "since": since,
                "leads": leads,
            },
            WatchMessage,
        )
    )


def take(
    election: Election, client: str, payload: bytes, now_s: float, *, is_retained: bool = False
) -> bool:
    """Let an election take a message; the wall clock goes with the other."""
    return election.hear(
        client, payload, now_s, NOW_NS + round(now_s * SECOND), is_retained=is_retained
    )


@pytest.fixture
def election() -> Election:
    return Election("watch-m", 5 * SECOND)


def test_the_one_that_began_first_speaks(election: Election) -> None:
    """The watch that began first leads, ties go by client id, simulators do not count."""
    assert election.leader(0) == "watch-m"
    take(election, "sim", presence("sim", None, role="telemetry"), 0)
    take(election, "watch-z", presence("watch-z", 5 * SECOND), 0)
    assert election.leader(0) == "watch-m"
    take(election, "watch-a", presence("watch-a", 5 * SECOND), 0)
    assert election.leader(0) == "watch-a"
    take(election, "watch-b", presence("watch-b", 4 * SECOND), 0)
    assert election.leader(0) == "watch-b"


@pytest.mark.parametrize("farewell", [presence("watch-a", SECOND, "offline"), b""])
def test_the_next_one_takes_over(election: Election, farewell: bytes) -> None:
    """A last will and a cleared message both let the next one speak."""
    take(election, "watch-a", presence("watch-a", SECOND), 0)
    assert election.leader(0) == "watch-a"
    take(election, "watch-a", farewell, 1)
    assert election.leader(1) == "watch-m"


def test_a_message_that_outlived_its_watch_counts_for_a_while_only(election: Election) -> None:
    """Without a heartbeat a watch is gone exactly at `GONE_S`.

    A lost connection makes none gone.
    """
    take(election, "watch-a", presence("watch-a", SECOND), 0)
    assert election.leader(GONE_S - 0.001) == "watch-a"
    assert election.leader(GONE_S) == "watch-m"
    election.listen(GONE_S)
    assert election.leader(GONE_S + DOUBT_S - 0.001) == "watch-a"
    assert election.leader(GONE_S + DOUBT_S) == "watch-m"


def test_what_is_no_presence_is_refused(election: Election) -> None:
    """A watch without a beginning, and one under another's name, do not count."""
    with pytest.raises(WireError):
        take(election, "watch-a", presence("watch-a", None), 0)
    take(election, "watch-a", presence("watch-b", SECOND), 0)
    assert election.leader(0) == "watch-m"


def test_a_retained_message_is_no_heartbeat(election: Election) -> None:
    """It marks its watch as in doubt for a while, however often it arrives.

    Its start time does not prove presence.
    """
    assert not take(election, "watch-a", presence("watch-a", SECOND), 0, is_retained=True)
    assert election.leader(DOUBT_S - 0.001) == "watch-a"
    assert election.leader(DOUBT_S) == "watch-m"
    assert take(election, "watch-a", presence("watch-a", SECOND), 20)
    assert not take(election, "watch-a", presence("watch-a", SECOND), 21)
    assert election.leader(21 + GONE_S - 0.001) == "watch-a"


def test_who_comes_later_gets_no_older(election: Election) -> None:
    """A newcomer claiming an early start ranks by its first heartbeat, even after a reboot."""
    assert not election.take_part(2)
    take(election, "evil", presence("evil", 0), 10)
    assert election.leader(10) == "watch-m"
    take(election, "evil", presence("evil", 0, "offline"), 11)
    take(election, "evil", presence("evil", 0, boot="c"), 12)
    assert election.leader(12) == "watch-m"


@pytest.mark.parametrize("begun_ns", [5 * SECOND, 50 * SECOND])
def test_who_finds_a_leader_ranks_behind_it(begun_ns: int) -> None:
    """A newcomer ranks behind a leader it hears, even if clocks differ."""
    election = Election("watch-m", 10 * SECOND)
    take(election, "watch-a", presence("watch-a", begun_ns, leads=True), 1)
    assert election.take_part(2) == (begun_ns > 10 * SECOND)
    assert election.leader(2) == "watch-a"
    assert election.since_ns > begun_ns
    assert election.rivals(2) == ["watch-a"]


def test_a_leader_of_the_latest_time_leaves_one_that_can_be_said() -> None:
    """Behind a watch that claims to have begun at the end of 2199 there is no later time."""
    election = Election("watch-m", NOW_NS)
    latest = presence("watch-a", LATEST_NS - LATEST_NS % 10**6, leads=True)
    take(election, "watch-a", latest, 0)
    election.take_part(LISTEN_S)
    assert election.leader(LISTEN_S) == "watch-a"
    assert presence("watch-m", election.since_ns)


def test_who_finds_a_leader_ranks_behind_those_on_standby_too() -> None:
    """Newcomer and standby agree on the next leader."""
    election = Election("watch-m", 10 * SECOND)
    standby = Election("watch-b", 20 * SECOND)
    for each, other in ((election, "watch-b"), (standby, "watch-m")):
        take(each, "watch-a", presence("watch-a", 15 * SECOND, leads=True), 1)
        if each is election:
            take(each, other, presence(other, 20 * SECOND, leads=False), 1)
    standby.take_part(2)
    take(standby, "watch-m", presence("watch-m", 10 * SECOND, leads=False), 2)
    assert election.take_part(4)
    take(standby, "watch-m", presence("watch-m", election.since_ns, leads=False), 4)
    for each in (election, standby):
        take(each, "watch-a", b"", 5)
        assert each.leader(5) == "watch-b"


def test_a_leader_that_is_only_retained_is_not_found() -> None:
    """A retained message of a possibly dead leader changes no rank."""
    election = Election("watch-m", 10 * SECOND)
    take(election, "watch-a", presence("watch-a", 50 * SECOND, leads=True), 1, is_retained=True)
    assert not election.take_part(2)
    assert (election.since_ns, election.rivals(2)) == (10 * SECOND, [])


def test_a_leader_that_was_in_doubt_is_found_late() -> None:
    """Its late first heartbeat moves a watch behind it.

    One after the doubt, or of a standby, does not.
    """
    for at_s, leads, is_found in ((10, True, True), (1 + DOUBT_S, True, False), (10, False, False)):
        election = Election("watch-m", 10 * SECOND)
        take(election, "watch-a", presence("watch-a", 50 * SECOND, leads=True), 1, is_retained=True)
        election.take_part(2)
        assert election.leader(2) == "watch-m"
        take(election, "watch-a", presence("watch-a", 50 * SECOND, leads=leads), at_s)
        assert election.leader(at_s) == ("watch-a" if is_found else "watch-m")
        assert (election.since_ns > 50 * SECOND) == is_found
        # What comes later is no news.
        take(election, "watch-a", presence("watch-a", 50 * SECOND, leads=True), at_s + 1)
        assert (election.since_ns > 50 * SECOND) == is_found


def test_a_replaced_watch_leads_nobody_until_it_starts_again(election: Election) -> None:
    """Neither time nor heartbeats change that; after another start it ranks as a newcomer."""
    old = presence("watch-a", SECOND, leads=True)
    take(election, "watch-a", old, 0)
    election.take_part(0)
    election.replace("watch-a")
    for at_s in (1, 20, GONE_S + 60):
        take(election, "watch-a", old, at_s)
        assert election.leader(at_s) == "watch-m"
        assert election.rivals(at_s) == ["watch-a"]
        assert election.successors(at_s) == set()
    take(election, "watch-a", presence("watch-a", SECOND, boot="c"), 100)
    assert election.leader(100) == "watch-m"
    take(election, "watch-m2", presence("watch-m2", 500 * SECOND, "offline"), 100)
    assert election.leader(100) == "watch-m"


def test_a_replaced_watch_that_has_stepped_back_may_lead_in_the_absence_of_this_one(
    election: Election,
) -> None:
    """Else both would lead once this watch is back. A later claim alone does not help it."""
    take(election, "watch-a", presence("watch-a", SECOND, leads=True), 0)
    election.take_part(0)
    election.replace("watch-a")
    take(election, "watch-a", presence("watch-a", 2 * SECOND, leads=True), 1)
    assert election.leader(1) == "watch-m"
    take(election, "watch-a", presence("watch-a", 6 * SECOND, leads=False), 2)
    assert election.leader(2) == "watch-m"
    election.listen(60)
    take(election, "watch-a", presence("watch-a", 6 * SECOND, leads=True), 60)
    assert election.take_part(60)
    assert election.leader(60) == "watch-a"


def test_who_steps_back_ranks_behind_all() -> None:
    """Its successor leads for everybody, even if that one had been replaced here before."""
    election = Election("watch-a", SECOND)
    take(election, "watch-b", presence("watch-b", 2 * SECOND, leads=False), 0)
    take(election, "watch-c", presence("watch-c", 3 * SECOND, leads=False), 0)
    election.take_part(0)
    assert election.successors(0) == set()
    election.replace("watch-b")
    take(election, "watch-b", presence("watch-b", 2 * SECOND, leads=True), 1)
    assert election.successors(1) == {"watch-b"}
    assert election.leader(1) == "watch-a"
    election.step_back(1)
    assert election.leader(1) == "watch-b"
    assert election.since_ns > 3 * SECOND


def test_a_beginning_counts_as_it_is_written() -> None:
    """Two starts within one millisecond are equal, so the client id decides."""
    first = Election("watch-a", 1_700_000)
    second = Election("watch-m", 1_200_000)
    take(first, "watch-m", presence("watch-m", 1_200_000), 0)
    take(second, "watch-a", presence("watch-a", 1_700_000), 0)
    assert first.leader(0) == second.leader(0) == "watch-a"


def test_only_a_leader_that_is_not_replaced_moves_others_back() -> None:
    """A standby, a replaced leader or one a tick older changes no newcomer's rank."""
    tick_ns = SECOND // 1_000
    alone, replacing, next_tick = (
        Election("watch-m", begun_ns)
        for begun_ns in (10 * SECOND, 10 * SECOND, 50 * SECOND + tick_ns)
    )
    take(alone, "watch-b", presence("watch-b", 50 * SECOND, leads=False), 1)
    for election in (replacing, next_tick):
        take(election, "watch-a", presence("watch-a", 50 * SECOND, leads=True), 1)
    replacing.replace("watch-a")
    for election in (alone, replacing, next_tick):
        before_ns = election.since_ns
        assert not election.take_part(2)
        assert election.since_ns == before_ns


def test_a_retained_message_takes_no_time_from_a_heartbeat(election: Election) -> None:
    """A retained message after a reconnect does not shorten a heard watch's presence."""
    take(election, "watch-a", presence("watch-a", SECOND), 0)
    take(election, "watch-a", presence("watch-a", SECOND), 1, is_retained=True)
    assert election.leader(GONE_S - 0.001) == "watch-a"
    assert election.leader(GONE_S) == "watch-m"


def test_another_boot_of_the_same_name_is_another_watch() -> None:
    """A new boot's first heartbeat is answered and sets its rank."""
    election = Election("watch-m", NOW_NS)
    election.take_part(0)
    early = presence("watch-a", SECOND)
    election.listen(0)
    take(election, "watch-a", early, 0)
    election.take_part(1)
    assert election.leader(1) == "watch-a"
    assert not take(election, "watch-a", early, 2)
    assert take(election, "watch-a", presence("watch-a", SECOND, boot="c"), 3)
    assert election.leader(3) == "watch-m"


def test_only_one_that_listens_is_answered_again() -> None:
    """A listening watch, without leading or alerts yet, is answered again; a standby is not."""
    election = Election("watch-m", SECOND)
    election.take_part(0)
    for firing, is_answered in ((None, True), (0, False)):
        beat = msgspec.convert(
            {
                "client": "watch-a",
                "state": "online",
                "boot": "b",
                "role": "watch",
                "leads": False,
                "firing": firing,
                "since": format_rfc3339(5 * SECOND),
            },
            WatchMessage,
        )
        take(election, "watch-a", encode_message(beat), 1)
        assert take(election, "watch-a", encode_message(beat), 2) == is_answered


def test_a_newcomer_ranks_behind_one_that_ranks_behind_a_leader() -> None:
    """A leader's successor stays in front of later watches.

    The leader's clock was an hour ahead.
    """
    election = Election("watch-m", NOW_NS)
    election.listen(0)
    take(election, "watch-a", presence("watch-a", NOW_NS + 3_600 * SECOND, leads=True), 1)
    assert election.take_part(2)
    take(election, "watch-a", b"", 3)
    take(election, "watch-b", presence("watch-b", NOW_NS + SECOND, leads=False), 4)
    assert election.leader(4) == "watch-m"


def test_only_those_of_the_same_role_and_cell_take_part() -> None:
    """Watches passed on by a relay and relays of other cells are not rivals."""
    message = decode_message(presence("a", SECOND, leads=True), WatchMessage)
    of_cell = encode_message(msgspec.structs.replace(message, cell="cell-a"))
    relay = encode_message(msgspec.structs.replace(message, cell="cell-a", role="relay"))
    for election, taken in (
        (Election("m", NOW_NS), presence("a", SECOND, leads=True)),
        (Election("m", NOW_NS, role="relay", cell="cell-a"), relay),
        (Election("m", NOW_NS, role="relay", cell="cell-b"), None),
    ):
        for payload in (of_cell, relay, presence("a", SECOND, leads=True)):
            take(election, "a", payload, 0)
            assert election.rivals(0) == (["a"] if payload == taken else [])


@pytest.mark.parametrize(("leads", "leader"), [(False, "watch-m"), (True, "watch-a")])
def test_one_that_was_gone_and_does_not_lead_ranks_as_a_newcomer(leads: bool, leader: str) -> None:
    """A stopped watch ranks as a newcomer; an unheard leader still leads."""
    election = Election("watch-m", NOW_NS)
    take(election, "watch-a", presence("watch-a", NOW_NS - SECOND, leads=True), 0)
    election.take_part(1)
    back_s = GONE_S + 1.0
    assert election.leader(back_s) == "watch-m"
    take(election, "watch-a", presence("watch-a", NOW_NS - SECOND, leads=leads), back_s)
    assert election.leader(back_s) == leader


def test_a_process_that_did_not_run_listens_again() -> None:
    """After a pause long enough to count as gone; a shorter pause changes nothing."""
    attendance = Attendance(GONE_S)
    assert attendance.was_away(0.0, is_up=True, connects=1)
    assert attendance.begins(0.0)
    assert not attendance.was_away(LISTEN_S, is_up=True, connects=1)
    assert attendance.has_listened(LISTEN_S)
    assert not attendance.was_away(LISTEN_S + GONE_S - 0.1, is_up=True, connects=1)
    assert attendance.was_away(LISTEN_S + 2 * GONE_S, is_up=True, connects=1)
    assert (attendance.paused_s > GONE_S, attendance.has_listened(LISTEN_S + 2 * GONE_S)) == (
        True,
        False,
    )
