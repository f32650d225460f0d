"""Reserved capacity in a fleet file: the market, and the initial blocks."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from trnfleet.clock import datetime_ns
from trnfleet.domain.hardware.catalogue import (
    INSTANCE_TYPES,
    present_name,
    unknown_instance_type,
)
from trnfleet.domain.reservations.rules import (
    INTERRUPTION_BEFORE_TERMINATION_S,
    PAYMENT_WINDOW_S,
    SOLD_TYPES,
    TERMINATION_BEFORE_END_S,
    WARNING_BEFORE_END_S,
    RuleViolation,
    check_duration,
)
from trnfleet.domain.schema import Model, Moment, Paths, Share

Lead = Annotated[float, Field(ge=0.0, le=86_400.0, allow_inf_nan=False)]

TABLE_CURRENCY = "USD"
"""Currency of the hardware catalogue's prices."""
MOST_DAYS_AHEAD = 54
"""Latest start of a fleet file's block. In whole days after the first end of a day: 8 weeks minus
the rest of the first day and the hour before it, so that a file is valid whenever it is started."""

HourlyPrice = Annotated[str, Field(pattern=r"^[0-9]{1,6}(\.[0-9]{1,6})?$")]


class Revision(Model):
    """New prices from an instant on."""

    at: Moment
    prices: Annotated[dict[str, HourlyPrice], Field(min_length=1)]
    """Price of an instance-hour by instance type; other types keep theirs."""

    @field_validator("prices")
    @classmethod
    def _known(cls, prices: dict[str, str]) -> dict[str, str]:
        return _of_known_types(prices)

    @property
    def at_ns(self) -> int:
        """The instant, nanoseconds since 1970 UTC."""
        return datetime_ns(self.at)


class Market(Model):
    """Terms of sale of reserved capacity; every default is EC2's if published."""

    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")] = "USD"
    payment_s: Lead = 300.0
    """Time until a payment arrives; assumed."""
    payment_window_s: Lead = float(PAYMENT_WINDOW_S)
    failing_payments: Share = 0.0
    """Share of payments that never arrive."""
    warning_before_end_s: Lead = float(WARNING_BEFORE_END_S)
    interruption_before_termination_s: Lead = float(INTERRUPTION_BEFORE_TERMINATION_S)
    termination_before_end_s: Lead = float(TERMINATION_BEFORE_END_S)
    ultraserver_termination_before_end_s: Lead = float(TERMINATION_BEFORE_END_S)
    sells: Annotated[tuple[str, ...], Field(max_length=64)] = SOLD_TYPES
    """Instance types sold as blocks; a type that belongs to UltraServers is sold as UltraServers.
    """
    account: Annotated[str, Field(pattern=r"^[0-9]{12}$")] = "123456789012"
    """AWS account named in events; by default that of AWS's own examples."""
    prices: dict[str, HourlyPrice] = Field(default_factory=dict)
    """Price of an instance-hour by instance type, where it differs from the table's. For all sold
    types if not in US dollars."""
    revisions: tuple[Revision, ...] = ()
    """Later prices, ascending by time. A block costs the price valid at its purchase, whenever it
    starts."""

    @field_validator("sells")
    @classmethod
    def _are_known(cls, kinds: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_of_known_types(dict.fromkeys(kinds, "")))

    @field_validator("prices")
    @classmethod
    def _known(cls, prices: dict[str, str]) -> dict[str, str]:
        return _of_known_types(prices)

    @field_validator("revisions")
    @classmethod
    def _ascend(cls, revisions: tuple[Revision, ...]) -> tuple[Revision, ...]:
        for number, (before, after) in enumerate(pairwise(revisions), start=1):
            if after.at <= before.at:
                raise ValueError(
                    f"revisions.{number}.at = {after.at.isoformat()} is not after the one before"
                    f" it, {before.at.isoformat()}"
                )
        return revisions

    @model_validator(mode="after")
    def _priced(self) -> Self:
        if self.currency != TABLE_CURRENCY and not self.prices:
            raise ValueError(
                f"currency = {self.currency!r} needs prices of the instance types that are sold:"
                f" the table's are in {TABLE_CURRENCY}"
            )
        return self

    def price_per_h(self, kind: str, at_ns: int | None = None) -> Decimal | None:
        """Return the price of an instance-hour in `currency`; None without one.

        Args:
            kind: Instance type.
            at_ns: Time of the purchase; None for before all revisions.
        """
        own = self.prices.get(kind)
        for revision in self.revisions:
            if at_ns is None or revision.at_ns > at_ns:
                break
            own = revision.prices.get(kind, own)
        if own is not None:
            return Decimal(own)
        if self.currency != TABLE_CURRENCY or kind not in INSTANCE_TYPES:
            return None
        # The shortest decimal of the float is the figure as it is written in the catalogue.
        return Decimal(repr(INSTANCE_TYPES[kind].price_usd_per_h.value))

    def next_revision_ns(self, after_ns: int) -> int | None:
        """Return the time of the first revision after an instant; None where none is known."""
        return next(
            (revision.at_ns for revision in self.revisions if revision.at_ns > after_ns), None
        )


class BlockEntry(Model):
    """A Capacity Block that exists at the start of the simulation."""

    on: Paths
    """Its addresses: one UltraServer, or standalone instances of one type and cluster."""
    days: Annotated[int, Field(ge=1, le=182)]
    ends_after_days: Annotated[int, Field(ge=-400, le=400)]
    """Number of the end of a day (11:30 UTC) at which it ends. 0 is the first one at least an hour
    after the start, -1 the one before."""
    payment: Literal["succeeded", "pending", "failed"] = "succeeded"
    """A pending one never arrives."""

    @field_validator("days")
    @classmethod
    def _is_duration(cls, days: int) -> int:
        try:
            check_duration(days)
        except RuleViolation as refusal:
            raise ValueError(str(refusal)) from refusal
        return days

    @model_validator(mode="after")
    def _can_be(self) -> Self:
        ahead = self.ends_after_days - self.days
        if ahead > MOST_DAYS_AHEAD:
            raise ValueError(
                f"ends_after_days = {self.ends_after_days}: a block starts within 8 weeks; with"
                f" days = {self.days}, {self.days + MOST_DAYS_AHEAD} is the most"
            )
        if self.payment == "pending" and ahead < 0:
            raise ValueError(
                f"payment = 'pending': such a block has not begun; with days = {self.days},"
                f" ends_after_days is {self.days} at least, not {self.ends_after_days}"
            )
        return self


def _of_known_types(prices: dict[str, str]) -> dict[str, str]:
    """Return a mapping with instance types as keys, by their names in the catalogue.

    Raises:
        ValueError: one is unknown.
    """
    for kind in prices:
        if present_name(kind) not in INSTANCE_TYPES:
            raise ValueError(unknown_instance_type(kind))
    return {present_name(kind): price for kind, price in prices.items()}
