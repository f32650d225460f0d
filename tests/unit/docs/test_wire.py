"""Required and optional fields of docs/wire.md: each is left out here."""

from __future__ import annotations

import dataclasses
import json
import re
import runpy
from typing import Any

import msgspec
import pytest
from support.documents import DOCS, fields, read
from support.monitor.feed import START_NS, SilentSource

from trnfleet.clock import ManualClock, format_rfc3339
from trnfleet.domain.metrics import BY_NAME
from trnfleet.monitor.ingest.messages import MESSAGE_HANDLERS, RetainedHandler
from trnfleet.monitor.monitor import Monitor
from trnfleet.services.relay.forwarding import Leases
from trnfleet.sim.publish.commands import ARGUMENTS
from trnfleet.wire.alerts import AckMessage, AlertMessage, Handling, SilenceMessage
from trnfleet.wire.frames import FrameDecoder
from trnfleet.wire.limits import DEFAULT_LIMITS
from trnfleet.wire.messages import (
    COLUMN_SETS,
    ClaimMessage,
    ClaimSpec,
    ClockSpec,
    ColumnSpec,
    CommandMessage,
    Descriptor,
    EventMessage,
    HostMessage,
    InstanceSpec,
    JobMessage,
    ReceiverErrorSpec,
    ReplyMessage,
    WatchMessage,
    decode_message,
)
from trnfleet.wire.ports import Envelope
from trnfleet.wire.reservations import ExtensionSpec, ReservationMessage
from trnfleet.wire.telemetry import decode_sample
from trnfleet.wire.topics import TopicClass, build_topic

PATH = "uc1/standalone/trn2-0001"
BOOT = "4f1c7a90d2b3e865"
FRAME = runpy.run_path(str(DOCS / "examples" / "frame.py"))
MESSAGES: dict[str, type[msgspec.Struct]] = {
    "descriptor": Descriptor,
    "clock": ClockSpec,
    "instance": InstanceSpec,
    "column": ColumnSpec,
    "publisher": WatchMessage,
    "host's presence": HostMessage,
    "receiver error": ReceiverErrorSpec,
    "job": JobMessage,
    "claims": ClaimMessage,
    "claim": ClaimSpec,
    "event": EventMessage,
    "reservation": ReservationMessage,
    "extension": ExtensionSpec,
    "alert": AlertMessage,
    "handling": Handling,
    "ack": AckMessage,
    "silence": SilenceMessage,
    "command": CommandMessage,
    "reply": ReplyMessage,
}


def descriptor(columns: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """Return a descriptor with every field listed on the page."""
    return {
        "v": 1,
        "path": PATH,
        "publisher": "lab-agent-1",
        "boot": BOOT,
        "revision": 0,
        "period_s": 1.0,
        "replay": False,
        "origin": "neuron",
        "clock": {"epoch": "2026-01-05T00:00:00Z", "speed": 1.0},
        "instances": [
            {
                "path": PATH,
                "type": "trn2.48xlarge",
                "ec2_id": "i-0",
                "display_name": "ip-10-0-1-7.ec2.internal",
                "lnc": 2,
                "versions": {"driver": "2.19"},
            }
        ],
        "columns": FRAME["COLUMNS"] if columns is None else columns,
        "lanes": {},
        "forwarded": None,
    }


def sample(chip: int | None, seq: int = 0, **values: Any) -> dict[str, Any]:
    """Return telemetry with every field listed on the page, and metrics."""
    identity = {
        "v": 1,
        "ts": format_rfc3339(START_NS),
        "boot": BOOT,
        "seq": seq,
        "cluster": "uc1",
        "ultraserver": "standalone",
        "instance": "trn2-0001",
        "job": None,
    }
    return (
        identity
        | ({} if chip is None else {"chip": chip})
        | (values or {"power_w": 300.0} if chip is not None else values)
    )


def frame(seq: int = 0) -> bytes:
    """Return the page's frame."""
    values = {
        "nc_util_pct": [87.5] * 127 + [None],
        "power_w": [312.4] * 16,
        "host_power_w": [1900.0],
    }
    payload: bytes = FRAME["frame"](PATH, BOOT, seq, START_NS, values)
    return payload


class Reader:
    """A monitor of the fleet `lab`, for messages as from a publisher in another language."""

    def __init__(self) -> None:
        self.monitor = Monitor(
            SilentSource(), "lab", clock=ManualClock(wall_ns=START_NS, monotonic_s=1_000.0)
        )

    def take(
        self,
        topic_class: TopicClass,
        path: str,
        payload: bytes | dict[str, Any],
        *,
        retain: bool = False,
    ) -> None:
        """Take one message."""
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        self.monitor.apply([Envelope(build_topic("lab", topic_class, path), data, retain=retain)])
        self.monitor.compute()

    def describe(self, message: dict[str, Any] | None = None) -> None:
        """Take a descriptor."""
        self.take(TopicClass.NODE, PATH, message or descriptor(), retain=True)

    def chips(self, **changes: Any) -> None:
        """Apply all 16 chips' telemetry with changed fields.

        None leaves one out.
        """
        for chip in range(16):
            message = {
                key: value for key, value in (sample(chip) | changes).items() if value != "left out"
            }
            self.take(TopicClass.TELEMETRY, f"{PATH}/chip{chip:02d}", message)

    @property
    def live(self) -> int:
        """Chips that are live."""
        return self.monitor.summary().live_chips

    @property
    def refused(self) -> dict[str, int]:
        """Nonzero counters of unused messages."""
        counts = self.monitor.counts
        names = (
            "undecodable",
            "misplaced",
            "rejected",
            "undescribed",
            "lost",
            "late",
            "duplicates",
        )
        return {name: getattr(counts, name) for name in names if getattr(counts, name)}


@pytest.mark.parametrize("title", MESSAGES)
def test_fields_are_those_of_the_messages(title: str) -> None:
    """Each table lists every field of its message, with the right required ones."""
    model = MESSAGES[title]
    needed = {field.name: field.required for field in msgspec.structs.fields(model)}
    if title == "descriptor":
        # One of the two is needed.
        needed["columns"] = True
    assert fields("wire.md", title) == needed


def test_every_retained_message_has_a_table() -> None:
    """Every model stored by a monitor is compared with the page."""
    kept = {each.model for each in MESSAGE_HANDLERS.values() if isinstance(each, RetainedHandler)}
    assert kept <= set(MESSAGES.values())


@pytest.mark.parametrize("name", fields("wire.md", "descriptor"))
def test_descriptor_fields(name: str) -> None:
    """A descriptor without a required field is undecodable.

    Without an optional one chips are live.
    """
    reader = Reader()
    message = descriptor()
    message.pop(name, None)
    reader.describe(message)
    reader.chips()
    if fields("wire.md", "descriptor")[name]:
        assert reader.live == 0
        assert reader.refused["undecodable"] == 1
    else:
        assert (reader.live, reader.refused) == (16, {})


@pytest.mark.parametrize(
    ("part", "name"),
    [(part, name) for part in ("clock", "instance", "column") for name in fields("wire.md", part)],
)
def test_fields_of_a_descriptors_parts(part: str, name: str) -> None:
    """The same holds of the objects within."""
    reader = Reader()
    column = {"period_s": 60.0, "statistic": "mean", **FRAME["COLUMNS"][0]}
    message = descriptor(columns=[column])
    del {
        "clock": message["clock"],
        "instance": message["instances"][0],
        "column": message["columns"][0],
    }[part][name]
    reader.describe(message)
    assert bool(reader.refused) is fields("wire.md", part)[name]


@pytest.mark.parametrize("name", fields("wire.md", "telemetry"))
def test_telemetry_fields(name: str) -> None:
    """A message without a required field is not used.

    Without an optional one chips are live.
    """
    reader = Reader()
    reader.describe()
    reader.chips(
        **(
            {"power_w": "left out", "nc_util_pct": [50.0] * 8}
            if name == "metrics"
            else {name: "left out"}
        )
    )
    needed = fields("wire.md", "telemetry") | {"chip": True}
    assert (
        (reader.live == 0 and sum(reader.refused.values()) == 16)
        if needed[name]
        else reader.live == 16
    )


@pytest.mark.parametrize("name", fields("wire.md", "frame"))
def test_frame_fields(name: str) -> None:
    """Every field of a frame is needed."""
    reader = Reader()
    reader.describe()
    reader.take(TopicClass.TELEMETRY, PATH, frame())
    assert (reader.live, reader.refused) == (16, {})
    cbor2 = pytest.importorskip("cbor2")
    message = cbor2.loads(frame(1))
    del message[name]
    reader.take(TopicClass.TELEMETRY, PATH, cbor2.dumps(message))
    assert fields("wire.md", "frame")[name]
    assert reader.refused == {"undecodable": 1}


def test_the_frame_of_the_page_is_read() -> None:
    """Values are raw integers times the scale.

    The type's largest integer is no value.
    """
    columns = msgspec.convert(FRAME["COLUMNS"], tuple[ColumnSpec, ...])
    decoded = FrameDecoder(columns, 16, 1).decode(frame())
    assert decoded.chip["nc_util_pct"].tolist()[15] == [175] * 7 + [255]
    assert decoded.chip["power_w"].tolist() == [3_124] * 16
    reader = Reader()
    reader.describe()
    reader.take(TopicClass.TELEMETRY, PATH, frame())
    store = reader.monitor.store
    assert store.values(BY_NAME["power_w"], slice(0, 16)).tolist() == pytest.approx([312.4] * 16)
    assert store.values(BY_NAME["host_power_w"], slice(0, 1)).tolist() == [1900.0]


def test_a_set_of_columns_goes_by_its_name() -> None:
    """The column set's name means all columns of the metric table but the extra ones."""
    message = descriptor() | {"column_set": "standard/1"}
    del message["columns"]
    reader = Reader()
    reader.describe(message)
    known = reader.monitor.ingest.descriptors.get(PATH)
    assert known is not None
    assert known.columns == COLUMN_SETS["standard/1"]


def test_json_needs_no_columns() -> None:
    """A descriptor's columns may be empty where telemetry is JSON."""
    reader = Reader()
    reader.describe(descriptor(columns=[]))
    reader.chips()
    assert (reader.live, reader.refused) == (16, {})


def test_values_are_rounded_to_the_metrics_step() -> None:
    """A value between two steps is rounded; one out of range is not available.

    The same if it is not whole.
    """
    reader = Reader()
    reader.describe()
    reader.chips(power_w=300.123)
    assert reader.monitor.store.values(BY_NAME["power_w"], slice(0, 1)).tolist() == [300.1]
    reader.take(TopicClass.TELEMETRY, f"{PATH}/chip00", sample(0, 1, power_w=-1.0))
    reader.take(TopicClass.TELEMETRY, f"{PATH}/chip00", sample(0, 2, power_w=7_000.0))
    reader.take(TopicClass.TELEMETRY, f"{PATH}/chip00", sample(0, 3, exec_completed=1.5))
    reader.take(TopicClass.TELEMETRY, f"{PATH}/chip00", sample(0, 4, nc_util_pct=[50.0] * 7))
    assert reader.refused == {}
    assert reader.monitor.counts.unusable == 4


def test_chips_without_a_value_are_not_updated() -> None:
    """A message without any metric makes no chip live, and is no mistake."""
    reader = Reader()
    reader.describe()
    reader.chips(power_w=None)
    assert (reader.live, reader.refused) == (0, {})


def test_mistakes_are_counted_as_the_page_says() -> None:
    """Each counter counts the mistakes in the page's table."""
    reader = Reader()
    reader.take(TopicClass.TELEMETRY, f"{PATH}/chip00", sample(0))
    assert reader.refused == {"undescribed": 1}
    reader.describe()
    chip = f"{PATH}/chip00"
    reader.take(TopicClass.TELEMETRY, chip, sample(1))
    reader.take(TopicClass.TELEMETRY, chip, sample(0), retain=True)
    reader.take(TopicClass.TELEMETRY, f"{PATH}/chip16", sample(16))
    reader.take(TopicClass.TELEMETRY, chip, sample(0, 0) | {"boot": "another"})
    reader.take(TopicClass.TELEMETRY, chip, b"\x00")
    assert reader.refused == {"undecodable": 1, "misplaced": 1, "rejected": 1, "undescribed": 3}
    for seq in (0, 5, 3, 5):
        reader.take(TopicClass.TELEMETRY, chip, sample(0, seq))
    assert reader.refused == {
        "undecodable": 1,
        "misplaced": 1,
        "rejected": 1,
        "undescribed": 3,
        "lost": 3,
        "late": 1,
        "duplicates": 1,
    }
    listed = {line.split("`")[1] for line in read("wire.md").splitlines() if line.startswith("| `")}
    assert reader.refused.keys() | {"dropped"} <= listed


def test_a_new_boot_is_no_loss() -> None:
    """After a descriptor with a new boot a topic counts from where it begins."""
    reader = Reader()
    reader.describe()
    reader.take(TopicClass.TELEMETRY, f"{PATH}/chip00", sample(0, 90))
    reader.describe(descriptor() | {"boot": "next"})
    reader.take(TopicClass.TELEMETRY, f"{PATH}/chip00", sample(0, 0) | {"boot": "next"})
    assert (reader.live, reader.refused) == (1, {})


def test_messages_of_the_page_are_valid() -> None:
    """Readers accept the page's JSON."""
    telemetry, backlog, claims, event, command = re.findall(
        r"```json\n(.*?)```", read("wire.md"), re.DOTALL
    )
    assert decode_sample(backlog.encode())[1:] == decode_sample(telemetry.encode())[1:]
    decoded = decode_sample(telemetry.encode())
    assert (decoded.path, decoded.head.seq) == (f"{PATH}/chip05", 41)
    assert decode_message(claims.encode(), ClaimMessage).claims[0].chips == (0, 1, 2, 3)
    assert decode_message(event.encode(), EventMessage).nrt == 1201
    assert decode_message(command.encode(), CommandMessage).action == "inject"


def test_limits_are_those_of_the_program() -> None:
    """The table of limits has each number."""
    section = read("wire.md").partition("\n## Limits\n")[2].partition("\n## ")[0]
    shown = {
        name: (
            f"{value // 1024} KiB"
            if name == "payload_bytes"
            else f"{value // 2**20} MiB"
            if name.endswith("_bytes")
            else f"{value:,}"
        )
        for name, value in dataclasses.asdict(DEFAULT_LIMITS).items()
    }
    assert [name for name, text in shown.items() if text not in section] == []


def test_actions_are_those_of_the_simulator() -> None:
    """The table of actions has every action with its arguments."""
    section = (
        read("wire.md").partition("| action | arguments |\n|---|---|\n")[2].partition("\n\n")[0]
    )
    listed = {
        name.strip("` "): set(re.findall(r"`([a-z_]+)`", arguments))
        for name, arguments in (row.strip("|").split("|") for row in section.splitlines())
    }
    assert listed == {
        name: set(arguments) for name, arguments in (ARGUMENTS | Leases.arguments).items()
    }


def test_every_class_of_topics_is_there() -> None:
    """The page's table of topics has every class."""
    page = read("wire.md")
    assert [each.value for each in TopicClass if f"| `.../{each.value}/" not in page] == []
