"""What the models of every file that the user writes have in common: frozen, strict about keys, and the fields' types."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Segment = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
"""One segment of an address, or a name that becomes one of a topic."""
Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0.0, le=1e18, allow_inf_nan=False)]
"""An amount; the limit is beyond anything that there is."""
Seconds = Annotated[float, Field(ge=0.0, le=1e9, allow_inf_nan=False)]
"""A time from zero on; the limit is 30 years."""
Length = Annotated[float, Field(ge=1e-4, le=1e7, allow_inf_nan=False)]
"""How long something takes, seconds; the limit is a third of a year."""
Steps = Annotated[int, Field(ge=0, le=1_000_000_000)]

Places = Annotated[
    tuple[Annotated[str, StringConstraints(max_length=400)], ...], Field(min_length=1, max_length=1_000)
]
"""Addresses and ranges; what a job's message has room for."""


class Model(BaseModel):
    """Base of every model of a file: frozen, strict about keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
