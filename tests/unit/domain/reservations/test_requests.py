"""Requests, one a row: time, arguments, and the answer or the rule that refuses it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import pytest
from support.sim.capacity_account import (
    DAY_NS,
    MINUTE_NS,
    NOW_NS,
    TRN1,
    TRN2,
    TRN2U,
    at,
    buy,
    enter,
    ledger_of,
    pool_of,
)

from trnfleet.domain.reservations.rules import Rule, RuleViolation
from trnfleet.domain.reservations.search import SearchRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnfleet.domain.reservations.ledger import Ledger


class Account(NamedTuple):
    """The account at 10:00 UTC on Monday, 5 January 2026."""

    ledger: Ledger
    ids: dict[str, str]


class Look(NamedTuple):
    """Look for offerings."""

    days: int
    instance_type: str | None = TRN2
    instances: int | None = None
    ultraservers: int | None = None
    zone: str | None = None
    start: str | None = None
    end: str | None = None

    def search_request(self) -> SearchRequest:
        start, end = (None if each is None else at(each) for each in (self.start, self.end))
        kind = (
            None
            if self.ultraservers is not None and self.instance_type == TRN2
            else self.instance_type
        )
        return SearchRequest(
            self.days, kind, self.instances, self.ultraservers, self.zone, start, end
        )

    def ask(self, account: Account) -> None:
        assert account.ledger.offerings(self.search_request())


class Buy(NamedTuple):
    """Search at 10:00, and buy the first offering at the row's time.

    `after` is bought in between.
    """

    look: Look
    after: Look | None = None

    def ask(self, account: Account) -> None:
        ledger = account.ledger
        account.ledger.buy(
            account.ids.get("offering") or ledger.offerings(self.look.search_request())[0].id
        )


class Named(NamedTuple):
    """Buy an offering by its id."""

    id: str

    def ask(self, account: Account) -> None:
        account.ledger.buy(self.id)


class Longer(NamedTuple):
    """Look for an extension of a block, and buy it."""

    block: str
    days: int

    def ask(self, account: Account) -> None:
        block_id = account.ids.get(self.block, self.block)
        before = account.ledger.blocks.get(block_id)
        (offering,) = account.ledger.extension_offerings(block_id, self.days)
        block = account.ledger.extend(offering.id)
        assert before is not None
        assert block.held_until_ns == before.end_ns + self.days * DAY_NS


class Cancel(NamedTuple):
    """Cancel a block."""

    block: str

    def ask(self, account: Account) -> None:
        account.ledger.cancel(account.ids.get(self.block, self.block))


Request = Look | Buy | Named | Longer | Cancel


class Row(NamedTuple):
    """A request, its time in 2026, the refusing rule, and figures in the refusal."""

    search_request: Request
    now: str = "01-05 10:00"
    rule: Rule | None = None
    says: tuple[str, ...] = ()


def account() -> Account:
    """Open an account with blocks in many states.

    Zone a has 70 trn2.48xlarge, 2 trn1.32xlarge and an UltraServer, zone b 5 trn2.48xlarge and
    another UltraServer.
    """
    pool = pool_of((TRN2, "a", 70), (TRN1, "a", 2), (TRN2, "b", 5), ultraservers=["a", "b"])
    ledger = ledger_of(pool)
    blocks = {
        "active": (TRN2, [80], "2026-01-03", "2026-01-10", "succeeded"),
        "scheduled": (TRN2, [81], "2026-01-08", "2026-01-15", "succeeded"),
        "expired": (TRN2, [82], "2026-01-01", "2026-01-03", "succeeded"),
        "unpaid": (TRN2, [82], "2026-01-20", "2026-01-27", "pending"),
        "failed": (TRN2, [82], "2026-02-20", "2026-02-27", "failed"),
        "long": (TRN2, [83], "2026-01-03", "2026-06-20", "succeeded"),
        "followed": (TRN2, [84], "2026-01-03", "2026-01-07", "succeeded"),
        "follower": (TRN2, [84], "2026-01-10", "2026-01-11", "succeeded"),
        "ultra": (TRN2U, [4, 5, 6, 7], "2026-01-03", "2026-01-10", "succeeded"),
    }
    ids = {}
    for name, (kind, places, start, end, payment) in blocks.items():
        ids[name] = enter(ledger, kind, places, f"{start} 11:30", f"{end} 11:30", payment).id
    return Account(ledger, ids)


ROWS = [
    # How long
    Row(Look(1)),
    Row(Look(14)),
    Row(Look(21)),
    Row(Look(182)),
    Row(Look(0), rule=Rule.DURATION, says=("not 0", "1 to 14")),
    Row(Look(-1), rule=Rule.DURATION, says=("not -1", "1 to 14")),
    Row(Look(15), rule=Rule.DURATION, says=("not 15", "1 to 14", "14 or 21")),
    Row(Look(20), rule=Rule.DURATION, says=("not 20", "14 or 21")),
    Row(Look(22), rule=Rule.DURATION, says=("not 22", "21 or 28")),
    Row(Look(181), rule=Rule.DURATION, says=("not 181", "up to 182", "175 or 182")),
    Row(Look(183), rule=Rule.DURATION, says=("not 183", "up to 182")),
    Row(Look(189), rule=Rule.DURATION, says=("not 189", "up to 182")),
    # What
    Row(Look(1, TRN1, 2)),
    Row(Look(1, TRN1, 3), rule=Rule.CAPACITY, says=("3 x trn1.32xlarge", "1 day", "2 instances")),
    Row(
        Look(1, "trn1.2xlarge"),
        rule=Rule.NOT_SOLD,
        says=(
            "trn1.2xlarge",
            "sold: trn1.32xlarge, trn2.3xlarge, trn2.48xlarge, UltraServers (u-trn2x64)",
            "did you mean 'trn1.32xlarge'?",
        ),
    ),
    Row(
        Look(1, "trn1n.32xlarge"),
        rule=Rule.NOT_SOLD,
        says=("trn1n.32xlarge", "did you mean 'trn1.32xlarge'?"),
    ),
    Row(
        Look(1, "trn2.3xlarge"),
        rule=Rule.INSTANCE_TYPE,
        says=("no trn2.3xlarge here", "did you mean 'trn2.48xlarge'?"),
    ),
    Row(Look(1, "p5.48xlarge"), rule=Rule.INSTANCE_TYPE, says=("no p5.48xlarge here",)),
    Row(Look(1, None), rule=Rule.INSTANCE_TYPE, says=("choose from trn1.32xlarge, trn2.48xlarge",)),
    Row(
        Look(1, "trn2.48xlarg"),
        rule=Rule.INSTANCE_TYPE,
        says=("no trn2.48xlarg here", "did you mean 'trn2.48xlarge'?"),
    ),
    Row(Look(1, ""), rule=Rule.INSTANCE_TYPE, says=("choose from trn1.32xlarge, trn2.48xlarge",)),
    Row(Look(1, TRN2U, 4), rule=Rule.ULTRASERVER_ONLY, says=(TRN2U,)),
    Row(Look(1, TRN2U), rule=Rule.ULTRASERVER_ONLY, says=("sold as an UltraServer only",)),
    Row(Look(1, ultraservers=1)),
    Row(Look(1, TRN2U, ultraservers=1)),
    Row(Look(1, instances=4, ultraservers=1)),
    Row(Look(1, instances=3, ultraservers=1), rule=Rule.ULTRASERVER_ONLY, says=("not 3", "has 4")),
    Row(Look(1, instances=8, ultraservers=1), rule=Rule.ULTRASERVER_ONLY, says=("not 8", "has 4")),
    Row(Look(1, TRN1, ultraservers=1), rule=Rule.INSTANCE_TYPE, says=(TRN1, TRN2U)),
    Row(Look(1, ultraservers=2), rule=Rule.ONE_ULTRASERVER, says=("not 2", "one UltraServer")),
    Row(Look(1, ultraservers=0), rule=Rule.ONE_ULTRASERVER, says=("not 0", "one UltraServer")),
    # How many
    Row(Look(1, instances=64)),
    Row(Look(1, instances=65), rule=Rule.BLOCK_SIZE, says=("not 65", "1 to 64")),
    Row(Look(1, instances=0), rule=Rule.BLOCK_SIZE, says=("not 0", "1 to 64")),
    Row(Look(1, instances=-1), rule=Rule.BLOCK_SIZE, says=("not -1", "1 would fit")),
    Row(Look(1, instances=10**6), rule=Rule.BLOCK_SIZE, says=("not 1000000", "64 would fit")),
    # Where
    Row(Look(1, zone="a")),
    Row(Look(1, zone="b")),
    Row(Look(1, ultraservers=1, zone="a")),
    Row(Look(1, zone="c"), rule=Rule.SINGLE_ZONE, says=("'c'", "a, b")),
    Row(Look(1, TRN1, zone="b"), rule=Rule.SINGLE_ZONE, says=("'b'", TRN1)),
    Row(Look(1, zone=""), rule=Rule.SINGLE_ZONE, says=("''", "choose from a, b")),
    Row(Look(1, zone="a,b"), rule=Rule.SINGLE_ZONE, says=("'a,b'", "single zone")),
    Row(Look(1, zone="*"), rule=Rule.SINGLE_ZONE, says=("'*'", "single zone")),
    Row(
        Look(1, instances=6, zone="b"),
        rule=Rule.CAPACITY,
        says=("6 x trn2.48xlarge", "4 instances"),
    ),
    # When
    Row(Look(1, start="2026-01-05 10:30")),
    Row(Look(1, start="2026-01-05 10:31")),
    Row(
        Look(1, start="2026-01-05 10:29"),
        rule=Rule.STARTS_TOO_SOON,
        says=("10:29", "30 minutes", "10:30"),
    ),
    Row(
        Look(1, start="2026-01-04 11:30"),
        rule=Rule.STARTS_TOO_SOON,
        says=("2026-01-04 11:30", "30 minutes"),
    ),
    Row(Look(1, start="2026-03-02 10:00")),
    Row(
        Look(1, start="2026-03-02 10:01"),
        rule=Rule.STARTS_TOO_LATE,
        says=("10:01", "8 weeks", "2026-03-02 10:00"),
    ),
    Row(Look(1, end="2026-01-05 11:30")),
    Row(
        Look(1, end="2026-01-05 11:29"),
        rule=Rule.DATES,
        says=("2026-01-05 11:30", "2026-01-05 11:29"),
    ),
    Row(
        Look(2, end="2026-01-05 11:30"),
        rule=Rule.DATES,
        says=("2 days", "2026-01-06 11:30", "1 would fit"),
    ),
    Row(
        Look(28, end="2026-01-29 11:30"),
        rule=Rule.DATES,
        says=("28 days", "2026-01-29 11:30", "21 would fit"),
    ),
    Row(
        Look(1, start="2026-01-08 00:00", end="2026-01-07 00:00"),
        rule=Rule.DATES,
        says=("2026-01-07 00:00", "nothing fits in between"),
    ),
    Row(
        Look(1, start="2026-01-05 10:31", end="2026-01-05 11:30"),
        rule=Rule.DURATION,
        says=("60 minutes", "not 59"),
    ),
    Row(
        Look(1, start="2026-01-05 11:00", end="2026-01-05 11:30"),
        rule=Rule.DURATION,
        says=("60 minutes", "not 30", "nothing fits in between"),
    ),
    Row(Look(1, start="2026-03-02 11:00"), now="01-05 11:10"),
    # What is free
    Row(Look(1, ultraservers=1, zone="b")),
    Row(
        Look(5, ultraservers=1, zone="b", end="2026-01-14 11:30"),
        rule=Rule.CAPACITY,
        says=("5 days", "4 days", "2026-01-10 11:30"),
    ),
    Row(Look(4, ultraservers=1, zone="b", end="2026-01-14 11:30")),
    Row(
        Look(1, instances=5, zone="b", end="2026-06-19 11:30"),
        rule=Rule.CAPACITY,
        says=("5 x", "1 day", "4 instances"),
    ),
    Row(Look(14, instances=64, end="2026-01-24 11:30")),
    # Buying
    Row(Buy(Look(1))),
    Row(Buy(Look(2, start="2026-01-05 10:40")), now="01-05 10:10"),
    Row(
        Buy(Look(2, start="2026-01-05 10:40")),
        "01-05 10:11",
        Rule.STARTS_TOO_SOON,
        ("10:40", "10:41"),
    ),
    Row(Buy(Look(1, start="2026-01-07 11:30")), now="01-06 09:59"),
    Row(
        Buy(Look(1, start="2026-01-07 11:30")), "01-06 10:00", Rule.OFFERING, ("2026-01-06 10:00",)
    ),
    Row(
        Buy(Look(1, ultraservers=1, zone="a"), after=Look(1, ultraservers=1, zone="a")),
        rule=Rule.CAPACITY,
        says=("sold meanwhile",),
    ),
    Row(
        Buy(Look(1, TRN1, 2), after=Look(1, TRN1, 1)), rule=Rule.CAPACITY, says=("sold meanwhile",)
    ),
    Row(Buy(Look(1, TRN1, 1), after=Look(1, TRN1, 1))),
    Row(Named("cbo-0123456789abcdef0"), rule=Rule.OFFERING, says=("cbo-0123456789abcdef0",)),
    # Extending
    Row(Longer("active", 1)),
    Row(Longer("active", 14)),
    Row(Longer("active", 175)),
    Row(Longer("scheduled", 7)),
    Row(Longer("ultra", 1)),
    Row(Longer("active", 15), rule=Rule.DURATION, says=("an extension", "not 15", "14 or 21")),
    Row(Longer("active", 0), rule=Rule.DURATION, says=("not 0", "1 to 14")),
    Row(Longer("active", 22), rule=Rule.DURATION, says=("an extension", "not 22", "up to 182")),
    Row(
        Longer("active", 182), rule=Rule.EXTENSION_TOTAL, says=("189 days", "182", "175 more days")
    ),
    Row(Longer("active", 1), now="01-10 10:29"),
    Row(
        Longer("active", 1), "01-10 10:30", Rule.EXTENSION_TOO_LATE, ("an hour", "2026-01-10 10:30")
    ),
    Row(
        Longer("active", 1),
        "01-10 11:30",
        Rule.EXTENSION_STATE,
        ("expired", "active and scheduled"),
    ),
    Row(Longer("expired", 1), rule=Rule.EXTENSION_STATE, says=("expired",)),
    Row(Longer("unpaid", 1), rule=Rule.EXTENSION_STATE, says=("payment-pending",)),
    Row(Longer("failed", 1), rule=Rule.EXTENSION_STATE, says=("payment-failed",)),
    Row(
        Longer("long", 1), "04-25 11:29", Rule.EXTENSION_TOO_EARLY, ("56 days", "2026-04-25 11:30")
    ),
    Row(Longer("long", 1), now="04-25 11:30"),
    Row(Longer("long", 14), now="06-01 00:00"),
    Row(
        Longer("long", 21), "06-01 00:00", Rule.EXTENSION_TOTAL, ("189 days", "182", "14 more days")
    ),
    Row(Longer("followed", 3)),
    Row(Longer("followed", 4), rule=Rule.CAPACITY, says=("4 days", "3 more days")),
    Row(Longer("followed", 28), rule=Rule.CAPACITY, says=("28 days", "3 more days")),
    Row(Longer("nothing", 1), rule=Rule.NO_SUCH_BLOCK, says=("'nothing'",)),
    # Cancelling
    Row(Cancel("active"), rule=Rule.NOT_CANCELLABLE, says=("paid up front", "2026-01-10 11:30")),
    Row(Cancel("scheduled"), rule=Rule.NOT_CANCELLABLE, says=("2026-01-15 11:30",)),
    Row(Cancel("unpaid"), rule=Rule.NOT_CANCELLABLE, says=("2026-01-27 11:30",)),
    Row(Cancel("nothing"), rule=Rule.NO_SUCH_BLOCK, says=("'nothing'",)),
]


def called(row: Row) -> str:
    return (
        f"{type(row.search_request).__name__.lower()}-{row.rule.value if row.rule else 'accepted'}"
    )


def prepare(row: Row) -> Account:
    """Open the account, and let time pass to the row's."""
    opened = account()
    search_request = row.search_request
    if isinstance(search_request, Buy):
        opened.ids["offering"] = opened.ledger.offerings(search_request.look.search_request())[0].id
        if search_request.after is not None:
            buy(opened.ledger, search_request.after.search_request())
    opened.ledger.advance(at(f"2026-{row.now}"))
    return opened


UTC = r"(\d{4}-\d\d-\d\d \d\d:\d\d) UTC"


def fits(row: Row, text: str) -> Iterator[tuple[str, Request]]:
    """Yield a refusal's accepted alternatives, as time and request."""
    search_request = row.search_request
    now = row.now
    if isinstance(search_request, Longer):
        for days in re.findall(r"(\d+)(?= or \d+ would fit| would fit| more days would fit)", text):
            yield now, search_request._replace(days=int(days))
        if found := re.search(rf"before its end on: {UTC}", text):
            yield found[1].removeprefix("2026-"), search_request
    elif isinstance(search_request, Buy) and re.search("look( for offerings)? again", text):
        yield now, search_request.look._replace(start=None)
    elif isinstance(search_request, Look):
        yield from ((now, each) for each in looks(search_request, row.rule, text))


def looks(search_request: Look, rule: Rule | None, text: str) -> Iterator[Look]:
    """Yield a refusal's suggested searches."""
    if rule is Rule.BLOCK_SIZE:
        yield search_request._replace(instances=int(re.findall(r"(\d+) would fit", text)[0]))
    elif rule in {Rule.DURATION, Rule.DATES}:
        for days in re.findall(r"(\d+)(?= or \d+ would fit| would fit)", text):
            yield search_request._replace(days=int(days))
    elif found := re.search(rf"{UTC} (would fit|is the latest)", text):
        yield search_request._replace(start=found[1])
    elif found := re.search(rf"(\d+) days from {UTC} on would fit", text):
        yield search_request._replace(days=int(found[1]), start=found[2])
    elif found := re.search(rf"(\d+) instances from {UTC} on would fit", text):
        yield search_request._replace(instances=int(found[1]), start=found[2])
    elif rule in {Rule.INSTANCE_TYPE, Rule.NOT_SOLD, Rule.SINGLE_ZONE}:
        key = "zone" if rule is Rule.SINGLE_ZONE else "instance_type"
        names = re.findall(r"did you mean '([^']+)'", text) or re.findall(r"choose from (.+)", text)
        for name in names[0].split(", ") if names else ():
            yield search_request._replace(**{key: name})
    elif rule is Rule.ONE_ULTRASERVER:
        yield search_request._replace(ultraservers=1)
    elif rule is Rule.ULTRASERVER_ONLY:
        yield search_request._replace(instance_type=None, instances=None, ultraservers=1)


def test_there_are_enough_rows() -> None:
    """Every rule except the account's size refuses a row, and many rows are accepted.

    The account's size needs a larger account.
    """
    refusals = [row for row in ROWS if row.rule is not None]
    assert len(ROWS) >= 60
    assert len(ROWS) - len(refusals) >= 25
    assert {row.rule for row in refusals} == set(Rule) - {Rule.ACCOUNT_SIZE, Rule.EXTENSION_PENDING}


@pytest.mark.parametrize("row", ROWS, ids=called)
def test_a_request(row: Row) -> None:
    """A request is accepted, or refused by its rule; the suggested choice is accepted."""
    opened = prepare(row)
    if row.rule is None:
        row.search_request.ask(opened)
        return
    changes = len(opened.ledger.changes)
    with pytest.raises(RuleViolation) as caught:
        row.search_request.ask(opened)
    text = str(caught.value)
    assert caught.value.rule is row.rule
    assert text.startswith(f"{row.rule.value}: ")
    assert [part for part in row.says if part not in text] == [], text
    assert len(opened.ledger.changes) == changes
    for now, search_request in fits(row, text):
        search_request.ask(prepare(row._replace(now=now)))


NAMING = (
    "would fit",
    "is the latest",
    "did you mean",
    "choose from",
    "look again",
    "which is 2026",
)


@pytest.mark.parametrize("row", [row for row in ROWS if row.rule is not None], ids=called)
def test_no_fit_is_left_out(row: Row) -> None:
    """Every suggestion of a refused search or extension is tried above."""
    opened = prepare(row)
    with pytest.raises(RuleViolation) as caught:
        row.search_request.ask(opened)
    text = str(caught.value)
    asks_for_capacity = (
        isinstance(row.search_request, (Look, Longer, Buy)) and row.rule is not Rule.NO_SUCH_BLOCK
    )
    if asks_for_capacity and any(part in text for part in NAMING):
        assert list(fits(row, text))


def test_a_pending_extension_in_the_table_s_account() -> None:
    """The second extension is refused until the first is paid."""
    opened = account()
    Longer("active", 1).ask(opened)
    opened.ledger.advance(NOW_NS + 5 * MINUTE_NS - 1)
    with pytest.raises(
        RuleViolation,
        match=r"^one-extension-payment-at-a-time: .* is pending until 2026-01-05 22:00 UTC",
    ):
        Longer("active", 1).ask(opened)
    opened.ledger.advance(NOW_NS + 5 * MINUTE_NS)
    Longer("active", 1).ask(opened)
