"""The JSON messages about publishers, hardware and jobs, and the commands to a simulator.

Readers ignore fields that they do not know, so that a later minor version can add some.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType
from pydantic_core import from_json

from trnfleet.domain.hardware.catalogue import INSTANCE_TYPES, present_name
from trnfleet.domain.hardware.topology import DIRECTIONS, MOST_LANES
from trnfleet.domain.metrics import (
    BY_NAME,
    METRICS,
    SIMULATED,
    Metric,
    Scope,
    WireType,
)
from trnfleet.domain.severity import Severity  # noqa: TC001  read at run time
from trnfleet.errors import WireError, nearest
from trnfleet.wire.limits import DEFAULT_LIMITS, Limits
from trnfleet.wire.ports import CONTENT_TYPE_JSON, Envelope
from trnfleet.wire.structs import Message, WireStruct, decode_struct
from trnfleet.wire.values import (
    LONGEST_TICK_S,
    Amount,
    Figure,
    Instant,
    Period,
    Revision,
    Scale,
    Speed,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

SCHEMA = 1

_MOST_CHARS = DEFAULT_LIMITS.text_chars
_SEGMENT = r"[A-Za-z0-9_-]{1,64}"
_TYPE = r"[a-z0-9.-]{1,64}"
# The end of a text is `\Z`: `$` allows a newline after it.
Text = Annotated[str, Meta(max_length=_MOST_CHARS)]
Name = Annotated[str, Meta(pattern=rf"^{_SEGMENT}\Z")]
Path = Annotated[str, Meta(pattern=rf"^{_SEGMENT}(/{_SEGMENT}){{0,4}}\Z")]
InstancePath = Annotated[str, Meta(pattern=rf"^{_SEGMENT}(/{_SEGMENT}){{2}}\Z")]
ColumnSetName = Annotated[str, Meta(pattern=r"^[a-z0-9-]{1,64}/[0-9]{1,4}\Z")]
Arn = Annotated[str, Meta(pattern=r"^arn:[!-~]{1,250}\Z")]
SourceName = Annotated[str, Meta(pattern=r"^[a-z0-9-]{1,16}\Z")]
Seq = Annotated[int, Meta(ge=0, le=2**63 - 1)]
DisplayName = Annotated[str, Meta(max_length=128)]
"""Name of a job or a host as people write it, in any script: the segment stays its identity."""
DetailText = Annotated[str, Meta(max_length=128)]
TypeName = Annotated[str, Meta(pattern=rf"^{_TYPE}\Z")]
LaneNames = Annotated[tuple[Name, ...], Meta(min_length=1, max_length=MOST_LANES)]


def named_lanes(types: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the `lanes` of a descriptor of instances of some types of the hardware catalogue."""
    names = {name: INSTANCE_TYPES[name].lane_names for name in types}
    return {name: lanes for name, lanes in names.items() if lanes != DIRECTIONS}


REPEAT_S = 60.0
"""Time within which a publisher repeats its descriptors. Not every broker sends retained messages
to every subscriber."""
MOST_CLAIMS = 64
"""Most claims of an instance: 16 chips have at most 64 logical cores at LNC=2."""
MOST_BEHIND = 64
"""Most relays listed as behind a relay."""
_FROM_CELL = "from_cell"


class _Forwarded(msgspec.Struct):
    from_cell: str = ""


class ColumnSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A column as a publisher writes it."""

    name: Name
    type: WireType
    scale: Scale
    width: Annotated[int, Meta(ge=1, le=256)]
    per: Scope = Scope.CHIP
    period_s: Annotated[float, Meta(gt=0, le=86_400)] | UnsetType = UNSET
    """Seconds that a value covers, where it is not the publisher's period."""
    statistic: Literal["mean", "min", "max"] | UnsetType = UNSET
    """Statistic over these seconds."""

    @property
    def cover_text(self) -> str:
        """Time that a value covers, such as `mean of 60 s`; empty for the publisher's period."""
        if self.period_s is UNSET:
            return ""
        return f"{self.statistic or 'value'} of {self.period_s:g} s"

    @staticmethod
    def of(metric: Metric) -> ColumnSpec:
        """Return the column of a row of the metric table."""
        return ColumnSpec(
            name=metric.name,
            type=metric.wire,
            scale=metric.scale,
            width=metric.width,
            per=metric.scope,
        )


class InstanceSpec(msgspec.Struct, frozen=True, kw_only=True):
    """An instance of a publisher."""

    path: InstancePath
    type: TypeName
    ec2_id: Text | None = None
    display_name: DisplayName | UnsetType | None = UNSET
    """Shown in place of the instance's segment. Left out of the message without one."""
    lnc: Annotated[int, Meta(ge=1, le=8)] | None = None
    versions: Annotated[dict[Name, Text], Meta(max_length=16)] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Read other names of a type as the catalogue's."""
        if self.type not in INSTANCE_TYPES:
            msgspec.structs.force_setattr(self, "type", present_name(self.type))


class ClockSpec(WireStruct, frozen=True, kw_only=True):
    """The publisher's clock: source time = epoch + speed x elapsed wall time."""

    epoch: Instant
    """RFC 3339 source time of the first tick."""
    speed: Speed = 1.0


class ForwardedBy(msgspec.Struct, frozen=True, kw_only=True):
    """The relay forwarding a host's telemetry from its cell, while a lease lasts."""

    cell: Name
    relay: Name
    """Client id of the relay."""
    boot: Name
    """The relay's boot, as in its roll-ups; messages left by a former one are void."""


_NOT_GIVEN = (ColumnSpec(name="not-given", type="u8", scale=1.0, width=1),)
"""Placeholder for missing columns of a message."""


class Descriptor(Message, frozen=True, kw_only=True):
    """The descriptor of a path: publisher, instances (in row order of its frames) and columns.

    A descriptor of an instance covers the chips' own topics below it, too.
    """

    path: Path
    publisher: Name
    """Client id of the publisher; its last will takes all described instances offline."""
    boot: Name
    revision: Revision = 0
    period_s: Period
    clock: ClockSpec
    replay: bool = False
    origin: Literal["simulated", "neuron"] = "simulated"
    """Origin of the values; determines the provenance shown."""
    instances: Annotated[
        tuple[InstanceSpec, ...], Meta(min_length=1, max_length=DEFAULT_LIMITS.instances)
    ]
    columns: Annotated[tuple[ColumnSpec, ...], Meta(max_length=DEFAULT_LIMITS.columns)] = _NOT_GIVEN
    """Those of the set where the message names one; it has either of the two."""
    column_set: ColumnSetName | None = None
    """Name and version of a set of `COLUMN_SETS`, in a message. None once `columns` are expanded.
    Columns that begin with a set are written as its name, and `extra_columns`."""
    extra_columns: Annotated[tuple[ColumnSpec, ...], Meta(max_length=DEFAULT_LIMITS.columns)] = ()
    """Columns beside a named set, in a message. Readers that do not know them leave them out."""
    lanes: Annotated[dict[TypeName, LaneNames], Meta(max_length=DEFAULT_LIMITS.lane_types)] = (
        msgspec.field(default_factory=dict)
    )
    """Names of a chip's link lanes by instance type, in the per-link columns' order. Types with the
    lanes of schema version 1 (north, south, west, east, z_prev, z_next) are not listed. Left out of
    the message if empty."""
    forwarded: ForwardedBy | None = None
    """The relay that forwarded it to a top broker. Left out of the message without one."""

    def __post_init__(self) -> None:
        """Look up the set of columns, and check the limits across fields."""
        if self.column_set is not None:
            if self.columns is not _NOT_GIVEN:
                raise ValueError("both columns and column_set")
            columns = COLUMN_SETS.get(self.column_set)
            if columns is None:
                raise ValueError(
                    f"unknown column_set {self.column_set!r}:"
                    f" {nearest(self.column_set, COLUMN_SETS)}"
                )
            if self.extra_columns:
                columns += self.extra_columns
                if columns == STANDARD_COLUMNS:
                    columns = STANDARD_COLUMNS
            msgspec.structs.force_setattr(self, "columns", columns)
            msgspec.structs.force_setattr(self, "column_set", None)
            msgspec.structs.force_setattr(self, "extra_columns", ())
        elif self.columns is _NOT_GIVEN:
            raise ValueError("neither columns nor column_set")
        elif self.extra_columns:
            raise ValueError("extra_columns without column_set")
        if self.lanes:
            if any(len(set(names)) < len(names) for names in self.lanes.values()):
                raise ValueError("lanes: two link lanes of the same name")
            lanes = {present_name(name): names for name, names in self.lanes.items()}
            msgspec.structs.force_setattr(self, "lanes", lanes)
        tick_s = self.period_s * self.clock.speed
        if tick_s > LONGEST_TICK_S:
            raise ValueError(
                f"period_s x clock.speed is {tick_s:g} s of source time a tick, over the limit of"
                f" {LONGEST_TICK_S:g} s"
            )

    def as_written(self) -> dict[str, Any]:
        """Return the fields as written.

        Usual lanes are left out, and a set's name replaces its columns.
        """
        data = msgspec.structs.asdict(self)
        if not self.lanes:
            del data["lanes"]
        if self.forwarded is None:
            del data["forwarded"]
        named = next(
            (
                name
                for name, columns in COLUMN_SETS.items()
                if columns == self.columns[: len(columns)]
            ),
            None,
        )
        if named is None:
            del data["column_set"]
        else:
            del data["columns"]
            data["column_set"] = named
            data["extra_columns"] = self.columns[len(COLUMN_SETS[named]) :]
        if not data["extra_columns"]:
            del data["extra_columns"]
        return data


class JobMessage(Message, frozen=True, kw_only=True):
    """A job: its kind, state, figures and place."""

    job: Name
    display_name: DisplayName | None = None
    """Shown in place of `job`. Left out of the message without one."""
    kind: Annotated[str, Meta(pattern=r"^[a-z0-9_-]{1,32}\Z")]
    state: Annotated[str, Meta(pattern=r"^[a-z0-9_-]{1,32}\Z")]
    ts: Instant
    on: Annotated[tuple[Annotated[str, Meta(max_length=400)], ...], Meta(max_length=4_096)]
    """Subtree paths, and ranges of siblings such as `uc1/us-0001..us-0008` (both ends included)."""
    steps_per_s: Amount | None = None
    tokens_per_s: Amount | None = None
    ttft_s: Amount | None = None
    tpot_s: Amount | None = None
    step_time_s: Amount | None = None
    ideal_step_s: Amount | None = None
    mfu: Amount | None = None
    steps_completed: Amount | None = None
    steps_lost: Amount | None = None
    restarts: Amount | None = None
    goodput: Amount | None = None
    availability: Amount | None = None
    kv_cache_share: Amount | None = None
    batch: Amount | None = None
    model: Text | None = None
    """Name of the trained or served model."""
    dtype: Annotated[str, Meta(pattern=r"^[a-z0-9_-]{1,32}\Z")] | None = None
    """Type of the products' operands, `bf16` or `fp8`; `mfu` refers to its peak."""
    flops_per_token: Amount | None = None
    """Model FLOPs per token. Times `tokens_per_s` they are `mfu` x the peak of the job's chips."""
    loss: Figure | None = None
    """Training loss of the last step. Left out of the message without one."""
    lnc: Annotated[int, Meta(ge=1, le=8)] | None = None
    """LNC of its chips, if it is not their host's. Left out of the message without one."""
    submitted: Instant | None = None
    """Source time at which it was submitted."""
    ttft_limit_s: Amount | None = None
    """Longest `ttft_s` within the job's objective. Left out of the message without one."""
    tpot_limit_s: Amount | None = None
    """The same of `tpot_s`."""

    def __post_init__(self) -> None:
        """Read the goodput of serving, as it was called before, as availability."""
        super().__post_init__()
        if self.kind == "inference" and self.goodput is not None and self.availability is None:
            msgspec.structs.force_setattr(self, "availability", self.goodput)
            msgspec.structs.force_setattr(self, "goodput", None)

    def as_written(self) -> dict[str, Any]:
        """Return the fields as written; some are left out if absent."""
        data = msgspec.structs.asdict(self)
        for name in ("display_name", "loss", "lnc", "ttft_limit_s", "tpot_limit_s"):
            if data[name] in {None, ""}:
                del data[name]
        return data


class ClaimSpec(WireStruct, frozen=True, kw_only=True):
    """A job's claim to chips of an instance."""

    job: Name
    display_name: Text | None = None
    """The job's name at its source, if it is no segment."""
    chips: Annotated[
        tuple[Annotated[int, Meta(ge=0, le=15)], ...], Meta(min_length=1, max_length=16)
    ]
    since: Instant | None = None
    """Source time from which the job has them."""
    source: Annotated[str, Meta(pattern=r"^[a-z0-9-]{1,32}\Z")]
    """Where the claim is from, such as `process-tag`."""


class ClaimMessage(Message, frozen=True, kw_only=True):
    """The jobs on one instance, as its host sees them."""

    path: InstancePath
    boot: Name
    """The boot of the instance's descriptor."""
    ts: Instant
    claims: Annotated[tuple[ClaimSpec, ...], Meta(max_length=MOST_CLAIMS)]


class PublisherMessage(Message, frozen=True, kw_only=True):
    """The presence of a publisher; `offline` is its last will, or its goodbye."""

    client: Name
    state: Literal["online", "offline"]
    boot: Name
    role: Literal["telemetry", "watch", "relay"] = "telemetry"
    """Kind of publisher. Of several watches of a fleet, or relays of a cell, the one that began
    first leads."""
    since: Instant | None = None
    """RFC 3339, wall time: when it began, for a watch and a relay."""


class HostMessage(PublisherMessage, frozen=True, kw_only=True):
    """The presence of a real host."""

    path: InstancePath | None = None
    """The instance that it describes. Left out of the message before its descriptor."""
    versions: Annotated[dict[Name, Text], Meta(max_length=16)] = msgspec.field(default_factory=dict)
    """Versions of its programs, by name. Left out of the message without any."""
    problems: Annotated[tuple[Text, ...], Meta(max_length=16)] = ()
    """Its sources that do not work, with the reason. Left out of the message without any."""
    source: SourceName | None = None
    """Kind of program that reads the host. Left out of the message without any."""
    backlog: tuple[Seq, Seq] | None = None
    """First and last `seq` of its boot's telemetry that comes as backlog after the last outage.
    Left out of the message without any."""

    def as_written(self) -> dict[str, Any]:
        """Return the fields as written: without empty ones."""
        data = msgspec.structs.asdict(self)
        for name in ("path", "versions", "problems", "source", "backlog"):
            if not data[name]:
                del data[name]
        return data


class ReceiverErrorSpec(WireStruct, frozen=True, kw_only=True):
    """An object refused by a watch's receiver: a silence, an acknowledgement, an alert, or all."""

    receiver: Annotated[str, Meta(max_length=64)]
    kind: Annotated[str, Meta(max_length=32)]
    id: Annotated[str, Meta(max_length=64)] = ""
    """Id of the silence, or fingerprint of the alert; empty where it is about all."""
    reason: Text = ""


class WatchMessage(PublisherMessage, frozen=True, kw_only=True):
    """The presence of a watch or a relay; repeated as its heartbeat."""

    ts: Text | None = None
    """RFC 3339, wall time of the heartbeat: a retained message has no own time."""
    leads: bool | None = None
    """Whether it leads: publishes alerts and notifies receivers, or a cell's roll-ups."""
    firing: Annotated[int, Meta(ge=0, le=1_000_000_000)] | None = None
    """Alerts firing by its own evaluation, neither silenced nor inhibited. Shows readers a leader
    without published alerts."""
    errors: Annotated[int, Meta(ge=0, le=1_000_000_000)] | None = None
    """Alerts, silences and acknowledgements currently refused by receivers of the leader."""
    receiver_errors: Annotated[tuple[ReceiverErrorSpec, ...], Meta(max_length=16)] = ()
    """The first of them."""
    cell: Name | None = None
    """The cell of a relay, or of a watch forwarded by a relay."""
    hears: bool | None = None
    """Of a relay: whether it hears its cell; null while it listens for others."""
    behind: Annotated[tuple[Name, ...], Meta(max_length=MOST_BEHIND)] = ()
    """Of a relay: the relays writing on its cell's broker, and the ones behind them."""


class EventMessage(Message, frozen=True, kw_only=True):
    """An event of hardware, a runtime, a job, EC2 or an operator. Not retained."""

    id: Name
    """Unique in the fleet: the publisher's boot and a number."""
    ts: Instant
    """RFC 3339, source time."""
    path: Annotated[str, Meta(pattern=r"^([A-Za-z0-9_-]{1,64}(/[A-Za-z0-9_-]{1,64}){0,4})?\Z")]
    """Address of its subject; empty for the fleet. Fleet events are published on the path `fleet`.
    """
    source: Name
    name: Name
    severity: Severity
    text: Text
    job: Name | None = None
    nrt: Annotated[int, Meta(ge=0, le=65_535)] | None = None
    """NRT_STATUS of the execution that ended with it."""
    detail_type: Text | None = None
    """Detail type of the EventBridge event, such as `Capacity Block Expiration Warning`. None
    without one."""
    reservation: Name | None = None
    """The Capacity Block or Capacity Reservation concerned."""
    resources: Annotated[tuple[Arn, ...], Meta(max_length=4)] = ()
    """With a detail type: the ARNs that EventBridge's event names. Left out of the message where it
    is empty."""
    detail: Annotated[dict[Name, DetailText], Meta(max_length=8)] = msgspec.field(
        default_factory=dict
    )
    """With a detail type: the detail of EventBridge's event. Left out of the message where it is
    empty."""

    def as_written(self) -> dict[str, Any]:
        """Return the fields as written: without empty ones of EventBridge's."""
        data = msgspec.structs.asdict(self)
        for name in ("resources", "detail"):
            if not data[name]:
                del data[name]
        return data


class CommandMessage(Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request to a simulator or a relay.

    Unknown fields are refused, because they might change its meaning.
    """

    id: Name
    """Unique: a repeated command is carried out once."""
    client: Name
    """Client id of the requester; the answer goes to `reply/{client}/{id}`."""
    action: Name
    target: Text = ""
    args: Annotated[dict[Name, Text | Amount | bool | None], Meta(max_length=16)] = msgspec.field(
        default_factory=dict
    )
    expires: Text
    """RFC 3339, wall time: from then on it is not carried out."""
    by: Text = ""
    """Name of the operator, for the log."""


class ReplyMessage(Message, frozen=True, kw_only=True):
    """The answer to a command."""

    id: Name
    ok: bool
    reason: Annotated[str, Meta(max_length=2_000)] = ""
    """The result, or the reason of a refusal, in one line."""
    result: dict[str, Any] = msgspec.field(default_factory=dict)


MessageT = TypeVar("MessageT", bound=msgspec.Struct)

_RELEASED = {
    "standard/1": """
        nc_util_pct engine_util_pct tflops hbm_used_bytes hbm_read_bytes_per_s hbm_write_bytes_per_s
        link_tx_bytes_per_s link_rx_bytes_per_s links_up power_w power_util_pct temperature_c
        throttle_pct mem_ecc_corrected mem_ecc_uncorrected sram_ecc_corrected sram_ecc_uncorrected
        exec_completed exec_errors health host_power_w vcpu_util_pct host_memory_used_bytes
        efa_tx_bytes_per_s efa_rx_bytes_per_s exec_latency_p50_s exec_latency_p99_s
    """,
}
"""Columns of each released set. A set never changes: a new metric is an extra column beside it."""
COLUMN_SETS = {
    name: tuple(ColumnSpec.of(BY_NAME[column]) for column in columns.split())
    for name, columns in _RELEASED.items()
}
"""Sets of columns that descriptors name, by name and version."""
_STANDARD = COLUMN_SETS["standard/1"]
STANDARD_COLUMNS = _STANDARD + tuple(
    column for column in map(ColumnSpec.of, SIMULATED) if column not in _STANDARD
)
"""Columns of our simulators."""
OWN_COLUMNS = frozenset(map(ColumnSpec.of, METRICS))
"""Every column of the metric table; others are converted."""


def encode_message(message: WireStruct) -> bytes:
    """Return a message as compact JSON."""
    return msgspec.json.encode(message.as_written())


def with_cell(payload: bytes, cell: str) -> bytes:
    """Return a JSON object with the cell of the forwarding relay; else the payload."""
    body = payload.rstrip()
    if not (body.startswith(b"{") and body.endswith(b"}")):
        return payload
    comma = "" if body[1:-1].isspace() or len(body) == 2 else ","
    return body[:-1] + f'{comma}"{_FROM_CELL}":"{cell}"}}'.encode()


def cell_of(payload: bytes) -> str:
    """Return the cell a relay forwarded a message from; empty if not forwarded."""
    if f'"{_FROM_CELL}"'.encode() not in payload:
        return ""
    try:
        return msgspec.json.decode(payload, type=_Forwarded).from_cell
    except (ValueError, RecursionError):
        return ""


def message_envelope(topic: str, message: Message, *, retain: bool) -> Envelope:
    """Return a message for publishing: JSON at QoS 1, retained if it is state."""
    return Envelope(
        topic, encode_message(message), qos=1, retain=retain, content_type=CONTENT_TYPE_JSON
    )


def decode_message(
    payload: bytes, model: type[MessageT], limits: Limits = DEFAULT_LIMITS
) -> MessageT:
    """Parse and validate a message.

    Raises:
        WireError: it is too large, not JSON, or does not fit the model.
    """
    if len(payload) > limits.payload_bytes:
        raise WireError(
            f"{model.__name__} of {len(payload)} bytes is over the limit of {limits.payload_bytes}"
        )
    return decode_struct(payload, model)


def parse_json_object(payload: bytes, limits: Limits = DEFAULT_LIMITS) -> dict[str, Any]:
    """Parse a JSON object without NaN or infinity.

    Raises:
        WireError: it is too large, not JSON, or not an object.
    """
    if len(payload) > limits.payload_bytes:
        raise WireError(f"JSON of {len(payload)} bytes is over the limit of {limits.payload_bytes}")
    try:
        parsed = from_json(payload, allow_inf_nan=False, cache_strings="keys")
    except (ValueError, RecursionError) as error:
        raise WireError(f"not JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise WireError("JSON is not an object")
    return parsed
