"""What the models of every file that the user writes have in common: frozen, strict about keys, and the fields' types."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Segment = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
"""One segment of an address, or a name that becomes one of a topic."""
Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]

Places = Annotated[
    tuple[Annotated[str, StringConstraints(max_length=400)], ...], Field(min_length=1, max_length=1_000)
]
"""Addresses and ranges; what a job's message has room for."""


class Model(BaseModel):
    """Base of every model of a file: frozen, strict about keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
