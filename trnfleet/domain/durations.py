"""Durations and instants as fields of a file; `lengths` says how they are written."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from trnfleet.domain.lengths import parse_duration_s


def _read(value: Any) -> Any:
    if isinstance(value, str):
        return parse_duration_s(value)
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


Duration = Annotated[float, BeforeValidator(_read), Field(gt=0, allow_inf_nan=False)]
"""A field of a file: seconds above zero."""
Instant = Annotated[float, BeforeValidator(_read), Field(ge=0, allow_inf_nan=False)]
"""A field of a file: seconds after the start, zero or more."""
