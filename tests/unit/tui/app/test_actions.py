from __future__ import annotations

from trnfleet.tui.app.actions import ACTIONS
from trnfleet.tui.app.app import FleetApp


def test_every_row_has_a_method_and_names_of_its_own() -> None:
    methods = {f"action_{action.name.partition('(')[0]}" for action in ACTIONS if action.name}
    assert [name for name in methods if not hasattr(FleetApp, name)] == []
    for names in (
        [action.key for action in ACTIONS if action.key],
        [name for action in ACTIONS for name in action.names],
    ):
        assert len(names) == len(set(names))
