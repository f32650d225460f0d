"""Reserved capacity in a fleet file: the market, and the blocks that exist at the start."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from trnfleet.domain.hardware.catalogue import INSTANCE_TYPES
from trnfleet.domain.reservations.rules import (
    PAYMENT_WINDOW_S,
    TERMINATION_BEFORE_END_S,
    ULTRASERVER_TERMINATION_BEFORE_END_S,
    WARNING_BEFORE_END_S,
    RuleViolation,
    check_duration,
)
from trnfleet.domain.schema import Model, Paths, Share
from trnfleet.errors import nearest

Lead = Annotated[float, Field(ge=0.0, le=86_400.0, allow_inf_nan=False)]

TABLE_CURRENCY = "USD"
"""Currency of the hardware catalogue's prices."""
MOST_DAYS_AHEAD = 54
"""Whole days, from the first end of a day on, after which a fleet file's block may start: 8 weeks less what is left of the
first day and the hour before it, so that a file is right whenever it is started."""
BUSY_SURCHARGE = Decimal("0.30")
"""Rise of the price when all of a type is reserved; the rise is linear. Assumed: EC2 says that prices follow supply and
demand, not how."""


class Market(Model):
    """Terms on which reserved capacity is sold; every default is EC2's where it is published."""

    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")] = "USD"
    payment_s: Lead = 300.0
    """Time until a payment arrives; assumed."""
    payment_window_s: Lead = float(PAYMENT_WINDOW_S)
    failing_payments: Share = 0.0
    """Share of payments that never arrive."""
    warning_before_end_s: Lead = float(WARNING_BEFORE_END_S)
    termination_before_end_s: Lead = float(TERMINATION_BEFORE_END_S)
    ultraserver_termination_before_end_s: Lead = float(ULTRASERVER_TERMINATION_BEFORE_END_S)
    prices: dict[str, Annotated[str, Field(pattern=r"^[0-9]{1,6}(\.[0-9]{1,6})?$")]] = Field(
        default_factory=dict
    )
    """Price of an instance-hour by instance type, where it is not the table's; all that are sold, where they are not in
    US dollars."""

    @field_validator("prices")
    @classmethod
    def _known(cls, prices: dict[str, str]) -> dict[str, str]:
        for kind in prices:
            if kind not in INSTANCE_TYPES:
                raise ValueError(f"unknown instance type {kind!r}: {nearest(kind, INSTANCE_TYPES)}")
        return prices

    @model_validator(mode="after")
    def _priced(self) -> Self:
        if self.currency != TABLE_CURRENCY and not self.prices:
            raise ValueError(
                f"currency = {self.currency!r} needs prices of the instance types that are sold: the table's are in "
                f"{TABLE_CURRENCY}"
            )
        return self

    def price_per_h(self, kind: str) -> Decimal | None:
        """Return the price of an instance-hour in `currency`; None where there is none."""
        own = self.prices.get(kind)
        if own is not None:
            return Decimal(own)
        if self.currency != TABLE_CURRENCY or kind not in INSTANCE_TYPES:
            return None
        # The shortest decimal of the float is the figure as it is written in the catalogue.
        return Decimal(repr(INSTANCE_TYPES[kind].price_usd_per_h.value))


class BlockEntry(Model):
    """A Capacity Block that there is when the simulation begins."""

    on: Paths
    """Addresses that it holds: one UltraServer, or standalone instances of one type and cluster."""
    days: Annotated[int, Field(ge=1, le=182)]
    ends_after_days: Annotated[int, Field(ge=-400, le=400)]
    """Number of the end of a day (11:30 UTC) at which it ends: 0 is the first that is an hour or more after the start, -1 the one before."""
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
                f"ends_after_days = {self.ends_after_days}: a block starts within 8 weeks; with days = {self.days}, "
                f"{self.days + MOST_DAYS_AHEAD} is the most"
            )
        if self.payment == "pending" and ahead < 0:
            raise ValueError(
                f"payment = 'pending': such a block has not begun; with days = {self.days}, ends_after_days is "
                f"{self.days} at least, not {self.ends_after_days}"
            )
        return self
