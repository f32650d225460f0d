"""A telemetry topic: how far it has come, and where its rows are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trnfleet.monitor.ingest.sequence import SequenceTracker, Verdict

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from trnfleet.domain.layout import Layout
    from trnfleet.monitor.ingest.frame_rows import FrameRows
    from trnfleet.monitor.pipeline.counts import PipelineCounts
    from trnfleet.monitor.sources.descriptors import CompactDescriptor
    from trnfleet.wire.frames import FrameDecoder
    from trnfleet.wire.messages import ColumnSpec
    from trnfleet.wire.telemetry import Head


@dataclass(slots=True, eq=False)
class TopicState:
    """A telemetry topic: its sequence and its rows in the layout.

    The rows may be of a former layout until `Topics.catch_up`.
    """

    path: str
    tracker: SequenceTracker = field(default_factory=SequenceTracker)
    descriptor: CompactDescriptor | None = None
    """None if nothing covers the topic any more."""
    former_boot: str = ""
    """The publisher's boot before the present one."""
    former_client: str = ""
    """The publisher of that boot; empty if unchanged."""
    clock: int = 0
    """Row of its clock in the columns of the `Timebase`. Updated when clocks move."""
    publisher: int = 0
    """Number of the boot that the descriptor names."""
    row: int = 0
    """Row of its client in the publisher traffic; 0 if unknown."""
    decoder: FrameDecoder | None = None
    chips: slice | NDArray[np.int64] = field(default_factory=lambda: slice(0, 0))
    instances: slice | NDArray[np.int64] = field(default_factory=lambda: slice(0, 0))
    is_chip: bool = False
    chip_count: int = 0
    same_chip: tuple[str, ...] = ()
    """Chip columns of its frames equal to the metric table's: copied unchanged."""
    same_instance: tuple[str, ...] = ()
    limited: tuple[tuple[ColumnSpec, int], ...] = ()
    """Known columns with possible codes above their metric's limit, and the code of the limit."""
    foreign: tuple[ColumnSpec, ...] = ()
    """Columns of another type, scale or width: converted. Unknown columns are left out."""
    has_other_columns: bool = False
    """Whether any column is not copied unchanged."""
    frame_rows: FrameRows | None = None
    """The table with its sequence, instead of its tracker."""
    number: int = 0
    """Its row there; without meaning where it has none."""
    topic: str = ""
    """Where it is published."""
    layouts: int = 0
    """Number of the layout of these rows, counted by `Topics`."""

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        """Return the state for pickles, with the sequence in a tracker instead of a table."""
        state = {name: getattr(self, name) for name in self.__slots__}
        if self.frame_rows is not None:
            tracker = SequenceTracker()
            tracker.first = self.tracker.first
            self.frame_rows.save(self.number, tracker)
            state.update(tracker=tracker, frame_rows=None)
        return None, state

    def own_instances(self, layout: Layout) -> slice | NDArray[np.int64] | NDArray[np.int32]:
        """Return its instance rows in the layout it is bound to."""
        return layout.instance_of_chip[self.chips] if self.is_chip else self.instances

    def move_frame_rows(self) -> None:
        """Move to the rows of the present layout, if still consecutive."""
        if self.frame_rows is None:
            return
        if isinstance(self.chips, slice) and isinstance(self.instances, slice):
            self.frame_rows.move(self)
        else:
            self.leave_frame_rows()

    def leave_frame_rows(self) -> None:
        """Have the sequence in its tracker again."""
        if self.frame_rows is not None:
            self.frame_rows.leave(self)

    def is_newest(self, head: Head, counts: PipelineCounts, shed: int = 0) -> bool:
        """Return whether a message is newest and of the described boot.

        Count it otherwise.

        Args:
            head: The message's.
            counts: The counters.
            shed: Messages of the topic before it that were left out here.
        """
        if self.descriptor is None or head.boot != self.descriptor.boot:
            if head.boot == self.former_boot and self.former_client:
                counts.contested += 1
            elif head.boot == self.former_boot:
                counts.late += 1
            else:
                counts.undescribed += 1
            return False
        return self.tracker.accept(head.seq, counts, shed, ts_ns=head.ts_ns) is Verdict.NEWEST
