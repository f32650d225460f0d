"""The rules of Capacity Blocks, each with a name, and the refusals of broken ones.

Published rules are from the EC2 user guide's pages about Capacity Blocks for ML and the EC2 API's
reference; others are marked as assumed. Instants are nanoseconds since 1970 UTC; spans include
their start and not their end.
"""

from __future__ import annotations

import enum
from bisect import bisect
from datetime import UTC, datetime

from trnfleet.clock import NS_PER_S
from trnfleet.domain.durations import DAY_NS, DAY_S, MINUTE_NS
from trnfleet.errors import ConfigError

END_OF_BLOCKS_S = 11 * 3_600 + 30 * 60
"""Time of day at which every block ends: 11:30 UTC (published)."""
DURATIONS = (*range(1, 15), *range(21, 183, 7))
"""Days of a block or an extension: 1 to 14, then weeks (published)."""
MOST_DAYS = DURATIONS[-1]
"""Published; with extensions, too."""
SHORTEST_S = 3_600
"""Shortest partial day sold alone (assumed; 8 hours were seen)."""
MOST_INSTANCES_A_BLOCK = 64
"""Published."""
MOST_INSTANCES = 256
"""Instances in all blocks of an account; published. Taken as: in all that are held at one instant.
"""
EARLIEST_START_S = 30 * 60
"""Published: about 30 minutes ahead."""
LATEST_START_S = 56 * DAY_S
"""Published: 8 weeks ahead."""
MOST_OFFERINGS = 6
"""Most offerings returned by a request (seen)."""
PAYMENT_WINDOW_S = 12 * 3_600
"""Seconds after which an outstanding payment has failed (published)."""
PAYMENT_BEFORE_END_S = 35 * 60
"""An extension is paid by this time before the end, or not at all; published."""
MOST_EXTENSIONS = 200
"""Most extensions of one block, including those with a failed payment; assumed."""
EXTENSION_EARLIEST_S = LATEST_START_S
"""A block can be extended from this time before its end; published."""
EXTENSION_LATEST_S = 3_600
"""And until this time before it; published."""
WARNING_BEFORE_END_S = 40 * 60
"""EventBridge has the warning at this time before the end; published."""
TERMINATION_BEFORE_END_S = 30 * 60
"""From this time before the end EC2 terminates running instances (published).

Assumed: UltraServers, too. How blocks work says 60 minutes for UltraServer types and, for all, a
warning 10 minutes before. Their EventBridge page has the warning 40 minutes before the end, and 30
minutes fit that.
"""
INTERRUPTION_BEFORE_TERMINATION_S = 2 * 60
"""Time between EventBridge's interruption warning of each instance and the start of the
termination. Assumed: published for interruptible reservations, with warnings of the same detail
type. The page about Capacity Blocks shows the event but no time, nor a difference to the time of
the termination."""
SOLD_TYPES = ("trn1.32xlarge", "trn2.3xlarge", "trn2.48xlarge", "trn2u.48xlarge")
"""Trainium instance types sold as Capacity Blocks. Published: trn1.32xlarge, trn2.48xlarge and Trn2
UltraServers. Seen: trn2.3xlarge."""

_FIRST_S = round(datetime.min.replace(tzinfo=UTC).timestamp())
_LAST_S = round(datetime.max.replace(tzinfo=UTC, microsecond=0).timestamp())


class Rule(enum.StrEnum):
    """Rules that a request can break."""

    INSTANCE_TYPE = "instance-type"
    NOT_SOLD = "sold-as-capacity-block"
    ULTRASERVER_ONLY = "sold-as-ultraserver"
    ONE_ULTRASERVER = "one-ultraserver-a-block"
    BLOCK_SIZE = "at-most-64-instances-a-block"
    ACCOUNT_SIZE = "at-most-256-instances-in-all"
    DURATION = "duration-in-days-then-weeks"
    STARTS_TOO_SOON = "starts-30-minutes-ahead"
    STARTS_TOO_LATE = "starts-within-8-weeks"
    DATES = "start-before-end"
    SINGLE_ZONE = "single-zone"
    CAPACITY = "capacity-is-free"
    OFFERING = "offering-is-current"
    NO_SUCH_BLOCK = "block-exists"
    NOT_CANCELLABLE = "paid-and-not-cancellable"
    EXTENSION_STATE = "extends-active-or-scheduled"
    EXTENSION_TOO_EARLY = "extends-from-56-days-before-the-end"
    EXTENSION_TOO_LATE = "extends-until-1-hour-before-the-end"
    EXTENSION_PENDING = "one-extension-payment-at-a-time"
    EXTENSION_TOTAL = "at-most-182-days-in-all"


class RuleViolation(ConfigError):  # noqa: N818  it is an answer more than an error
    """A request against a rule.

    The message names the rule, the value, the limit and the nearest valid choice.
    """

    def __init__(self, rule: Rule, text: str) -> None:
        super().__init__(f"{rule.value}: {text}")
        self.rule = rule


def check_duration(days: int, what: str = "a block") -> None:
    """Raise if a number of days is no valid duration.

    Raises:
        RuleViolation: with the nearest valid durations.
    """
    if days in DURATIONS:
        return
    place = bisect(DURATIONS, days)
    near = " or ".join(str(length) for length in DURATIONS[max(place - 1, 0) : place + 1])
    raise RuleViolation(
        Rule.DURATION,
        f"{what} lasts 1 to 14 days, or multiples of 7 up to {MOST_DAYS}, not {days}; {near} would"
        " fit",
    )


def next_end_ns(after_ns: int) -> int:
    """Return the first end of blocks after `after_ns`."""
    since_ns = (after_ns - END_OF_BLOCKS_S * NS_PER_S) % DAY_NS
    return after_ns - since_ns + DAY_NS


def is_end(instant_ns: int) -> bool:
    """Return whether blocks end at an instant."""
    return (instant_ns - END_OF_BLOCKS_S * NS_PER_S) % DAY_NS == 0


def end_ns(start_ns: int, days: int) -> int:
    """Return the end of a block from its start and days.

    Its first day may be partial.
    """
    return next_end_ns(start_ns) + (days - 1) * DAY_NS


def nearest_ends_ns(start_ns: int, days: int) -> tuple[int, ...]:
    """Return the possible ends of blocks with a start and about a number of days.

    One end if the start is at the end of a day; else the end before that many days have passed, and
    the one after. None is beyond the longest block.
    """
    end = end_ns(start_ns, days)
    if end - start_ns == days * DAY_NS or days >= MOST_DAYS:
        return (end,)
    return end, end + DAY_NS


def days_of(start_ns: int, stop_ns: int) -> int:
    """Return how many days a block has, a partial one counted as one."""
    return -((start_ns - stop_ns) // DAY_NS)


def whole_minute_ns(instant_ns: int) -> int:
    """Return the first whole minute at or after an instant; blocks start at these."""
    return -(-instant_ns // MINUTE_NS) * MINUTE_NS


def utc(instant_ns: int) -> str:
    """Return an instant as text such as 2026-01-31 11:30 UTC, without seconds.

    Instants before the year 1 or after 9999 become the first or last instant of the calendar.
    """
    instant_s = min(max(instant_ns // NS_PER_S, _FIRST_S), _LAST_S)
    moment = datetime.fromtimestamp(instant_s, UTC).replace(tzinfo=None)
    return f"{moment.isoformat(sep=' ', timespec='minutes')} UTC"
