"""Published values of metrics the simulator does not fill yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cbor2
import pytest

import trnfleet.sim.engine as engine_module
import trnfleet.wire.frames as frames_module
import trnfleet.wire.telemetry as telemetry_module
from trnfleet.domain.metrics import (
    BY_NAME,
    CHIP_METRICS,
    INSTANCE_METRICS,
    SIMULATED,
    Aggregate,
    Kind,
    Metric,
    Origin,
    Scope,
    WireType,
)
from trnfleet.wire.frames import FrameEncoder
from trnfleet.wire.telemetry import Head, encode_chips, encode_instance

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.sim.engine import Engine

PATH = "c/standalone/trn2-0001"
HEAD = Head("boot", 0, 1_767_571_200_000_000_000)


def made_up(
    name: str, scope: Scope, wire: WireType, kind: Kind = Kind.GAUGE, **rest: Any
) -> Metric:
    return Metric(
        name,
        scope,
        wire,
        0.5,
        "V",
        Aggregate.MEAN,
        kind,
        "Made up.",
        Origin.UNAVAILABLE,
        "nothing",
        **rest,
    )


CHIP = (
    made_up("supply_v", Scope.CHIP, "u8"),
    made_up("fan_rpm", Scope.CHIP, "u16", lanes=("left", "right")),
    made_up("resets", Scope.CHIP, "u64", Kind.COUNTER),
)
INSTANCE = (made_up("host_supply_v", Scope.INSTANCE, "u32"),)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, make_engine: Callable[..., Engine]) -> Engine:
    """Return an engine of two instances with a longer table of metrics, two ticks old."""
    monkeypatch.setattr(engine_module, "SIMULATED", (*SIMULATED, *CHIP, *INSTANCE))
    for module in (frames_module, telemetry_module):
        monkeypatch.setattr(module, "CHIP_METRICS", (*CHIP_METRICS, *CHIP))
        monkeypatch.setattr(module, "INSTANCE_METRICS", (*INSTANCE_METRICS, *INSTANCE))
    for metric in (*CHIP, *INSTANCE):
        monkeypatch.setitem(BY_NAME, metric.name, metric)
    made = make_engine()
    for _ in range(2):
        made.step()
    return made


def test_json_has_null(engine: Engine) -> None:
    """A new metric is null, including a vector's lanes.

    Metrics filled by the simulator have values, and counters their 0.
    """
    _, chip = next(encode_chips(HEAD, PATH, None, engine.columns, slice(0, 16)))
    instance = encode_instance(HEAD, PATH, None, engine.columns, 0)
    assert (chip["supply_v"], chip["fan_rpm"], chip["resets"]) == (None, [None, None], None)
    assert instance["host_supply_v"] is None
    assert chip["power_w"] > 0
    assert (chip["health"], chip["exec_errors"], chip["mem_ecc_uncorrected"]) == (0, 0, 0)
    assert instance["host_power_w"] > 0


def test_a_frame_holds_the_top_codes(engine: Engine) -> None:
    """In CBOR every code of a new metric's array is "not available"."""
    frame = cbor2.loads(
        FrameEncoder(
            PATH,
            "boot",
            revision=0,
            columns=engine.columns,
            chips=slice(16, 32),
            instances=slice(1, 2),
        ).encode(0, HEAD.ts_ns)
    )
    for key, metrics, rows in (("chip", CHIP, 16), ("instance", INSTANCE, 1)):
        for metric in metrics:
            assert frame[key][metric.name].value == b"\xff" * (rows * metric.bytes_per_row), (
                metric.name
            )
    assert set(frame["chip"]["health"].value) == {0}


def test_the_others_keep_their_codes(engine: Engine, make_engine: Callable[..., Engine]) -> None:
    """A longer table does not change the metrics filled by the simulator."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine_module, "SIMULATED", SIMULATED)
        plain = make_engine()
        for _ in range(2):
            plain.step()
    for name, column in plain.columns.items():
        assert engine.columns[name].tobytes() == column.tobytes(), name
