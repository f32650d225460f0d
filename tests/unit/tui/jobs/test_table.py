from __future__ import annotations

import numpy as np
import pytest

from trnfleet.domain.goodput import TimeCause
from trnfleet.monitor.goodput_report import PaidTime
from trnfleet.tui import theme
from trnfleet.tui.jobs.table import (
    amount_text,
    amounts_of,
    columns_at,
    largest_loss,
    legend_items,
    meter,
)
from trnfleet.tui.theme.glyphs import to_ascii
from trnfleet.tui.widgets.cells import text_of


def seconds(**causes: float) -> np.ndarray:
    made = np.zeros(len(TimeCause))
    for name, value in causes.items():
        made[TimeCause[name.upper()]] = value
    return made


@pytest.mark.parametrize("width", [1, 5, 12, 60])
def test_a_meter_fills_its_width_and_shows_each_cause(width: int) -> None:
    drawn = text_of(meter(seconds(productive=97.0, slow=1.0, checkpoint=1.0, idle=1.0), width))
    assert len(drawn) == width
    if width > 4:
        assert {"■", "▒", "c", "◦"} == set(drawn)


def test_a_meter_without_time_is_blank() -> None:
    assert text_of(meter(seconds(), 8)) == " " * 8


def test_causes_differ_without_colour() -> None:
    """Each has a sign of its own, in ASCII, too."""
    paid = PaidTime(np.ones(len(TimeCause)), np.ones(len(TimeCause)), 0.0)
    drawn = text_of(meter(paid.seconds, 2 * len(TimeCause)))
    signs = [text.split()[0] for text, _ in legend_items(drawn)]
    assert len({to_ascii(sign) for sign in signs}) == len(TimeCause)
    theme.use("monochrome")
    assert text_of(meter(paid.seconds, 2 * len(TimeCause))) == "".join(2 * sign for sign in signs)
    theme.use(theme.DEFAULT)


def test_the_largest_loss_is_no_headroom() -> None:
    assert largest_loss(seconds(productive=9.0, headroom=8.0, slow=1.0, down=2.0)) is TimeCause.DOWN
    assert largest_loss(seconds(productive=9.0, headroom=8.0, unsplit=3.0, slow=0.001)) is None


def test_an_unknown_price_is_no_zero() -> None:
    paid = PaidTime(seconds(slow=3_600.0), seconds(), 3_600.0)
    assert amounts_of(paid, in_usd=True) is None
    assert amounts_of(paid._replace(unpriced_s=3_600.0 - 1e-8), in_usd=True) is None, "rounding"
    assert amounts_of(paid._replace(unpriced_s=3_599.0), in_usd=True) is not None
    assert amount_text(None) == "n/a"
    hours = amounts_of(paid, in_usd=False)
    assert hours is not None
    assert hours[TimeCause.SLOW] == 1.0
    assert amount_text(-0.001) == "0.00"
    assert amount_text(2_235_000.0) == "2,235,000"


@pytest.mark.parametrize("width", [60, 79, 119, 199, 239])
def test_columns_fit(width: int) -> None:
    assert 3 + sum(columns_at(width, []).values()) <= width


def test_a_million_chips_have_room() -> None:
    assert columns_at(119, [], 1_000_000)["chips"] > len("1,000,000")
