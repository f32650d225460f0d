"""Random programs of searches, purchases, extensions, waits and failures.

Checked against invariants.
"""

from __future__ import annotations

import re
from copy import deepcopy
from decimal import Decimal
from itertools import combinations, pairwise
from random import Random
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from hypothesis import given, seed, settings
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
from trnfleet.domain.reservations.blocks import Block, Change, ChangeKind, apply
from trnfleet.domain.reservations.rules import Rule, RuleViolation
from trnfleet.domain.reservations.search import SearchRequest
from trnfleet.domain.reservations.states import (
    EXTENDABLE,
    HOLDING,
    NEXT_BLOCK_STATES,
    BlockState,
    ExtensionState,
    InterconnectStatus,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trnfleet.domain.reservations.ledger import Ledger

MOST_INSTANCES = 9
"""Limit instead of 256, so that a small fleet can reach it."""
BEGUN = frozenset({BlockState.ACTIVE, BlockState.UNAVAILABLE})
Step = tuple[Any, ...]

DAYS = (1, 1, 2, 2, 3, 7, 14, 15, 28, 56, 182)
LEADS = st.sampled_from([2_400.0, 1_800.0, 600.0, 0.0, 7_200.0, 86_400.0])
MARKETS = st.fixed_dictionaries(
    {
        "payment_s": st.sampled_from([300.0, 300.0, 0.0, 20_000.0, 86_400.0]),
        "payment_window_s": st.sampled_from([43_200.0, 43_200.0, 43_200.0, 600.0, 0.0]),
        "failing_payments": st.sampled_from([0.0, 0.5]),
        "warning_before_end_s": LEADS,
        "termination_before_end_s": LEADS,
        "ultraserver_termination_before_end_s": LEADS,
        "interruption_before_termination_s": st.sampled_from([120.0, 120.0, 0.0, 7_200.0]),
    }
)
WAITS = (0, 1, 6 * MINUTE_NS, 25 * MINUTE_NS, 3 * HOUR_NS, DAY_NS, DAY_NS, 5 * DAY_NS, 30 * DAY_NS)
STEPS = (
    "look",
    "buy",
    "look_and_buy",
    "look_and_buy",
    "look_longer",
    "extend",
    "look_longer_and_extend",
    "look_longer_and_extend",
    "wait",
    "wait",
    "wait_for_next",
    "wait_for_next",
    "health",
    "outage",
)


def search_of(draw: Random) -> SearchRequest:
    days = draw.choice(DAYS)
    starts = draw.choice(
        [None, None, draw.randint(0, 72), NOW_NS + draw.randint(0, 24 * 60) * HOUR_NS]
    )
    ends = draw.choice([None, None, NOW_NS + draw.randint(1, 40) * DAY_NS])
    if draw.random() < 0.5:
        return SearchRequest(days, ultraservers=1, starts_from_ns=starts, ends_by_ns=ends)
    zone = draw.choice([None, None, "a", "b"])
    return SearchRequest(
        days, TRN2, draw.randint(1, 4), zone=zone, starts_from_ns=starts, ends_by_ns=ends
    )


def step_of(number: int) -> Step:
    """Return the step for a number.

    Strategies for each part would be slower than the tests.
    """
    draw = Random(number)  # noqa: S311  a draw of test data
    name = draw.choice(STEPS)
    arguments: dict[str, Callable[[], Step]] = {
        "look": lambda: (search_of(draw),),
        "look_and_buy": lambda: (search_of(draw),),
        "look_longer": lambda: (draw.randint(0, 3), draw.choice(DAYS)),
        "look_longer_and_extend": lambda: (draw.randint(0, 3), draw.choice(DAYS)),
        "wait": lambda: (draw.choice(WAITS),),
        "wait_for_next": lambda: (draw.choice([0, -1, 1]),),
        "health": lambda: (draw.randint(0, 3), draw.randint(0, 4), draw.random() < 0.5),
    }
    return name, *arguments.get(name, lambda: (draw.randint(0, 3),))()


PROGRAMS = st.lists(st.integers(0, 2**32 - 1).map(step_of), min_size=25, max_size=50)


class Run:
    """A ledger over two UltraServers and six instances in two zones, and its program."""

    def __init__(self, market: dict[str, Any], pieces: int = 1) -> None:
        pool = pool_of((TRN2, "a", 4), (TRN2, "b", 2), ultraservers=["a", "b"])
        self.ledger: Ledger = ledger_of(pool, **market)
        self.pieces = pieces
        self.offered: list[str] = []
        self.longer: list[str] = []
        self.refused: set[Rule] = set()

    def take(self, step: Step) -> None:
        """Carry a step out; a refusal is an answer like any other."""
        name, *arguments = step
        before = len(self.ledger.changes)
        try:
            getattr(self, name)(*arguments)
        except RuleViolation as refusal:
            refused = refusal
        else:
            return
        self.refused.add(refused.rule)
        assert str(refused).startswith(f"{refused.rule.value}: ")
        assert len(self.ledger.changes) == before

    def look(self, search_request: SearchRequest) -> None:
        try:
            found = self.ledger.offerings(search_request)
        except RuleViolation as refusal:
            self.check_fit(search_request, refusal)
            raise
        assert 1 <= len(found) <= rules.MOST_OFFERINGS
        prices = [
            each.fee.amount * HOUR_NS / (each.end_ns - each.start_ns) / each.instances
            for each in found
        ]
        assert max(prices) - min(prices) < Decimal("0.01")
        assert [each.start_ns for each in found] == sorted(each.start_ns for each in found)
        for each in found:
            assert rules.is_end(each.end_ns)
            longer_ns = each.end_ns - each.start_ns - search_request.days * DAY_NS
            assert abs(longer_ns) < DAY_NS
            assert (longer_ns == 0) is rules.is_end(each.start_ns)
            assert each.start_ns >= self.ledger.now_ns + 30 * MINUTE_NS
            assert each.start_ns <= self.ledger.now_ns + 56 * DAY_NS
            assert each.end_ns - each.start_ns >= HOUR_NS
            assert (
                search_request.starts_from_ns is None
                or each.start_ns >= search_request.starts_from_ns
            )
            assert search_request.ends_by_ns is None or each.end_ns <= search_request.ends_by_ns
            assert search_request.zone in {None, each.zone}
        self.offered = [each.id for each in found] + self.offered[:10]

    def check_fit(self, search_request: SearchRequest, refusal: RuleViolation) -> None:
        """Check that a refusal's suggested offering is for sale."""
        found = re.search(r"(\d+) (days|instances) from (\S+ \S+) UTC on would fit", str(refusal))
        if found is None:
            return
        days = search_request.days
        instances = search_request.instances
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
            except RuleViolation as refusal:
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
        block = self.block(pick, BEGUN)
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

    def outage(self, pick: int) -> None:
        self.health(pick, 4, impaired=True)
        self.health(pick, 0, impaired=False)

    def block(self, pick: int, states: frozenset[BlockState] = HOLDING) -> Block | None:
        """Return one of the blocks in some states, or of all where there is none."""
        blocks = list(self.ledger.blocks.values())
        choice = [block for block in blocks if block.state in states] or blocks
        return choice[pick % len(choice)] if choice else None

    def pass_to(self, until_ns: int) -> None:
        """Move time on in the run's number of pieces."""
        start_ns = self.ledger.now_ns
        for piece in range(1, self.pieces + 1):
            self.ledger.advance(start_ns + (until_ns - start_ns) * piece // self.pieces)
        assert self.ledger.now_ns == until_ns


def states(changes: list[Change]) -> Iterator[tuple[dict[str, Block], Block | None, Block]]:
    """Replay changes; yield all blocks, and the changed one before and after, at each."""
    blocks: dict[str, Block] = {}
    for change in changes:
        before = blocks.get(change.block_id)
        after = apply(blocks, change)
        yield blocks, before, after


def check_blocks(ledger: Ledger) -> None:
    """Check the invariants of all blocks."""
    kept = [
        block for block in ledger.blocks.values() if block.state in HOLDING | {BlockState.EXPIRED}
    ]
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
        assert [each.state for each in block.extensions[:-1]].count(
            ExtensionState.PAYMENT_PENDING
        ) == 0
        if block.state in HOLDING:
            assert ledger.now_ns < block.end_ns
            has_begun = block.state in {BlockState.ACTIVE, BlockState.UNAVAILABLE}
            assert has_begun is (ledger.now_ns >= block.start_ns)
        check_changes_of(ledger, block)


def check_changes_of(ledger: Ledger, block: Block) -> None:
    """Check a block's number of changes against the ledger's."""
    own = [change for change in ledger.changes if change.block_id == block.id]
    assert block.changes == len(own)
    assert block.changed_ns == own[-1].time_ns


def check_next(run: Run) -> None:
    """Check the next change: none until a nanosecond before it, and one then."""
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


def check_replay(ledger: Ledger) -> None:
    """Replay all changes: they restore the ledger's blocks.

    Times ascend, and states follow the table.
    """
    assert all(one.time_ns <= other.time_ns for one, other in pairwise(ledger.changes))
    blocks: dict[str, Block] = {}
    for each, before, after in states(ledger.changes):
        blocks = each
        if before is None:
            assert after.state is BlockState.PAYMENT_PENDING
        else:
            assert after.state is before.state or after.state in NEXT_BLOCK_STATES[before.state]
            assert after.changes == before.changes + 1
    assert blocks == ledger.blocks
    assert list(blocks) == list(ledger.blocks)


def check_pending(ledger: Ledger, search_request: SearchRequest) -> None:
    """Search: nothing is offered on a block's instances before its end.

    Nor before the end of an unpaid extension.
    """
    try:
        found = ledger.offerings(search_request)
    except RuleViolation:
        return
    for each in found:
        members = set(deepcopy(ledger).buy(each.id).places)
        for block in ledger.blocks.values():
            if block.state in HOLDING and members & set(block.places):
                assert each.end_ns <= block.start_ns or block.held_until_ns <= each.start_ns


def searches(program: list[Step]) -> list[SearchRequest]:
    return [
        argument for step in program for argument in step[1:] if isinstance(argument, SearchRequest)
    ]


def run_program(market: dict[str, Any], program: list[Step], pieces: int = 1) -> Run:
    """Return a ledger after a program, with its blocks checked after every change."""
    run = Run(market, pieces)
    seen = (0, 0)
    for step in program:
        run.take(step)
        if seen != (now := (len(run.ledger.changes), run.ledger.now_ns)):
            seen = now
            check_blocks(run.ledger)
    return run


FREQUENT_RULES = {
    Rule.DURATION,
    Rule.CAPACITY,
    Rule.ACCOUNT_SIZE,
    Rule.STARTS_TOO_SOON,
    Rule.OFFERING,
    Rule.EXTENSION_PENDING,
    Rule.EXTENSION_STATE,
    Rule.EXTENSION_TOO_EARLY,
    Rule.EXTENSION_TOTAL,
}


def test_programs_keep_the_invariants() -> None:
    """Random programs: no instance is held twice; ends, fees and counts are right.

    Replaying the changes restores the state. One program is generated once for all properties,
    since that takes longer than running it. The programs are not all refusals: every kind of change
    is seen, and the most frequent rules. Hypothesis's draws depend on the constants of all loaded
    modules, so a few programs more may be needed for that.
    """
    seen: set[ChangeKind] = set()
    rules_seen: set[Rule] = set()

    @settings(max_examples=75, deadline=None, database=None)
    @given(MARKETS, PROGRAMS)
    def check(market: dict[str, Any], program: list[Step]) -> None:
        with patch.object(rules, "MOST_INSTANCES", MOST_INSTANCES):
            run = run_program(market, program)
            rules_seen.update(run.refused)
            slowly = run_program(market | {"payment_s": 40_000.0}, program)
            for search_request in searches(program)[:2]:
                check_pending(run.ledger, search_request)
                check_pending(slowly.ledger, search_request)
            for each in (run, slowly):
                each.pass_to(each.ledger.now_ns + 100 * DAY_NS)
                check_replay(each.ledger)
                seen.update(change.kind for change in each.ledger.changes)
            in_pieces = Run(market, pieces=2 + len(program) % 6)
            for step in program:
                in_pieces.take(step)
            in_pieces.pass_to(in_pieces.ledger.now_ns + 100 * DAY_NS)
        assert in_pieces.ledger.changes == run.ledger.changes
        assert in_pieces.ledger.blocks == run.ledger.blocks

    for number in range(8):
        seed(number)(check)()
        if number and seen == set(ChangeKind) and rules_seen >= FREQUENT_RULES:
            break
    assert seen == set(ChangeKind)
    assert rules_seen >= FREQUENT_RULES


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(MARKETS, PROGRAMS)
def test_the_next_change_is_the_next(market: dict[str, Any], program: list[Step]) -> None:
    """Nothing changes up to a nanosecond before the next change, and something at it."""
    with patch.object(rules, "MOST_INSTANCES", MOST_INSTANCES):
        run = Run(market)
        for step in program:
            if step[0] in {"wait", "wait_for_next"}:
                check_next(run)
            else:
                run.take(step)
        for _ in range(20):
            check_next(run)
