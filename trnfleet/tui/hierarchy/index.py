"""Rows and nodes of the tree-table.

Rows are computed from the layout's ranges, with the instances and chips left by a filter. There is
no object per chip and no loop over chips: rows are counted with sums over instances, and only the
parents inside a window are visited one by one. Open nodes are stored by address, so they survive a
new layout; nodes are then looked up again. The module reads no values and draws nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnfleet.domain import address
from trnfleet.domain.address import Level
from trnfleet.domain.layout import FLEET_NODE, Layout, Node
from trnfleet.domain.metrics import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Order = Callable[[Level, NDArray[np.int64]], NDArray[np.intp] | None]
    from numpy.typing import NDArray


CORE_LANES = BY_NAME["nc_util_pct"].width
"""Lanes per chip in the store's per-core columns. A core's number is chip row x `CORE_LANES` +
core."""


class TreeRow(NamedTuple):
    """A visible row."""

    node: Node
    is_open: bool
    fleet: int | None = None
    """Number of the fleet for a fleet's row; None for all other rows."""
    is_flat: bool = False
    """Whether it stands alone, without the rows above it."""


class Flat(NamedTuple):
    """A flat list instead of the tree."""

    level: Level
    """The level of its rows."""
    most: int | None = None
    """Most rows; None for all."""


class FleetRows(NamedTuple):
    """Rows of the fleets; the tree stands below its own fleet's row.

    No rows with one fleet.
    """

    own: int = 0
    """Number of the tree's fleet."""
    total: int = 0
    """Fleets in all; 0 where they have no rows."""
    is_shut: bool = False
    """Whether the tree is not shown."""

    @property
    def above(self) -> int:
        """Rows above the tree: the fleets before its own, and its own."""
        return self.own + 1 if self.total else 0


NO_FLEETS = FleetRows()
_FLEET = ":"
"""Prefix of the key of a fleet's row. No address begins with it."""


def fleet_key(number: int) -> str:
    """Return the key of the row of a fleet."""
    return f"{_FLEET}{number}"


def address_in(key: str) -> str:
    """Return the address for a row's key.

    A fleet's row has the address of the fleet.
    """
    return "" if key.startswith(_FLEET) else key


@dataclass(slots=True)
class Expansion:
    """Open nodes: a depth per subtree, and single nodes toggled against it."""

    depths: dict[str, Level] = field(default_factory=lambda: {"": Level.ULTRASERVER})
    """Level down to which a subtree is open, by address. The fleet's entry always exists."""
    toggled: set[str] = field(default_factory=set)

    def toggle(self, path: str) -> None:
        """Open the node at `path` if it is closed, and the reverse."""
        self.toggled ^= {path}

    def open(self, path: str) -> None:
        """Open the node at `path`, also where nothing is below it yet."""
        if (address.level_of(path) < self.depth_at(path)) == (path in self.toggled):
            self.toggle(path)

    def set_depth(self, path: str, depth: Level) -> None:
        """Open everything from `path` down to a level, and close everything below."""
        below = path + "/" if path else ""
        self.toggled = {
            place for place in self.toggled if place != path and not place.startswith(below)
        }
        self.depths = {
            place: level for place, level in self.depths.items() if not place.startswith(below)
        }
        self.depths[path] = depth
        self.depths.setdefault("", Level.ULTRASERVER)

    def depth_at(self, path: str) -> Level:
        """Return the depth in force for the node at `path`."""
        while path not in self.depths:
            path = address.parent(path)
        return self.depths[path]


class TreeIndex:
    """Rows of the tree over one layout, from the clusters down.

    With several fleets, each fleet has a row.
    """

    def __init__(
        self,
        layout: Layout,
        expansion: Expansion,
        selection: TreeSelection | None = None,
        order: Order | None = None,
        fleets: FleetRows = NO_FLEETS,
    ) -> None:
        """Index the rows of a layout.

        Args:
            layout: The fleet.
            expansion: The open nodes; call `refresh` after a change.
            selection: The matches of a filter.
            order: Returns the display order of siblings (a level and their numbers), None for that
                of their addresses; call `resort` when its result changes.
            fleets: The rows of fleets.
        """
        self.fleets = fleets
        self.layout = layout
        self._expansion = expansion
        self._selection = selection
        self._order = order
        cores = np.array([kind.chip.neuroncores for kind in layout.types], dtype=np.int64)
        self._cores: NDArray[np.int64] = (
            cores[layout.instance_type] if len(cores) else np.zeros(0, np.int64)
        )
        self._chips = np.diff(layout.chip_start) if selection is None else selection.chips
        self._is_whole = layout.is_rolled & np.array(
            [path.count("/") == 1 for path in layout.instances]
            if layout.has_rolled
            else np.zeros(len(layout.instances)),
            np.bool_,
        )
        """Rows of the layout that stand for an UltraServer, and are no instances of it."""
        self._heights: dict[Level, dict[Level, NDArray[np.int64]]] = {}
        self._branches: dict[Node, _Branch] = {}
        self._special: dict[Node, set[Node]] = {}
        self.refresh()

    def refresh(self) -> None:
        self._branches.clear()
        self._special.clear()
        for path in (*self._expansion.toggled, *self._expansion.depths):
            node = find_node(self.layout, path)
            while node is not None and node.level is not Level.FLEET:
                above = parent_of(self.layout, node)
                self._special.setdefault(above, set()).add(node)
                node = above
        depth = self._expansion.depths[""]
        self._below = 0 if self.fleets.is_shut else int(self._children(FLEET_NODE, depth)[1].sum())
        self.rows = self._below + self.fleets.total

    def resort(self) -> None:
        """Drop the cached order of siblings."""
        self._branches.clear()

    def window(self, top: int, count: int) -> list[TreeRow]:
        rows: list[TreeRow] = []
        if count <= 0 or not 0 <= top < self.rows:
            return rows
        fleets = self.fleets
        first = self.fleets.above
        rows += [
            TreeRow(FLEET_NODE, number == fleets.own and self._below > 0, number)
            for number in range(top, min(first, top + count))
        ]
        skip = max(0, top - first)
        if len(rows) < count and skip < self._below:
            self._walk(FLEET_NODE, self._expansion.depths[""], skip, count, rows)
        after = max(top, first + self._below) - self._below
        rows += [
            TreeRow(FLEET_NODE, is_open=False, fleet=number)
            for number in range(after, min(fleets.total, after + count - len(rows)))
        ]
        return rows

    def at(self, row: int) -> TreeRow | None:
        rows = self.window(row, 1)
        return rows[0] if rows else None

    def row_of(self, node: Node) -> int | None:
        """Return the row of a node; None if filtered out or below a closed node."""
        row, reached = self._locate(node)
        return row + self.fleets.above if reached == node and not self.fleets.is_shut else None

    def nearest(self, path: str) -> int:
        """Return the row of the node at `path`, or of its nearest visible ancestor.

        0 if there is neither.

        Args:
            path: An address, or the key of a fleet's row.
        """
        fleets = self.fleets
        if path.startswith(_FLEET):
            number = int(path.removeprefix(_FLEET))
            return number if number <= fleets.own else number + self._below
        if fleets.is_shut:
            return fleets.own
        node = find_node(self.layout, path)
        while node is None and path:
            path = address.parent(path)
            node = find_node(self.layout, path)
        return max(0, self._locate(node or FLEET_NODE)[0] + fleets.above)

    def reveal(self, path: str) -> None:
        """Open everything above `path`."""
        above = address.parent(path)
        while above:
            node = find_node(self.layout, above)
            if node is not None and not self._is_open(node):
                self._expansion.toggle(above)
            above = address.parent(above)
        self.refresh()

    def lacks_chips(self, row: TreeRow) -> bool:
        """Return whether a row is an UltraServer or instance known only from roll-ups."""
        layout = self.layout
        node = row.node
        if row.fleet is not None or node.level not in {Level.ULTRASERVER, Level.INSTANCE}:
            return False
        return layout.is_rolled_up(node) and not layout.children(node)

    def _is_open(self, node: Node) -> bool:
        path = node_path(self.layout, node)
        return (node.level < self._expansion.depth_at(path)) != (path in self._expansion.toggled)

    def _locate(self, node: Node) -> tuple[int, Node]:
        """Return the row and node of a node, or of its nearest visible ancestor."""
        chain = [node]
        while chain[-1].level is not Level.FLEET:
            chain.append(parent_of(self.layout, chain[-1]))
        row = -1
        depth = self._expansion.depths[""]
        above = chain.pop()
        while chain:
            child = chain.pop()
            branch = self._branch(above, depth)
            places = np.flatnonzero(branch.numbers == child.number)
            if not len(places):
                break
            place = int(places[0])
            start = int(branch.ends[place - 1]) if place else 0
            row += 1 + start
            depth = self._depth(above, child, depth)
            above = child
            if branch.ends[place] - start == 1:
                break
        return row, above

    def _walk(self, node: Node, depth: Level, skip: int, count: int, rows: list[TreeRow]) -> None:
        """Append rows below a node, leaving out the first `skip`, until there are `count`."""
        numbers, ends = self._branch(node, depth)
        place = int(np.searchsorted(ends, skip, side="right"))
        start = int(ends[place - 1]) if place else 0
        # Every child takes at least a row, so that no more of them can be needed.
        stop = place + count - len(rows) + 1
        level = Level(node.level + 1)
        for number, end in zip(
            numbers[place:stop].tolist(), ends[place:stop].tolist(), strict=True
        ):
            child = Node(level, number)
            is_open = end - start > 1
            if skip <= start:
                rows.append(TreeRow(child, is_open))
            if len(rows) < count and is_open:
                self._walk(
                    child, self._depth(node, child, depth), max(0, skip - start - 1), count, rows
                )
            if len(rows) >= count:
                return
            start = end

    def _depth(self, above: Node, node: Node, inherited: Level) -> Level:
        """Return the depth in force below a node, a child of `above`."""
        if node not in self._special.get(above, ()):
            return inherited
        return self._expansion.depths.get(node_path(self.layout, node), inherited)

    def _branch(self, node: Node, depth: Level) -> _Branch:
        """Return a node's children as they are shown; kept until something changes."""
        branch = self._branches.get(node)
        if branch is None:
            numbers, heights = self._children(node, depth)
            order = (
                self._order(Level(node.level + 1), numbers)
                if self._order and len(numbers) > 1
                else None
            )
            if order is not None:
                numbers = numbers[order]
                heights = heights[order]
            branch = self._branches[node] = _Branch(numbers, np.cumsum(heights))
        return branch

    def _children(self, node: Node, depth: Level) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the numbers and heights of a node's visible children.

        A height counts the child's own row.
        """
        layout = self.layout
        span = layout.children(node)
        level = Level(node.level + 1)
        if level is Level.CORE:
            numbers = node.number * CORE_LANES + np.arange(span.start, span.stop)
            return numbers, np.ones(len(numbers), np.int64)
        numbers = np.arange(span.start, span.stop)
        if level is Level.CHIP:
            if self._selection is not None:
                numbers = span.start + np.flatnonzero(self._selection.mask[span.start : span.stop])
            rows = 1 + int(self._cores[node.number]) if depth >= Level.CORE else 1
            heights = np.full(len(numbers), rows, np.int64)
        else:
            heights = self._plain_heights(depth)[level][span.start : span.stop]
            if self._selection is not None:
                shown = heights > 0
                numbers = numbers[shown]
                heights = heights[shown]
        special = self._special.get(node)
        if special:
            heights = heights.copy()
            for child in special:
                places = np.flatnonzero(numbers == child.number)
                if len(places):
                    heights[places[0]] = self._special_height(child, depth)
        return numbers, heights

    def _special_height(self, node: Node, depth: Level) -> int:
        """Return the rows of a node.

        Nodes at or below it are toggled or have a depth of their own.
        """
        path = node_path(self.layout, node)
        depth = self._expansion.depths.get(path, depth)
        if (node.level < depth) == (path in self._expansion.toggled):
            return 1
        return 1 + int(self._children(node, depth)[1].sum())

    def _plain_heights(self, depth: Level) -> dict[Level, NDArray[np.int64]]:
        """Return the rows per cluster, UltraServer and instance if all is open to `depth`.

        0 for hidden nodes.
        """
        known = self._heights.get(depth)
        if known is not None:
            return known
        layout = self.layout
        chip = 1 + self._cores if depth >= Level.CORE else 1
        below = np.where(layout.is_rolled, 0, self._chips * chip) if depth >= Level.CHIP else 0
        heights = {Level.INSTANCE: np.where(self._chips > 0, 1 + below, 0)}
        for level, starts in (
            (Level.ULTRASERVER, layout.ultraserver_start),
            (Level.CLUSTER, layout.cluster_start),
        ):
            rows = heights[Level(level + 1)]
            total = np.add.reduceat(rows, starts[:-1]) if len(rows) else np.zeros(0, np.int64)
            below = total
            if level is Level.ULTRASERVER and layout.has_rolled:
                below = np.add.reduceat(np.where(self._is_whole, 0, rows), starts[:-1])
            heights[level] = np.where(total > 0, 1 + (below if depth > level else 0), 0)
        self._heights[depth] = heights
        return heights


class FlatIndex(TreeIndex):
    """The nodes of one level as rows below each other."""

    def __init__(
        self, layout: Layout, flat: Flat, selection: TreeSelection | None, order: Order
    ) -> None:
        """Index the nodes of a level; the arguments are those of `TreeIndex`."""
        self.flat = flat
        super().__init__(layout, Expansion(), selection, order)

    def refresh(self) -> None:
        self._branches.clear()
        self.total = len(self._all())
        """Rows without the limit of the list."""
        self.rows = min(self.total, self.flat.most or self.total)

    def window(self, top: int, count: int) -> list[TreeRow]:
        return [
            TreeRow(Node(self.flat.level, number), is_open=False, is_flat=True)
            for number in self._numbers()[top : top + count].tolist()
        ]

    def row_of(self, node: Node) -> int | None:
        places = np.flatnonzero(self._numbers() == node.number)
        return int(places[0]) if node.level is self.flat.level and len(places) else None

    def nearest(self, path: str) -> int:
        node = find_node(self.layout, path)
        return 0 if node is None else self.row_of(node) or 0

    def reveal(self, path: str) -> None:
        """Do nothing: no row is hidden."""

    def _all(self) -> NDArray[np.int64]:
        layout = self.layout
        level = self.flat.level
        if level is Level.CHIP:
            known = (
                np.ones(layout.chips, np.bool_) if self._selection is None else self._selection.mask
            )
        elif level is Level.INSTANCE:
            known = (self._chips > 0) & ~self._is_whole
        else:
            known = self._plain_heights(Level.FLEET)[level] > 0
            known &= ~layout.is_standalone
        return np.flatnonzero(known)

    def _numbers(self) -> NDArray[np.int64]:
        """Return the nodes of the rows, in order."""
        branch = self._branches.get(FLEET_NODE)
        if branch is None:
            numbers = self._all()
            order = None if self._order is None else self._order(self.flat.level, numbers)
            numbers = (numbers if order is None else numbers[order])[: self.flat.most]
            branch = self._branches[FLEET_NODE] = _Branch(numbers, numbers)
        return branch.numbers


class _Branch(NamedTuple):
    """A node's children as they are shown."""

    numbers: NDArray[np.int64]
    ends: NDArray[np.int64]
    """Rows up to the end of each child."""


def parent_of(layout: Layout, node: Node) -> Node:
    """Return the node one level up, of a core too."""
    if node.level is Level.CORE:
        return Node(Level.CHIP, node.number // CORE_LANES)
    return layout.parent(node)


def row_key(layout: Layout, row: TreeRow) -> str:
    """Return the key of a row: its address, or a fleet's key."""
    return node_path(layout, row.node) if row.fleet is None else fleet_key(row.fleet)


def node_path(layout: Layout, node: Node) -> str:
    """Return a node's address, of a core too."""
    if node.level is Level.CORE:
        chip, core = divmod(node.number, CORE_LANES)
        return f"{layout.path(Node(Level.CHIP, chip))}/{address.format_core(core)}"
    return layout.path(node)


def find_node(layout: Layout, path: str) -> Node | None:
    """Return the node at an address, of a core too, or None."""
    node = layout.find(path)
    if node is None or address.level_of(path) is not Level.CORE:
        return node
    core = address.parse_core(path.rpartition("/")[2])
    if core is None or core >= len(layout.children(node)):
        return None
    return Node(Level.CORE, node.number * CORE_LANES + core)


@dataclass(frozen=True)
class TreeSelection:
    """The instances and chips that a filter leaves."""

    mask: NDArray[np.bool_]
    """Mask of matching chips; shape (chips,)."""
    chips: NDArray[np.int64]
    """How many chips of each instance are left; an instance with none is hidden."""
    depth: Level
    """The level that was searched."""

    @staticmethod
    def build(layout: Layout, mask: NDArray[np.bool_], depth: Level) -> TreeSelection:
        """Return the selection of the chips marked in `mask`."""
        chips = np.zeros(len(layout.instances), np.int64)
        if len(mask):
            chips = np.add.reduceat(mask, layout.chip_start[:-1], dtype=np.int64)
        return TreeSelection(mask, chips, depth)

    @property
    def matches(self) -> int:
        """How many instances (or chips, where these were searched) are left."""
        return int(self.chips.sum() if self.depth is Level.CHIP else np.count_nonzero(self.chips))
