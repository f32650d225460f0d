from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from trnfleet.domain.address import NO_NAMES, Level, format_chip, format_core, level_of, parent
from trnfleet.domain.filters.language import parse
from trnfleet.domain.layout import Layout, Node
from trnfleet.tui.hierarchy.index import Expansion, TreeIndex, TreeSelection, find_node, node_path
from trnfleet.tui.state.chip_table import CHIP_COLUMNS, ChipTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

KINDS = ("trn1.2xlarge", "trn1.32xlarge", "trn2.3xlarge", "trn2.48xlarge", "trn2u.48xlarge")
PATTERNS = (
    "",
    "us-1",
    "i-0",
    "I-2",
    "!us-1",
    "!i-0",
    "chip05",
    "1/chip0",
    "!chip00",
    "chip1",
    "standalone/i-1",
    "nowhere",
)


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    instances: dict[str, str] = {}
    for cluster in range(draw(st.integers(0, 2))):
        for server in range(draw(st.integers(0, 3))):
            for place in range(draw(st.integers(1, 4))):
                instances[f"uc{cluster}/us-{server}/i-{server}-{place}"] = "trn2u.48xlarge"
        for number in range(draw(st.integers(0, 3))):
            instances[f"uc{cluster}/standalone/i-{number}"] = draw(st.sampled_from(KINDS))
    return Layout.of(instances.items())


def addresses(layout: Layout) -> list[str]:
    """Return every address of a fleet, parents before children, siblings in their natural order."""
    found: list[str] = []

    def add(node: Node) -> None:
        path = layout.path(node)
        if path:
            found.append(path)
        if node.level is Level.CHIP:
            found.extend(f"{path}/{format_core(core)}" for core in layout.children(node))
            return
        for child in layout.children(node):
            add(Node(Level(node.level + 1), child))

    add(Node(Level.FLEET, 0))
    return found


def kept(layout: Layout, pattern: str) -> set[str]:
    """Return the addresses matching a filter, checking each one."""
    everything = addresses(layout)
    text = pattern.removeprefix("!").lower()
    inverse = pattern.startswith("!")
    if not text:
        return set(everything)
    searched = Level.CHIP if "chip" in text else Level.INSTANCE
    found = {
        path
        for path in everything
        if level_of(path) is searched and (text in path.lower()) != inverse
    }
    left = set(found)
    for path in found:
        above = parent(path)
        while above:
            left.add(above)
            above = parent(above)
    for path in everything:
        if level_of(path) > searched and parent(path) in left:
            left.add(path)
    return left


def visible(layout: Layout, expansion: Expansion, pattern: str, *, backwards: bool) -> list[str]:
    """Return the rows by walking over every address."""
    left = kept(layout, pattern)
    children: dict[str, list[str]] = {}
    for path in addresses(layout):
        if path in left:
            children.setdefault(parent(path), []).append(path)
    rows: list[str] = []

    def is_open(path: str) -> bool:
        return (level_of(path) < expansion.depth_at(path)) != (path in expansion.toggled)

    def walk(path: str) -> None:
        below = children.get(path, [])
        for child in reversed(below) if backwards else below:
            rows.append(child)
            if level_of(child) < Level.CORE and is_open(child):
                walk(child)

    walk("")
    return rows


def select(layout: Layout, pattern: str) -> TreeSelection | None:
    """Return the selection of a text filter."""
    store = SimpleNamespace(layout=layout, job_of=np.full(len(layout.instances), -1, np.int32))
    monitor: Any = SimpleNamespace(store=store, ingest=SimpleNamespace(jobs={}, names=NO_NAMES))
    found = (
        ChipTable(monitor, monitor).select(parse(pattern, CHIP_COLUMNS)) if layout.chips else None
    )
    return None if found is None else TreeSelection.build(layout, *found)


def backwards_order(_level: Level, numbers: NDArray[np.int64]) -> NDArray[np.intp]:
    return np.arange(len(numbers))[::-1]


@settings(max_examples=150, deadline=None)
@given(st.data(), layouts(), st.sampled_from(PATTERNS), st.booleans())
def test_window_equals_a_walk_over_everything(
    data: st.DataObject, layout: Layout, pattern: str, backwards: bool
) -> None:
    """Computed rows equal the rows of a walk over every address."""
    everything = [path for path in addresses(layout) if level_of(path) < Level.CORE] or ["uc0"]
    expansion = Expansion({"": data.draw(st.sampled_from(tuple(Level)[1:]))})
    for path in data.draw(st.lists(st.sampled_from(everything), max_size=3)):
        expansion.set_depth(path, data.draw(st.sampled_from(tuple(Level)[1:])))
    for path in data.draw(st.lists(st.sampled_from([*everything, "gone/us-9"]), max_size=6)):
        expansion.toggle(path)
    index = TreeIndex(
        layout, expansion, select(layout, pattern), backwards_order if backwards else None
    )
    rows = visible(layout, expansion, pattern, backwards=backwards)
    assert index.rows == len(rows)
    top = data.draw(st.integers(0, len(rows) + 1))
    count = data.draw(st.integers(0, 60))
    window = index.window(top, count)
    assert [node_path(layout, row.node) for row in window] == rows[top : top + count]
    for number, row in enumerate(window, top):
        assert index.row_of(row.node) == number
        assert index.nearest(node_path(layout, row.node)) == number
        assert row.is_open == (number + 1 < len(rows) and parent(rows[number + 1]) == rows[number])
    for path in data.draw(st.lists(st.sampled_from(addresses(layout) or ["uc0"]), max_size=8)):
        node = find_node(layout, path)
        if node is not None and path not in rows:
            assert index.row_of(node) is None
        above = path
        while above and above not in rows:
            above = parent(above)
        assert index.nearest(path) == (rows.index(above) if above else 0)


@given(layouts())
def test_addresses_and_nodes_are_inverse(layout: Layout) -> None:
    """Every address, down to cores, leads to a node and back."""
    for path in addresses(layout):
        node = find_node(layout, path)
        assert node is not None
        assert node_path(layout, node) == path
    assert find_node(layout, "uc0/standalone/i-0/chip00/nc9") is None
    assert find_node(layout, f"uc0/us-0/{format_chip(3)}") is None


def test_expansion_outlives_a_layout() -> None:
    """Open nodes stay open in a new layout.

    Vanished nodes do no harm.
    """
    first = Layout.of([("uc1/us-1/i-1", "trn2u.48xlarge"), ("uc1/us-2/i-2", "trn2u.48xlarge")])
    expansion = Expansion()
    expansion.toggle("uc1/us-1")
    expansion.toggle("uc1/us-2")
    assert TreeIndex(first, expansion).rows == 5
    second = Layout.of([("uc1/us-0/i-0", "trn2u.48xlarge"), ("uc1/us-2/i-2", "trn2u.48xlarge")])
    index = TreeIndex(second, expansion)
    shown = [node_path(second, row.node) for row in index.window(0, 9)]
    assert shown == ["uc1", "uc1/us-0", "uc1/us-2", "uc1/us-2/i-2"]


def test_reveal_opens_what_is_above() -> None:
    """A hidden address gets a row, and nothing else is opened but its ancestors."""
    layout = Layout.of([("uc1/us-1/i-1", "trn2u.48xlarge"), ("uc1/us-2/i-2", "trn2u.48xlarge")])
    index = TreeIndex(layout, Expansion())
    index.reveal("uc1/us-2/i-2/chip03/nc4")
    node = find_node(layout, "uc1/us-2/i-2/chip03/nc4")
    assert node is not None
    # uc1, both UltraServers, i-2, chip00 to chip03, nc0 to nc3 stand above it.
    assert index.row_of(node) == 3 + 1 + 4 + 4
    assert index.rows == 3 + 1 + 16 + 8
