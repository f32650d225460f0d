"""Random programs of looking, buying, extending, waiting and failing, held against what is always so."""

from __future__ import annotations

import re
from copy import deepcopy
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st
from support.sim.capacity_account import (
    DAY_NS,
    HOUR_NS,
    MINUTE_NS,
    NOW_NS,
    TRN2,
    TRN2U,
    at,
    ledger_of,
    pool_of,
)

from trnfleet.domain.reservations import rules
from trnfleet.domain.reservations.blocks import ChangeKind, apply
from trnfleet.domain.reservations.rules import Refusal, Rule
from trnfleet.domain.reservations.search_request import SearchRequest
from trnfleet.domain.reservations.states import (
    EXTENDABLE,
    HOLDING,
    NEXT_BLOCK_STATES,
    BlockState,
    ExtensionState,
    InterconnectStatus,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnfleet.domain.reservations.blocks import Block, Change
    from trnfleet.domain.reservations.ledger import Ledger

MOST_INSTANCES = 9
"""Instead of 256, so that a small fleet can reach it."""
Step = tuple[Any, ...]

DAYS = st.sampled_from([1, 1, 2, 2, 3, 7, 14, 15, 28, 56, 182])
LEADS = st.sampled_from([2_400.0, 1_800.0, 600.0, 0.0, 7_200.0, 86_400.0])
MARKETS = st.fixed_dictionaries(
    {
        "payment_s": st.sampled_from([300.0, 300.0, 0.0, 20_000.0, 86_400.0]),
        "payment_window_s": st.sampled_from([43_200.0, 43_200.0, 43_200.0, 600.0, 0.0]),
        "failing_payments": st.sampled_from([0.0, 0.0, 0.3]),
        "warning_before_end_s": LEADS,
        "termination_before_end_s": LEADS,
        "ultraserver_termination_before_end_s": LEADS,
    }
)
STARTS = (
    st.none()
    | st.none()
    | st.integers(0, 24 * 3)
    | st.integers(0, 24 * 60).map(lambda hours: NOW_NS + hours * HOUR_NS)
)
ENDS = st.none() | st.none() | st.integers(1, 40).map(lambda days: NOW_NS + days * DAY_NS)
LOOKS = st.builds(
    SearchRequest,
    days=DAYS,
    instance_type=st.just(TRN2),
    instances=st.integers(1, 4),
    ultraservers=st.none(),
    zone=st.sampled_from([None, None, "a", "b"]),
    starts_from_ns=STARTS,
    ends_by_ns=ENDS,
) | st.builds(
    SearchRequest,
    days=DAYS,
    instance_type=st.none(),
    instances=st.none(),
    ultraservers=st.just(1),
    zone=st.none(),
    starts_from_ns=STARTS,
    ends_by_ns=ENDS,
)
WAITS = st.sampled_from(
    [0, 1, 6 * MINUTE_NS, 25 * MINUTE_NS, 3 * HOUR_NS, DAY_NS, DAY_NS, 5 * DAY_NS, 30 * DAY_NS]
)
PICK = st.integers(0, 3)
STEPS = st.one_of(
    st.tuples(st.just("look"), LOOKS),
    st.tuples(st.just("buy"), PICK),
    st.tuples(st.just("look_and_buy"), LOOKS),
    st.tuples(st.just("look_and_buy"), LOOKS),
    st.tuples(st.just("look_longer"), PICK, DAYS),
    st.tuples(st.just("extend"), PICK),
    st.tuples(st.just("look_longer_and_extend"), PICK, DAYS),
    st.tuples(st.just("look_longer_and_extend"), PICK, DAYS),
    st.tuples(st.just("wait"), WAITS),
    st.tuples(st.just("wait"), WAITS),
    st.tuples(st.just("wait_for_next"), st.sampled_from([0, -1, 1])),
    st.tuples(st.just("wait_for_next"), st.sampled_from([0, -1, 1])),
    st.tuples(st.just("health"), PICK, st.integers(0, 4), st.booleans()),
    st.tuples(st.just("health"), PICK, st.just(0), st.just(value=False)),
)
PROGRAMS = st.lists(STEPS, min_size=25, max_size=50)


class Run:
    """A ledger over two UltraServers and six instances in two zones, and the program that it is put through."""

    def __init__(self, market: dict[str, Any], pieces: int = 1) -> None:
        pool = pool_of((TRN2, "a", 4), (TRN2, "b", 2), ultraservers=["a", "b"])
        self.ledger: Ledger = ledger_of(pool, **market)
        self.pieces = pieces
        self.offered: list[str] = []
        self.longer: list[str] = []

    def take(self, step: Step) -> None:
        """Carry a step out; a refusal is an answer like any other."""
        name, *arguments = step
        before = len(self.ledger.changes)
        try:
            getattr(self, name)(*arguments)
        except Refusal as refusal:
            refused = refusal
        else:
            return
        assert str(refused).startswith(f"{refused.rule.value}: ")
        assert len(self.ledger.changes) == before

    def look(self, search_request: SearchRequest) -> None:
        try:
            found = self.ledger.offerings(search_request)
        except Refusal as refusal:
            self.check_fit(search_request, refusal)
            raise
        assert 1 <= len(found) <= rules.MOST_OFFERINGS
        assert [each.start_ns for each in found] == sorted(each.start_ns for each in found)
        for each in found:
            assert rules.is_end(each.end_ns)
            assert rules.days_of(each.start_ns, each.end_ns) == search_request.days
            assert each.start_ns >= self.ledger.now_ns + 30 * MINUTE_NS
            assert each.start_ns <= self.ledger.now_ns + 56 * DAY_NS
            assert each.end_ns - each.start_ns >= HOUR_NS
            assert search_request.starts_from_ns is None or each.start_ns >= search_request.starts_from_ns
            assert search_request.ends_by_ns is None or each.end_ns <= search_request.ends_by_ns
            assert search_request.zone in {None, each.zone}
        self.offered = [each.id for each in found] + self.offered[:10]

    def check_fit(self, search_request: SearchRequest, refusal: Refusal) -> None:
        """Hold what a refusal names against the ledger: it is for sale."""
        found = re.search(r"(\d+) (days|instances) from (\S+ \S+) UTC on would fit", str(refusal))
        if found is None:
            return
        days, instances = search_request.days, search_request.instances
        if found[2] == "days":
            days = int(found[1])
            assert days < search_request.days
        else:
            instances = int(found[1])
            assert instances < (search_request.instances or 0)
        fit = search_request._replace(days=days, instances=instances, starts_from_ns=at(found[3]))
        assert self.ledger.offerings(fit)[0].start_ns == at(found[3])

    def buy(self, pick: int) -> None:
        if pick < len(self.offered):
            self.ledger.buy(self.offered[pick])

    def look_and_buy(self, search_request: SearchRequest) -> None:
        self.look(search_request)
        self.buy(0)

    def look_longer_and_extend(self, pick: int, days: int) -> None:
        self.longer = []
        self.look_longer(pick, days)
        self.extend(0)

    def look_longer(self, pick: int, days: int) -> None:
        block = self.block(pick)
        if block is not None:
            try:
                (found,) = self.ledger.extension_offerings(block.id, days)
            except Refusal as refusal:
                fits = re.search(r"(\d+) more days would fit", str(refusal))
                if fits is not None:
                    self.ledger.extension_offerings(block.id, int(fits[1]))
                raise
            self.longer = [found.id, *self.longer[:4]]

    def extend(self, pick: int) -> None:
        if pick < len(self.longer):
            block = self.ledger.extend(self.longer[pick])
            assert block.state in EXTENDABLE

    def wait(self, span_ns: int) -> None:
        self.pass_to(self.ledger.now_ns + span_ns)

    def wait_for_next(self, off_ns: int) -> None:
        due_ns = self.ledger.next_change_ns()
        if due_ns is not None:
            self.pass_to(max(due_ns + off_ns, self.ledger.now_ns))

    def health(self, pick: int, unavailable: int, impaired: bool) -> None:
        block = self.block(pick)
        if block is not None:
            count = min(unavailable, len(block.places))
            for _, after in self.ledger.report_health(block.id, count, impaired=impaired):
                assert after.state is not BlockState.SCHEDULED
            after = self.ledger.blocks[block.id]
            if after.state in {BlockState.ACTIVE, BlockState.UNAVAILABLE}:
                assert after.unavailable == count
                assert after.interconnect in {
                    None,
                    InterconnectStatus.IMPAIRED if impaired else InterconnectStatus.OK,
                }

    def block(self, pick: int) -> Block | None:
        """Return one of the blocks that have not ended, or of all where there is none."""
        blocks = list(self.ledger.blocks.values())
        choice = [block for block in blocks if block.state in HOLDING] or blocks
        return choice[pick % len(choice)] if choice else None

    def pass_to(self, until_ns: int) -> None:
        """Let time pass, in so many pieces."""
        start_ns = self.ledger.now_ns
        for piece in range(1, self.pieces + 1):
            self.ledger.advance(start_ns + (until_ns - start_ns) * piece // self.pieces)
        assert self.ledger.now_ns == until_ns


def states(changes: list[Change]) -> Iterator[tuple[dict[str, Block], Block | None, Block]]:
    """Apply changes to nothing; yield all blocks, and the one that changes before and after, at each."""
    blocks: dict[str, Block] = {}
    for change in changes:
        before = blocks.get(change.block_id)
        after = apply(blocks, change)
        yield blocks, before, after


def check_blocks(ledger: Ledger) -> None:
    """Hold the blocks that there are against what is always so."""
    kept = [block for block in ledger.blocks.values() if block.state in HOLDING | {BlockState.EXPIRED}]
    for one, other in combinations(kept, 2):
        apart = one.held_until_ns <= other.start_ns or other.held_until_ns <= one.start_ns
        assert apart or not set(one.places) & set(other.places)
    for each in kept:
        at_once = [b for b in kept if b.start_ns <= each.start_ns < b.held_until_ns]
        assert sum(len(block.places) for block in at_once) <= MOST_INSTANCES
    for block in ledger.blocks.values():
        assert rules.is_end(block.end_ns)
        assert rules.is_end(block.held_until_ns)
        assert rules.days_of(block.start_ns, block.held_until_ns) <= 182
        zones = {str(ledger.pool.zone[place]) for place in block.places}
        kinds = {str(ledger.pool.instance_type[place]) for place in block.places}
        assert (zones, kinds) == ({block.offering.zone}, {block.offering.instance_type})
        assert len(block.places) == block.offering.instances
        if kinds == {TRN2U}:
            assert block.places in {(0, 1, 2, 3), (4, 5, 6, 7)}
        paid = [each for each in block.extensions if each.state is ExtensionState.PAYMENT_SUCCEEDED]
        fee = block.offering.fee
        for extension in paid:
            fee += extension.offering.fee
        assert block.fee == fee
        assert block.end_ns == (paid[-1].offering.end_ns if paid else block.offering.end_ns)
        assert [each.state for each in block.extensions[:-1]].count(ExtensionState.PAYMENT_PENDING) == 0
        if block.state in HOLDING:
            assert ledger.now_ns < block.end_ns
            has_begun = block.state in {BlockState.ACTIVE, BlockState.UNAVAILABLE}
            assert has_begun is (ledger.now_ns >= block.start_ns)
        check_changes_of(ledger, block)


def check_changes_of(ledger: Ledger, block: Block) -> None:
    """Hold a block's number of changes against those that the ledger made."""
    own = [change for change in ledger.changes if change.block_id == block.id]
    assert block.changes == len(own)
    assert block.changed_ns == own[-1].time_ns


def check_next(run: Run) -> None:
    """Hold the next change against what comes: nothing until a nanosecond before it, and something then."""
    ledger = run.ledger
    due_ns = ledger.next_change_ns()
    if due_ns is None:
        assert not [block for block in ledger.blocks.values() if block.state in HOLDING]
        assert ledger.advance(ledger.now_ns + 400 * DAY_NS) == []
        return
    assert due_ns >= ledger.now_ns
    if due_ns > ledger.now_ns:
        assert ledger.advance(due_ns - 1) == []
        assert ledger.next_change_ns() == due_ns
    changes = ledger.advance(due_ns)
    assert changes
    assert {change.time_ns for change, _ in changes} == {due_ns}


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(MARKETS, PROGRAMS)
def test_what_is_always_so(market: dict[str, Any], program: list[Step]) -> None:
    """After every step no instance is held twice, no more are held than may be, and ends, fees and counts are right."""
    with patch.object(rules, "MOST_INSTANCES", MOST_INSTANCES):
        run = Run(market)
        for step in program:
            run.take(step)
            check_blocks(run.ledger)


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(MARKETS, PROGRAMS)
def test_changes_give_the_state(market: dict[str, Any], program: list[Step]) -> None:
    """All changes, applied to nothing in their order, give the ledger's blocks; times ascend, and states follow the table."""
    with patch.object(rules, "MOST_INSTANCES", MOST_INSTANCES):
        run = Run(market)
        for step in program:
            run.take(step)
        run.ledger.advance(run.ledger.now_ns + 40 * DAY_NS)
    changes = run.ledger.changes
    assert all(one.time_ns <= other.time_ns for one, other in pairwise(changes))
    blocks: dict[str, Block] = {}
    for each, before, after in states(changes):
        blocks = each
        if before is None:
            assert after.state is BlockState.PAYMENT_PENDING
        else:
            assert after.state is before.state or after.state in NEXT_BLOCK_STATES[before.state]
            assert after.changes == before.changes + 1
    assert blocks == run.ledger.blocks
    assert list(blocks) == list(run.ledger.blocks)


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(MARKETS, PROGRAMS, st.integers(2, 7))
def test_time_may_pass_in_pieces(market: dict[str, Any], program: list[Step], pieces: int) -> None:
    """The same program gives the same changes whether time passes in one go or in pieces."""
    with patch.object(rules, "MOST_INSTANCES", MOST_INSTANCES):
        runs = [Run(market), Run(market, pieces)]
        for run in runs:
            for step in program:
                run.take(step)
            run.pass_to(run.ledger.now_ns + 100 * DAY_NS)
    assert runs[0].ledger.changes == runs[1].ledger.changes
    assert runs[0].ledger.blocks == runs[1].ledger.blocks


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(MARKETS, PROGRAMS)
def test_the_next_change_is_the_next(market: dict[str, Any], program: list[Step]) -> None:
    """Up to a nanosecond before the instant that is told nothing changes, and at that instant something does."""
    with patch.object(rules, "MOST_INSTANCES", MOST_INSTANCES):
        run = Run(market)
        for step in program:
            if step[0] in {"wait", "wait_for_next"}:
                check_next(run)
            else:
                run.take(step)
        for _ in range(20):
            check_next(run)


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(PROGRAMS, LOOKS)
def test_what_a_pending_extension_holds_is_sold_to_nobody(
    program: list[Step], search_request: SearchRequest
) -> None:
    """Nothing is offered that lies on a block's instances before its end, nor before that of an extension not paid yet."""
    market = {"payment_s": 40_000.0}
    with patch.object(rules, "MOST_INSTANCES", MOST_INSTANCES):
        run = Run(market)
        for step in program:
            run.take(step)
        ledger = run.ledger
        try:
            found = ledger.offerings(search_request)
        except Refusal:
            return
        for each in found:
            places = set(deepcopy(ledger).buy(each.id).places)
            for block in ledger.blocks.values():
                if block.state in HOLDING and places & set(block.places):
                    assert each.end_ns <= block.start_ns or block.held_until_ns <= each.start_ns


def test_programs_do_something() -> None:
    """The programs above are not all refusals: most buy, some extend, and every kind of change is seen."""
    seen: set[ChangeKind] = set()
    rules_seen: set[Rule] = set()

    @settings(max_examples=200, deadline=None, derandomize=True, database=None)
    @given(MARKETS, PROGRAMS)
    def watch(market: dict[str, Any], program: list[Step]) -> None:
        with patch.object(rules, "MOST_INSTANCES", MOST_INSTANCES):
            run = Run(market)
            for step in program:
                try:
                    getattr(run, step[0])(*step[1:])
                except Refusal as refusal:
                    rules_seen.add(refusal.rule)
        run.ledger.advance(run.ledger.now_ns + DAY_NS)
        seen.update(change.kind for change in run.ledger.changes)

    watch()
    assert seen == set(ChangeKind)
    assert rules_seen >= {
        Rule.DURATION, Rule.CAPACITY, Rule.ACCOUNT_SIZE, Rule.STARTS_TOO_SOON, Rule.OFFERING, Rule.EXTENSION_PENDING,
        Rule.EXTENSION_STATE, Rule.EXTENSION_TOO_EARLY, Rule.EXTENSION_TOTAL,
    }  # fmt: skip  # a set reads as a line
