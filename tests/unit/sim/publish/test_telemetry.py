from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING

import numpy as np
from support.sim.tick_lines import stdout_lines

from trnfleet.sim.engine import Engine, to_ns
from trnfleet.sim.rng import Rng
from trnfleet.wire.frames import FrameDecoder, FrameEncoder
from trnfleet.wire.messages import STANDARD_COLUMNS
from trnfleet.wire.telemetry import decode_sample, split_codes

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.domain.fleet import FleetFile


def engine_of(fleet: FleetFile, seed: int = 3) -> Engine:
    return Engine(fleet, seed, 1.0, to_ns(fleet.start))


def test_stdout_gives_each_instance_and_then_its_chips(shipped: Callable[[str], FleetFile]) -> None:
    """A tick of the demo is 204 lines of JSON in address order.

    Dated by the file's start, numbered from 0.
    """
    lines = list(stdout_lines(engine_of(shipped("demo")), ticks=2))
    assert len(lines) == 408
    assert all(line.endswith(b"\n") for line in lines)
    objects = [json.loads(line) for line in lines]
    assert [each["seq"] for each in objects] == [0] * 204 + [1] * 204
    assert objects[0]["ts"] == "2026-01-05T09:00:00.000Z"
    assert objects[204]["ts"] == "2026-01-05T09:00:01.000Z"
    assert {each["boot"] for each in objects} == {Rng(3).boot()}
    assert [each.get("chip") for each in objects[:17]] == [None, *range(16)]
    assert objects[1]["job"] == "finetune-8b"
    idle = [each for each in objects if each["instance"] == "trn2-0004"]
    assert {each["job"] for each in idle} == {None}


def test_stdout_repeats_itself(shipped: Callable[[str], FleetFile]) -> None:
    """The same seed gives the same bytes; without a number of ticks it never ends."""
    first, second = (stdout_lines(engine_of(shipped("demo"))) for _ in range(2))
    assert list(itertools.islice(first, 1_000)) == list(itertools.islice(second, 1_000))


def test_json_and_cbor_carry_the_same_codes(shipped: Callable[[str], FleetFile]) -> None:
    """Ticks decoded from JSON and from frames equal the engine's, code by code."""
    fleet = shipped("demo")
    speaking = engine_of(fleet)
    framing = engine_of(fleet)
    layout = framing.layout
    chips = slice(0, layout.chips)
    instances = slice(0, len(layout.instances))
    encoder = FrameEncoder(
        "uc1", "boot", revision=0, columns=framing.columns, chips=chips, instances=instances
    )
    decoder = FrameDecoder(STANDARD_COLUMNS, layout.chips, len(layout.instances))
    lines = stdout_lines(speaking)
    for tick in range(3):
        samples = [decode_sample(line) for line in itertools.islice(lines, 204)]
        frame = decoder.decode(encoder.encode(tick, framing.step().ts_ns))
        assert {sample.head.ts_ns for sample in samples} == {frame.head.ts_ns}
        for is_chip, arrays in ((True, frame.chip), (False, frame.instance)):
            chosen = [sample for sample in samples if sample.is_chip is is_chip]
            for metric, column in split_codes(chosen):
                if not metric.is_simulated:
                    assert (column == metric.top).all()
                    continue
                assert np.array_equal(column, arrays[metric.name]), metric.name
                assert np.array_equal(column, framing.columns[metric.name]), metric.name
