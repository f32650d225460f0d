"""Base and field types of the models of all user-written files: frozen, strict about keys."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
)

from trnfleet.domain.durations import parse_duration_s

Segment = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
"""One segment of an address, or a name used as a topic segment."""
Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0.0, le=1e18, allow_inf_nan=False)]
"""An amount; the limit is above any real value."""
Seconds = Annotated[float, Field(ge=0.0, le=1e9, allow_inf_nan=False)]
"""A time from zero on; the limit is 30 years."""
Length = Annotated[float, Field(ge=1e-4, le=1e7, allow_inf_nan=False)]
"""A duration, seconds; the limit is a third of a year."""
Steps = Annotated[int, Field(ge=0, le=1_000_000_000)]

Paths = Annotated[
    tuple[Annotated[str, StringConstraints(max_length=400)], ...],
    Field(min_length=1, max_length=1_000),
]
"""Addresses and ranges, at most as many as fit a job's message."""


def _seconds(value: Any) -> Any:
    if isinstance(value, str):
        return parse_duration_s(value)
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


Duration = Annotated[float, BeforeValidator(_seconds), Field(gt=0, allow_inf_nan=False)]
"""Seconds above zero, as a number or as text such as `5m`."""
Instant = Annotated[float, BeforeValidator(_seconds), Field(ge=0, allow_inf_nan=False)]
"""Seconds after the start, zero or more: a number or text such as `5m`."""


def _checked(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError("no time zone; write it as 2026-01-05T00:00:00Z")
    if not 1970 < moment.year < 2200:
        raise ValueError(f"it is in the year {moment.year}; choose one from 1971 to 2199")
    return moment


Moment = Annotated[datetime, AfterValidator(_checked)]
"""Date and time with a zone, in the years that nanoseconds since 1970 can express."""


class Model(BaseModel):
    """Base of every model of a file: frozen, strict about keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
