from __future__ import annotations

from trnfleet.tui.fleet.heatmap_legend import end_text


def test_ends_of_scales_are_round() -> None:
    """Tenths say nothing at the end of a scale."""
    assert (end_text(100.0, "%"), end_text(20.0, "degC"), end_text(0.0, "W")) == ("100 %", "20 °C", "0 W")
