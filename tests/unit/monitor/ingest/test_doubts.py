"""Telemetry with unusable parts: the rest counts, the fault is counted, named and shown."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import numpy as np
import pytest
from support.monitor.feed import Feed, described_feed, ready, standalone

from trnfleet.domain.alerts.templates import summary, title
from trnfleet.domain.metrics import BY_NAME
from trnfleet.domain.severity import Severity
from trnfleet.monitor.alerting.engine import Alerts
from trnfleet.monitor.pipeline.doubts import MOST_KEYS, TelemetryDoubts
from trnfleet.monitor.pipeline.publishers import State
from trnfleet.services.files.rules import load_rules
from trnfleet.wire.telemetry import Doubt, Head, decode_sample, dump, encode_instance

HEAD = Head("boot", 0, 1_767_571_200_000_000_000)
HOST = "uc1/standalone/trn2-0001"


def fed(*, as_json: bool = True) -> Feed:
    """Return a described feed of two hosts with values."""
    return ready(standalone(2), json=as_json)


async def send(feed: Feed, changes: dict[str, Any], *, chips: bool | None = True) -> None:
    """Send a tick with some changed keys of the first host.

    None removes a key.
    """
    made = []
    for envelope in feed.telemetry():
        data = json.loads(envelope.payload)
        if data["instance"] == "trn2-0001" and chips in {None, "chip" in data}:
            data |= changes
            data = {key: value for key, value in data.items() if value is not None}
        made.append(envelope._replace(payload=json.dumps(data).encode()))
    feed.receive(made)
    await feed.advance(1.0)


@pytest.mark.parametrize("value", [4294967295, 808334905, 176000, 127, -1, "50"])
async def test_a_garbage_value_is_not_available_and_its_message_counts(value: object) -> None:
    """A garbage value is named with key and limit; the rest of its message counts."""
    feed = fed()
    await send(feed, {"nc_util_pct": [value, *[50.0] * 7]})

    monitor = feed.monitor
    store = monitor.store
    counts = monitor.counts
    util = store.values(BY_NAME["nc_util_pct"], slice(0, 16))
    assert np.isnan(util[:, 0]).all()
    assert (util[:, 1:] == 50).all()
    assert monitor.summary().live_chips == 32
    assert (counts.unusable, counts.undecodable, counts.unaccounted(0)) == (16, 0, 0)
    (problem,) = [each for each in monitor.pipeline().problems if each.name == "values-unusable"]
    assert "16 values not usable; feed: " in problem.text
    assert "; feed: nc_util_pct must be " in problem.text
    assert problem.severity is Severity.WARNING
    assert f"not {value!r}" in problem.text
    assert problem.where == "publisher feed"


async def test_misspelt_metrics_are_named_once_a_publisher_with_the_nearest() -> None:
    """Misspelt metrics are named once with the nearest name; known columns count."""
    feed = fed()
    for _ in range(3):
        await send(
            feed,
            {"temperature_c": None, "temp_c": 60.0, "power_w": None, "power": 300.0, "rack": "B"},
        )

    monitor = feed.monitor
    assert np.isnan(monitor.store.values(BY_NAME["temperature_c"], slice(0, 16))).all()
    assert not np.isnan(monitor.store.values(BY_NAME["tflops"], slice(0, 16))).any()
    assert monitor.counts.unknown_keys == 3 * 16 * 2
    assert {(each.key, each.times) for each in monitor.pipeline().doubts} == {
        ("temp_c", 48),
        ("power", 48),
    }
    (problem,) = [each for each in monitor.pipeline().problems if each.name == "unknown-metrics"]
    assert "96 values of unknown metrics" in problem.text
    assert "feed: power: did you mean power_w?, temp_c: did you mean temperature_c?" in problem.text


def test_unknown_columns_of_a_descriptor_are_named_too() -> None:
    """Misspelt columns of a descriptor are reported on arrival, not with each frame."""
    feed = fed(as_json=False)
    columns = tuple(
        column if column.name != "temperature_c" else msgspec.structs.replace(column, name="temp_c")
        for column in feed.columns_described
    )
    feed.columns_described = columns
    feed.revision = 1
    feed.describe()
    (doubt,) = feed.monitor.pipeline().doubts
    assert (doubt.publisher, doubt.text) == ("feed", "temp_c: did you mean temperature_c?")
    assert doubt.times == 2


@pytest.mark.parametrize("many", [False, True])
def test_a_frames_code_above_the_limit_is_not_available(many: bool) -> None:
    """A code of 127 % is not available, alone and in bulk.

    The code for "not available" stays unchanged.
    """
    feed = ready(standalone(40 if many else 2))
    for _ in range(3):
        feed.tick()
    chips = feed.columns["nc_util_pct"]
    chips[16:32, 3] = 254
    chips[0:16, 4] = 255
    feed.tick()

    util = feed.monitor.store.values(BY_NAME["nc_util_pct"], slice(0, 32))
    assert np.isnan(util[16:, 3]).all()
    assert np.isnan(util[:16, 4]).all()
    assert not np.isnan(util[:, 5]).any()
    assert feed.monitor.counts.unusable == 1
    (doubt,) = feed.monitor.pipeline().doubts
    assert doubt.text == "nc_util_pct must be from 0 to 101, not 127.0"
    assert feed.monitor.counts.lost == feed.monitor.counts.undecodable == 0


async def test_refused_is_not_silent() -> None:
    """Publisher, finding and alert report a host's refused messages instead of silence.

    The other host stays live.
    """
    feed = fed()
    feed.monitor.ingest.alerts = Alerts("demo", load_rules())
    await send(feed, {})
    for _ in range(15):
        await send(feed, {"boot": 5}, chips=None)

    monitor = feed.monitor
    assert monitor.summary().live_chips == 16
    assert [(each.path, each.what) for each in monitor.findings.shown] == [
        (HOST, "messages refused")
    ]
    (alert,) = [each for each in monitor.alerts.active() if each.name == "instance-silent"]
    assert title(alert) == "sending refused messages"
    assert ": all 16 chips sending refused messages for " in summary(alert)
    for _ in range(5):
        await send(feed, {"instance": "trn2-0009"}, chips=None)
    assert [each.what for each in monitor.findings.shown] == ["messages refused"]


async def test_a_publisher_that_is_only_refused_is_called_so() -> None:
    """From its first message on, and silent once it stops."""
    feed = described_feed(standalone(1), json=True)
    for _ in range(5):
        feed.monitor.apply([each._replace(payload=b"{}") for each in feed.telemetry()])
        await feed.advance(1.0)
    pipeline = feed.monitor.pipeline()
    assert State(pipeline.publishers.state[0]) is State.REFUSED
    (problem,) = [each for each in pipeline.problems if each.name == "publisher-refused"]
    assert "1 of 1 publisher is refused: feed; the last: " in problem.text
    assert "Telemetry v: is missing" in problem.text
    for _ in range(5):
        await feed.advance(1.0)
    assert State(feed.monitor.pipeline().publishers.state[0]) is not State.REFUSED


def test_keys_that_are_kept_are_bounded() -> None:
    """Ever new names of a publisher need bounded memory, and recent ones remain."""
    doubts = TelemetryDoubts()
    counts = Feed(standalone(1)).monitor.counts
    (long,) = decode_sample(
        dump(encode_instance(HEAD, HOST, None, Feed(standalone(1)).columns, 0) | {"k" * 5_000: 1})
    ).doubts
    assert len(long.key) == 60
    for number in range(3 * MOST_KEYS):
        doubts.note("p", "c", Doubt(f"key_{number}", "", is_chip=True), 0.0, counts)
        doubts.note("p", "c", Doubt("power_w", "must be a number", is_chip=True), 0.0, counts)
    kept = doubts.newest_first()
    assert len(kept) == MOST_KEYS
    assert (kept[0].key, kept[0].times) == ("power_w", 3 * MOST_KEYS)
    assert (counts.unknown_keys, counts.unusable) == (3 * MOST_KEYS, 3 * MOST_KEYS)
