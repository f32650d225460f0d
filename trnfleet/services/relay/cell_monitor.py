"""The monitor of a relay's cell.

It ignores messages from other relays there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trnfleet.errors import WireError
from trnfleet.monitor.monitor import Monitor
from trnfleet.wire.messages import Descriptor, cell_of, decode_message
from trnfleet.wire.rollups import is_rollup
from trnfleet.wire.topics import TopicClass, build_topic

if TYPE_CHECKING:
    from trnfleet.wire.ports import Envelope


class CellMonitor(Monitor):
    """A monitor of a cell's own hosts and watches.

    Rows, forwarded hosts and everything below a cell's name belong to other cells. If applied, they
    would circulate in a ring of relays.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)

        def topics(topic_class: TopicClass) -> str:
            return build_topic(self.fleet_name, topic_class, "", self.root)

        self._telemetry = topics(TopicClass.TELEMETRY)
        self._rollup = topics(TopicClass.ROLLUP)
        self._node = topics(TopicClass.NODE)
        self._with_cells = tuple(map(topics, (TopicClass.PUBLISHER, TopicClass.ALERT)))

    def apply_messages(self, batch: list[Envelope]) -> None:
        """Apply messages not written by relays."""
        super().apply_messages([envelope for envelope in batch if not self._is_relayed(envelope)])

    def _is_relayed(self, envelope: Envelope) -> bool:
        topic = envelope.topic
        if topic.startswith(self._telemetry):
            return False
        if topic.startswith(self._rollup):
            return True
        if topic.startswith(self._node):
            return is_rollup(envelope.payload) or _is_forwarded(envelope.payload)
        for begin in self._with_cells:
            if topic.startswith(begin) and "/" in topic[len(begin) :]:
                return True
        return bool(cell_of(envelope.payload))


def _is_forwarded(payload: bytes) -> bool:
    if b'"forwarded"' not in payload:
        return False
    try:
        return decode_message(payload, Descriptor).forwarded is not None
    except WireError:
        return False
