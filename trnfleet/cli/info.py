"""`trnfleet info`: what is in a recording."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trnfleet.cli.options import FleetName, setting
from trnfleet.cli.recording import fleets_of, opened, size_text
from trnfleet.clock import NS_PER_S, format_rfc3339
from trnfleet.domain.hardware import INSTANCE_TYPES
from trnfleet.domain.quantities import duration as duration_text
from trnfleet.errors import WireError
from trnfleet.monitor.tracking import Pipeline, SequenceTracker
from trnfleet.tui.plain import plain
from trnfleet.wire.messages import Descriptor, decode_message, parse_json_object
from trnfleet.wire.topics import TopicClass, parse_topic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.record.recording import Recording
    from trnfleet.wire.topics import Topic

MOST_FLEETS = 20
"""Fleets that are told as text; JSON has all."""
MOST_STARTS = 200_000
"""Starts of publishers whose numbers are followed; a million chips have 62,500 publishers at most."""
MOST_GAPS = 10
"""Gaps that are told as text; JSON has all."""
_WIDTH = 300
_WHOLE = {0x18: 1, 0x19: 2, 0x1A: 4, 0x1B: 8}
"""Bytes of a CBOR number by its head."""


@dataclass(slots=True)
class FleetFacts:
    """What the descriptors of a fleet say, and what its telemetry's numbers tell."""

    name: str
    chips: int = 0
    instances: int = 0
    period_s: float | None = None
    """Wall seconds from tick to tick; of several periods that of most instances."""
    speed: float | None = None
    """Its seconds a wall second."""
    is_replay: bool = False
    """Whether a replay was recorded."""
    lost: int = 0
    """Ticks of a topic that never came, by their numbers."""


@dataclass(slots=True)
class _Reading:
    """What is gathered while a recording is read."""

    root: str
    fleets: set[str] = field(default_factory=set)
    described: dict[str, dict[str, Descriptor]] = field(default_factory=dict)
    """By fleet and path."""
    trackers: dict[tuple[str, str], SequenceTracker] = field(default_factory=dict)
    pipelines: dict[str, Pipeline] = field(default_factory=dict)

    def take(self, topic: Topic, payload: bytes) -> None:
        """Take note of a message.

        Raises:
            WireError: it is not what its topic says.
        """
        self.fleets.add(topic.fleet)
        if topic.topic_class is TopicClass.NODE and payload:
            self.described.setdefault(topic.fleet, {})[topic.path] = decode_message(payload, Descriptor)
        elif topic.topic_class is TopicClass.TELEMETRY and payload:
            boot, seq = _head(payload)
            key = topic.fleet + "/" + topic.path, boot
            tracker = self.trackers.get(key)
            if tracker is None:
                if len(self.trackers) >= MOST_STARTS:
                    return
                tracker = self.trackers[key] = SequenceTracker()
            tracker.accept(seq, self.pipelines.setdefault(topic.fleet, Pipeline()))


@click.command("info")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@setting(
    "--name", type=FleetName(), help="The fleet of files that name none, such as those of neuron-monitor."
)
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def command(files: tuple[str, ...], name: str | None, as_json: bool) -> None:
    """Say what is in a recording: times, fleets, messages by class, gaps, and whether it is complete.

    Several FILEs are the parts of one recording. A file that was not finished is no failure: what can be read of it is
    told, and what is missing.

    \b
    Examples:
      trnfleet info night.mcap
      trnfleet info night-*.mcap --json | jq .gaps
    """
    with opened(files, name=name) as recording:
        facts = _facts(files, recording)
    click.echo(json.dumps(facts, indent=2) if as_json else _text(facts))


def _facts(files: Sequence[str], recording: Recording) -> dict[str, Any]:
    census = recording.census()
    topics = Counter(_class_of(topic, recording.root) for topic in census.topics)
    reading = _Reading(recording.root)
    # Of what was recorded before the first part that is there, only state is left.
    keyframe = recording.keyframe(recording.start_ns)
    kept = keyframe.state if keyframe is not None else []
    state = [each for each in kept if _class_of(each.envelope.topic, reading.root) == TopicClass.NODE]
    for stored in itertools.chain(state, recording.all()):
        try:
            reading.take(parse_topic(stored.envelope.topic, reading.root), stored.envelope.payload)
        except WireError:
            continue
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
        "start": format_rfc3339(recording.start_ns),
        "end": format_rfc3339(recording.end_ns),
        "duration_s": length_ns / NS_PER_S,
        "fleets": [asdict(fleet) for fleet in fleets],
        "messages": census.messages,
        "payload_bytes": census.payload_bytes,
        "period_s": census.period_ns / NS_PER_S if census.period_ns else None,
        "lost": sum(fleet.lost for fleet in fleets),
        "gaps": [
            {"from": format_rfc3339(begin), "to": format_rfc3339(end), "duration_s": (end - begin) / NS_PER_S}
            for begin, end in census.gaps
        ],
        "classes": {
            name: {
                "messages": count.messages,
                "payload_bytes": count.payload_bytes,
                "topics": topics[name],
            }
            for name, count in sorted(census.classes.items())
            if count.messages
        },
        "topics": {
            name: {"messages": count.messages, "payload_bytes": count.payload_bytes}
            for name, count in sorted(census.topics.items())
        },
        "topics_not_listed_messages": census.uncounted,
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


def _fleet(name: str, reading: _Reading) -> FleetFacts:
    facts = FleetFacts(name)
    periods: dict[tuple[float, float], int] = {}
    instances: dict[str, str] = {}
    for described in reading.described.get(name, {}).values():
        instances |= {instance.path: instance.type for instance in described.instances}
        clock = described.period_s, described.clock.speed
        periods[clock] = periods.get(clock, 0) + len(described.instances)
        facts.is_replay |= described.replay
    facts.instances = len(instances)
    facts.chips = sum(INSTANCE_TYPES[kind].chips for kind in instances.values() if kind in INSTANCE_TYPES)
    if periods:
        facts.period_s, facts.speed = max(periods, key=lambda clock: periods[clock])
    facts.lost = max(0, reading.pipelines[name].lost) if name in reading.pipelines else 0
    return facts


def _class_of(topic: str, root: str) -> str:
    try:
        return parse_topic(topic, root).topic_class.value
    except WireError:
        return "other"


def _head(payload: bytes) -> tuple[str, int]:
    """Return boot and seq of telemetry.

    Raises:
        WireError: it has none.
    """
    if not 0xA0 <= payload[0] < 0xC0:
        data = parse_json_object(payload)
        boot, seq = data.get("boot"), data.get("seq")
        if not (isinstance(boot, str) and isinstance(seq, int) and seq >= 0):
            raise WireError("telemetry without boot or seq")
        return boot, seq
    # The head of a frame comes before its arrays; to decode these would take a descriptor.
    at = payload.find(b"\x64boot") + 5
    begin = at + (2 if payload[at : at + 1] == b"\x78" else 1)
    length = payload[begin - 1] - (0 if begin - at == 2 else 0x60)
    number = payload.find(b"\x63seq") + 4
    if at < 5 or number < 4 or not 0 < length <= 64 or number >= len(payload):
        raise WireError("a frame without boot or seq")
    head = payload[number]
    size = _WHOLE.get(head, 0)
    if not size and head >= 0x18:
        raise WireError("a frame whose seq is no number")
    seq = int.from_bytes(payload[number + 1 : number + 1 + size], "big") if size else head
    return payload[begin : begin + length].decode("latin-1"), seq


def _text(facts: dict[str, Any]) -> str:
    names = [each["file"] for each in facts["files"]]
    size = size_text(sum(each["bytes"] or 0 for each in facts["files"]))
    state = "complete" if facts["finished"] else "not finished, what is there can be read"
    if facts["damaged_chunks"]:
        damaged = facts["damaged_chunks"]
        state += f"; {damaged:,} damaged chunk{'s' * (damaged != 1)} left out"
    files = (
        plain(names[0], _WIDTH)
        if len(names) == 1
        else f"{plain(names[0], _WIDTH)} and {len(names) - 1:,} more"
    )
    messages = (
        f"{facts['messages']:,} on {len(facts['topics']):,} topics, "
        f"{size_text(facts['payload_bytes'])} of payload"
    )
    more = len(facts["fleets"]) - MOST_FLEETS
    rows = [
        ("time", f"{facts['start']} to {facts['end']} ({duration_text(facts['duration_s'])})"),
        *(("fleet", _fleet_text(fleet)) for fleet in facts["fleets"][:MOST_FLEETS]),
        *[("fleet", f"and {more:,} more")][: more > 0],
        ("messages", messages),
        ("lost", f"{facts['lost']:,} by their numbers; {_gap_text(facts)}"),
        *(("gap", f"{each['from']} to {each['to']}") for each in facts["gaps"][:MOST_GAPS]),
        ("made by", _origin(facts["parts"][0])),
    ]
    if facts["parts"][0]["note"]:
        rows.append(("note", plain(facts["parts"][0]["note"], _WIDTH)))
    table = [("CLASS", "MESSAGES", "TOPICS", "PAYLOAD")]
    table += [
        (name, f"{each['messages']:,}", f"{each['topics']:,}", size_text(each["payload_bytes"]))
        for name, each in facts["classes"].items()
    ]
    return "\n".join(
        [
            f"{files}: {state}; {size}",
            *(f"  {name:<10}{value}" for name, value in rows),
            *(f"  {row[0]:<14}{row[1]:>12}{row[2]:>10}{row[3]:>12}" for row in table),
        ]
    )


def _fleet_text(fleet: dict[str, Any]) -> str:
    chips, instances = fleet["chips"], fleet["instances"]
    text = f"{plain(fleet['name'])}: {chips:,} chip{'s' * (chips != 1)} of {instances:,} "
    text += f"instance{'s' * (instances != 1)}"
    if fleet["period_s"] is not None:
        text += f", a tick every {fleet['period_s']:g} s"
    if fleet["speed"] not in {None, 1.0}:
        text += f", {fleet['speed']:g} times as fast as the clock"
    return text + (", itself a replay" if fleet["is_replay"] else "")


def _gap_text(facts: dict[str, Any]) -> str:
    gaps = len(facts["gaps"])
    return "no gaps" if not gaps else f"{gaps:,} gap{'' if gaps == 1 else 's'} without telemetry"


def _origin(part: dict[str, Any]) -> str:
    said = [f"trnfleet {plain(part['trnfleet']) or 'unknown'}", f"schema {plain(part['schema'])}"]
    if part["broker"]:
        said.append(f"from {plain(part['broker'], _WIDTH)}")
    if part["seed"] is not None:
        said.append(f"seed {part['seed']}")
    return ", ".join(said)
