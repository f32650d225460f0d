"""Summary of a recording: times, fleets and their sizes, messages by class, and losses."""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.hardware.catalogue import INSTANCE_TYPES
from trnfleet.errors import WireError
from trnfleet.services.files.recordings import fleets_of
from trnfleet.services.files.sequence_gaps import SequenceGaps
from trnfleet.wire.messages import Descriptor, decode_message
from trnfleet.wire.rollups import RollupDescriptor, is_rollup
from trnfleet.wire.topics import TopicClass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.record.read.recording import Recording
    from trnfleet.wire.ports import Envelope, Stored


@dataclass(slots=True)
class FleetFacts:
    """Facts about a fleet, from its descriptors and the sequence numbers of its telemetry."""

    name: str
    chips: int = 0
    instances: int = 0
    period_s: float | None = None
    """Wall seconds from tick to tick. With several periods, the one of most instances."""
    speed: float | None = None
    """Seconds of the fleet's time per wall second."""
    is_replay: bool = False
    """Whether a replay was recorded."""
    lost: int = 0
    """Ticks of a topic that never arrived, by sequence numbers."""
    backlog: int = 0
    """Ticks that arrived late, as backlog of an outage."""


class _Gathered:
    """Facts gathered while a recording is read."""

    def __init__(self, root: str) -> None:
        self.described: dict[str, dict[str, Descriptor | RollupDescriptor]] = {}
        """By fleet and path."""
        self.fleets: set[str] = set()
        self.gaps = SequenceGaps(root)

    def class_of(self, topic: str) -> str:
        """Return the name of a topic's class, `other` where it is not ours."""
        try:
            return self.gaps.parse(topic).topic_class.value
        except WireError:
            return "other"

    def add(self, stored: Stored) -> None:
        """Add a message, unless it contradicts its topic."""
        with contextlib.suppress(WireError):
            self._add(stored.envelope)

    def _add(self, envelope: Envelope) -> None:
        topic = self.gaps.parse(envelope.topic)
        self.fleets.add(topic.fleet)
        if topic.topic_class is TopicClass.NODE and envelope.payload:
            descriptor = (
                decode_message(envelope.payload, RollupDescriptor)
                if is_rollup(envelope.payload)
                else decode_message(envelope.payload, Descriptor)
            )
            self.described.setdefault(topic.fleet, {})[topic.path] = descriptor
        self.gaps.add(topic, envelope)


def summarize(files: Sequence[str], recording: Recording) -> dict[str, Any]:
    """Return the summary of a recording, as printed by `trnfleet info --json`.

    The recording is read once.

    Args:
        files: Its files, as they were named.
        recording: Their content.
    """
    reading = _Gathered(recording.root)
    # Where the first parts were deleted, only the state at the oldest part is left of them.
    keyframe = recording.keyframe(recording.start_ns)
    for stored in keyframe.state if keyframe is not None else ():
        if reading.class_of(stored.envelope.topic) == TopicClass.NODE:
            reading.add(stored)
    statistics = recording.statistics(reading.add)
    topics = Counter(map(reading.class_of, statistics.topics))
    names = dict.fromkeys([*fleets_of(recording), *sorted(reading.fleets)])
    fleets = [_fleet(name, reading) for name in names]
    length_ns = recording.end_ns - recording.start_ns
    return {
        "files": [
            {"file": file, "bytes": Path(file).stat().st_size if Path(file).exists() else None}
            for file in files
        ],
        "finished": recording.is_finished,
        "recovered": [recovery.text() for recovery in recording.recoveries],
        "damaged_chunks": recording.damaged,
        "senseless_messages": recording.unread,
        "start": format_rfc3339(recording.start_ns),
        "end": format_rfc3339(recording.end_ns),
        "duration_s": length_ns / NS_PER_S,
        "fleets": [asdict(fleet) for fleet in fleets],
        "messages": statistics.messages,
        "payload_bytes": statistics.payload_bytes,
        "period_s": statistics.period_ns / NS_PER_S if statistics.period_ns else None,
        "lost": sum(fleet.lost for fleet in fleets),
        "backlog": sum(fleet.backlog for fleet in fleets),
        "gaps": [
            {
                "from": format_rfc3339(begin),
                "to": format_rfc3339(end),
                "duration_s": (end - begin) / NS_PER_S,
            }
            for begin, end in statistics.gaps
        ],
        "classes": {
            name: {
                "messages": count.messages,
                "payload_bytes": count.payload_bytes,
                "topics": topics[name],
            }
            for name, count in sorted(statistics.classes.items())
            if count.messages
        },
        "topics": {
            name: {"messages": count.messages, "payload_bytes": count.payload_bytes}
            for name, count in sorted(statistics.topics.items())
        },
        "topics_not_listed_messages": statistics.uncounted,
        "parts": [
            {
                "id": about.id,
                "part": about.part,
                "fleets": list(about.fleets),
                "root": about.root,
                "trnfleet": about.version,
                "schema": about.schema,
                "broker": about.broker,
                "filters": list(about.filters),
                "started": about.started,
                "seed": about.seed,
                "note": about.note,
            }
            for about in recording.abouts
        ],
    }


def _fleet(name: str, reading: _Gathered) -> FleetFacts:
    facts = FleetFacts(name)
    periods: dict[tuple[float, float], int] = {}
    hardware: dict[str, tuple[str, int]] = {}
    for described in reading.described.get(name, {}).values():
        if isinstance(described, RollupDescriptor):
            of_block = {row.path: (row.type, row.instances) for row in described.rows}
        else:
            of_block = {instance.path: (instance.type, 1) for instance in described.instances}
        hardware |= of_block
        clock = described.period_s, described.clock.speed
        periods[clock] = periods.get(clock, 0) + sum(count for _, count in of_block.values())
        facts.is_replay |= described.replay
    facts.instances = sum(count for _, count in hardware.values())
    facts.chips = sum(
        INSTANCE_TYPES[kind].chips * count
        for kind, count in hardware.values()
        if kind in INSTANCE_TYPES
    )
    if periods:
        facts.period_s, facts.speed = max(periods, key=lambda clock: periods[clock])
    facts.lost = reading.gaps.lost_of(name)
    facts.backlog = reading.gaps.filled_of(name)
    return facts
