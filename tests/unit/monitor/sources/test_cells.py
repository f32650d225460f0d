"""Cells by presence of relays and watches.

Made-up cells do not crowd out real ones.
"""

from __future__ import annotations

from typing import Literal

import pytest

from trnfleet.domain.alerts.watches import GONE_S
from trnfleet.monitor.sources.cells import Cells
from trnfleet.wire.messages import WatchMessage

MOST = 3
Role = Literal["relay", "watch"]


def presence(cell: str, role: Role, state: Literal["online", "offline"] = "online") -> WatchMessage:
    return WatchMessage(
        client=f"{role}-{cell}", state=state, boot="b", role=role, leads=True, cell=cell
    )


def put(cells: Cells, cell: str, role: Role, now_s: float, *, is_retained: bool = False) -> bool:
    return cells.put(cell, presence(cell, role), now_s, is_retained=is_retained)


def known(cells: Cells, role: Role, now_s: float) -> set[str]:
    if role == "watch":
        return cells.watched(now_s)
    return {each.cell for each in cells.relays(now_s) if each.active is not None}


@pytest.mark.parametrize("role", ["relay", "watch"])
@pytest.mark.parametrize("is_retained", [True, False], ids=["retained", "heard"])
def test_cells_that_are_gone_make_room(role: Role, *, is_retained: bool) -> None:
    """Made-up and unheard cells make room.

    Heard cells always stay.
    """
    cells = Cells(MOST)
    assert put(cells, "real", role, 0.0)
    assert all(put(cells, name, role, 0.0, is_retained=is_retained) for name in ("x", "y"))
    assert not put(cells, "late", role, 1.0)
    gone_s = GONE_S + 1.0
    assert put(cells, "real", role, gone_s)
    assert put(cells, "late", role, gone_s)
    assert known(cells, role, gone_s) == {"real", "late"}
    assert put(cells, "later", role, gone_s)
    assert not put(cells, "last", role, gone_s)
    assert known(cells, role, gone_s) == {"real", "late", "later"}


@pytest.mark.parametrize("role", ["relay", "watch"])
def test_a_cell_whose_messages_were_cleared_makes_room_at_once(role: Role) -> None:
    cells = Cells(MOST)
    assert all(put(cells, name, role, 0.0) for name in ("x", "y", "z"))
    cells.clear("x", f"{role}-x")
    assert put(cells, "late", role, 0.0)
    assert known(cells, role, 0.0) == {"y", "z", "late"}
    assert cells.put("y", presence("y", role, "offline"), 0.0, is_retained=False)
    # One that says that it is gone was heard last, and makes room once the others are heard again.
    assert put(cells, "z", role, 1.0)
    assert put(cells, "late", role, 1.0)
    assert put(cells, "later", role, 1.0)
    assert known(cells, role, 1.0) == {"z", "late", "later"}


def test_a_cell_is_known_until_the_message_of_its_last_relay_is_cleared() -> None:
    """A cell with only offline relays stays known.

    A cleared one leaves nothing.
    """
    cells = Cells(MOST)
    assert put(cells, "x", "relay", 0.0)
    assert cells.put("x", presence("x", "relay", "offline"), 1.0, is_retained=False)
    assert [(each.cell, each.active) for each in cells.relays(1.0)] == [("x", None)]
    assert cells.has_relay("x", "relay-x")
    assert put(cells, "x", "watch", 1.0)
    for role in ("relay", "watch"):
        cells.clear("x", f"{role}-x")
    assert cells.relays(1.0) == ()
    assert not cells.has_relay("x", "relay-x")
    assert (cells._relays, cells._watches) == ({}, {})
