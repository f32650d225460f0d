from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError

from trnfleet.domain.schema import Duration, Instant  # noqa: TC001  the model reads them at run time


class Times(BaseModel):
    model_config = ConfigDict(strict=True)

    lasts_s: Duration = 1.0
    at_s: Instant = 0.0


@pytest.mark.parametrize(
    ("given", "seconds"), [("5m", 300.0), (45, 45.0), (0.25, 0.25), ("250ms", 0.25)]
)
def test_a_field_takes_text_and_numbers(given: Any, seconds: float) -> None:
    """Numbers are seconds, whole ones too; both kinds of field read alike."""
    times = Times.model_validate({"lasts_s": given, "at_s": given})
    assert (times.lasts_s, times.at_s) == (seconds, seconds)


def test_only_an_instant_may_be_zero() -> None:
    """Something can begin at the start, and nothing lasts no time."""
    assert Times.model_validate({"at_s": "0s"}).at_s == 0.0
    with pytest.raises(ValidationError, match="greater than 0"):
        Times.model_validate({"lasts_s": "0s"})


@pytest.mark.parametrize(
    "given", [-1, -0.5, float("nan"), float("inf"), True, None, "soon", "9" * 400, [5]]
)
def test_what_is_no_time_is_refused(given: Any) -> None:
    """Neither kind of field accepts negative, infinite or non-numeric values."""
    for name in ("lasts_s", "at_s"):
        with pytest.raises(ValidationError):
            Times.model_validate({name: given})
