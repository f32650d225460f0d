"""The layout of a descriptor's frames: identity, columns and the rows of each instance."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

from trnfleet.domain.hardware.catalogue import INSTANCE_TYPES, unknown_instance_type
from trnfleet.domain.metrics import Scope
from trnfleet.errors import WireError
from trnfleet.wire.frames import FrameDecoder, is_known, to_store_codes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnfleet.wire.frames import Frame
    from trnfleet.wire.messages import ColumnSpec, Descriptor

_MOST_DECODERS = 64
"""Most cached decoders, one per form of frames. Nearly all publishers of a fleet share one or two.
"""


class Unit(NamedTuple):
    """The part of a descriptor needed to read its frames."""

    path: str
    boot: str
    revision: int
    instances: tuple[tuple[str, str], ...]
    """Path and type of each, in the order of the frames' rows."""
    chips: tuple[int, ...]
    """First chip row of each instance, and their number at the end."""
    columns: tuple[ColumnSpec, ...]
    """Those of known metrics."""
    decoder: FrameDecoder

    @staticmethod
    def of(descriptor: Descriptor) -> Unit:
        """Return the unit of a descriptor.

        Raises:
            WireError: it names an instance type that the hardware catalogue does not have.
        """
        counts = [_chips_of(instance.type) for instance in descriptor.instances]
        chips = tuple(itertools.accumulate(counts, initial=0))
        columns = tuple(column for column in descriptor.columns if is_known(column))
        return Unit(
            descriptor.path,
            descriptor.boot,
            descriptor.revision,
            tuple((instance.path, instance.type) for instance in descriptor.instances),
            chips,
            columns,
            _decoder(columns, chips[-1], len(counts)),
        )

    def decode(self, payload: bytes) -> Frame:
        """Return a frame of the unit.

        Raises:
            WireError: it is not as the descriptor announces, or of another path, boot or revision.
        """
        frame = self.decoder.decode(payload)
        if frame.path != self.path:
            raise WireError("the frame's path is not its topic's")
        if (frame.head.boot, frame.revision) != (self.boot, self.revision):
            raise WireError("a frame of another boot or revision than its descriptor's")
        return frame

    def codes(self, frame: Frame) -> dict[str, NDArray[Any]]:
        """Return a frame's values as the metric table's codes, by metric.

        A row per chip or per instance.
        """
        return {
            column.name: to_store_codes(
                column, (frame.chip if column.per is Scope.CHIP else frame.instance)[column.name]
            )
            for column in self.columns
        }


def _chips_of(instance_type: str) -> int:
    kind = INSTANCE_TYPES.get(instance_type)
    if kind is None:
        raise WireError(unknown_instance_type(instance_type))
    return kind.chips


@functools.lru_cache(maxsize=_MOST_DECODERS)
def _decoder(columns: tuple[ColumnSpec, ...], chips: int, instances: int) -> FrameDecoder:
    """Return the decoder of a form of frames.

    Units share it, and its learned templates.
    """
    return FrameDecoder(columns, chips, instances)
