"""The JSON messages about publishers, hardware and jobs, and the commands to a simulator.

Readers ignore fields that they do not know, so that a later minor version can add some.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    StringConstraints,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError, from_json, to_json

from trnfleet.domain.hardware.catalogue import INSTANCE_TYPES
from trnfleet.domain.hardware.topology import DIRECTIONS, MOST_LANES
from trnfleet.domain.metrics import CHIP_METRICS, INSTANCE_METRICS, Metric, Scope
from trnfleet.domain.severity import Severity  # noqa: TC001  pydantic reads the types
from trnfleet.errors import WireError
from trnfleet.wire.limits import DEFAULT_LIMITS, Limits
from trnfleet.wire.ports import CONTENT_TYPE_JSON, Envelope
from trnfleet.wire.values import (
    LONGEST_TICK_S,
    Amount,
    Instant,
    Period,
    Revision,
    Scale,
    Speed,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

SCHEMA = 1
_VALUE_CHARS = 60
"""Characters of a refused value that an error shows."""

Text = Annotated[str, StringConstraints(max_length=DEFAULT_LIMITS.text_chars)]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Path = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}(/[A-Za-z0-9_-]{1,64}){0,4}$")
]
InstancePath = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}(/[A-Za-z0-9_-]{1,64}){2}$")
]


Arn = Annotated[str, StringConstraints(pattern=r"^arn:[!-~]{1,250}$")]
DetailText = Annotated[str, StringConstraints(max_length=128)]
TypeName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9.-]{1,64}$")]


def _check_lanes(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) < len(names):
        raise PydanticCustomError("lanes", "two link lanes of the same name")
    return names


LaneNames = Annotated[
    tuple[Name, ...], Field(min_length=1, max_length=MOST_LANES), AfterValidator(_check_lanes)
]


def named_lanes(types: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the `lanes` of a descriptor of instances of some types of the hardware catalogue."""
    names = {name: INSTANCE_TYPES[name].lane_names for name in types}
    return {name: lanes for name, lanes in names.items() if lanes != DIRECTIONS}


class Message(BaseModel):
    """Base of every message: strict types, finite numbers, unknown fields ignored."""

    # pydantic-core keeps up to 16,384 texts that it has read, by default values among them: with one instant a second it is full
    # of these, 80 bytes each, after hours.
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, cache_strings="keys")

    v: Literal[1] = 1


class ColumnSpec(BaseModel):
    """A column as a publisher writes it."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    name: Name
    type: Literal["u8", "u16", "u32", "u64"]
    scale: Scale
    width: Annotated[int, Field(ge=1, le=256)]
    per: Scope = Scope.CHIP

    @staticmethod
    def of(metric: Metric) -> ColumnSpec:
        """Return the column of a row of the metric table."""
        return ColumnSpec.model_construct(
            name=metric.name,
            type=metric.wire,
            scale=metric.scale,
            width=metric.width,
            per=metric.scope,
        )


class InstanceSpec(BaseModel):
    """An instance of a publisher."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    path: InstancePath
    type: TypeName
    ec2_id: Text | None = None
    lnc: Annotated[int, Field(ge=1, le=8)] | None = None
    versions: dict[Name, Text] = Field(default_factory=dict, max_length=16)


class ClockSpec(BaseModel):
    """The publisher's clock: source time = epoch + speed x elapsed wall time."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    epoch: Instant
    """RFC 3339 source time of the first tick."""
    speed: Speed = 1.0


class ForwardedBy(BaseModel):
    """The relay that forwards a host's telemetry from its cell, for as long as somebody holds a lease of it."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    cell: Name
    relay: Name
    """Client id of the relay."""
    boot: Name
    """The relay's boot, as its roll-ups have it; what a former one has left is void."""


class Descriptor(Message):
    """The descriptor of a path: its publisher, instances (in the order of its frames' rows) and columns.

    A descriptor of an instance covers the chips' own topics below it, too.
    """

    path: Path
    publisher: Name
    """Client id of the publisher; its last will takes all that it describes offline."""
    boot: Name
    revision: Revision = 0
    period_s: Period
    clock: ClockSpec
    replay: bool = False
    origin: Literal["simulated", "neuron"] = "simulated"
    """Origin of the values, which decides the provenance that is shown."""
    instances: Annotated[
        tuple[InstanceSpec, ...], Field(min_length=1, max_length=DEFAULT_LIMITS.instances)
    ]
    columns: Annotated[tuple[ColumnSpec, ...], Field(max_length=DEFAULT_LIMITS.columns)] = ()
    """Those of the set where the message names one; it has either of the two."""
    column_set: (
        Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,64}/[0-9]{1,4}$")] | None
    ) = None
    """Name and version of a set of `COLUMN_SETS`, in a message; None once `columns` are those of the set. Columns that are a set's are
    written as its name."""
    lanes: Annotated[dict[TypeName, LaneNames], Field(max_length=DEFAULT_LIMITS.lane_types)] = (
        Field(default_factory=dict)
    )
    """Names of a chip's link lanes by instance type, in the order of the per-link columns. Types whose lanes are those of
    schema version 1 (north, south, west, east, z_prev, z_next) are not listed. Left out of the message where it is empty."""
    forwarded: ForwardedBy | None = None
    """The relay by which it has come to a top broker. Left out of the message where there is none."""

    @model_serializer(mode="wrap")
    def _in_short(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Return the fields without lanes where they are the usual ones, and with a set's name in place of its columns."""
        named = next(
            (name for name, columns in COLUMN_SETS.items() if columns == self.columns), None
        )
        data: dict[str, Any] = serialise(
            self if named is None else self.model_copy(update={"columns": ()})
        )
        if not self.lanes:
            del data["lanes"]
        if self.forwarded is None:
            del data["forwarded"]
        if named is None:
            del data["column_set"]
        else:
            del data["columns"]
            data["column_set"] = named
        return data

    @model_validator(mode="after")
    def _name_columns(self) -> Self:
        if self.column_set is None:
            if "columns" not in self.model_fields_set:
                raise PydanticCustomError("columns", "neither columns nor column_set")
            return self
        if "columns" in self.model_fields_set:
            raise PydanticCustomError("columns", "both columns and column_set")
        columns = COLUMN_SETS.get(self.column_set)
        if columns is None:
            raise PydanticCustomError(
                "column_set", "unknown column_set {name}; known: {known}",
                {"name": self.column_set, "known": ", ".join(COLUMN_SETS)},
            )  # fmt: skip  # one call
        self.__dict__.update(columns=columns, column_set=None)
        return self

    @model_validator(mode="after")
    def _check_tick(self) -> Self:
        if self.period_s * self.clock.speed > LONGEST_TICK_S:
            raise PydanticCustomError(
                "tick",
                "period_s x clock.speed is {tick_s} s of source time a tick, over the limit of {most_s} s",
                {
                    "tick_s": f"{self.period_s * self.clock.speed:g}",
                    "most_s": f"{LONGEST_TICK_S:g}",
                },
            )
        return self


class JobMessage(Message):
    """A job: its kind, state, figures and place."""

    job: Name
    kind: Annotated[str, StringConstraints(pattern=r"^[a-z0-9_-]{1,32}$")]
    state: Annotated[str, StringConstraints(pattern=r"^[a-z0-9_-]{1,32}$")]
    ts: Instant
    on: Annotated[
        tuple[Annotated[str, StringConstraints(max_length=400)], ...], Field(max_length=4_096)
    ]
    """Subtree paths, and ranges of siblings such as `uc1/us-0001..us-0008` (both ends included)."""
    steps_per_s: Amount | None = None
    tokens_per_s: Amount | None = None
    ttft_s: Amount | None = None
    tpot_s: Amount | None = None
    step_time_s: Amount | None = None
    mfu: Amount | None = None
    steps_completed: Amount | None = None
    steps_lost: Amount | None = None
    restarts: Amount | None = None
    goodput: Amount | None = None
    kv_cache_share: Amount | None = None
    batch: Amount | None = None
    model: Text | None = None
    """Name of the model that it trains or serves."""
    dtype: Annotated[str, StringConstraints(pattern=r"^[a-z0-9_-]{1,32}$")] | None = None
    """Type of the products' operands, whose peak `mfu` is of: `bf16` or `fp8`."""
    flops_per_token: Amount | None = None
    """Model FLOPs of a token: times `tokens_per_s` they are `mfu` x the peak of the job's chips."""


class PublisherMessage(Message):
    """The presence of a publisher; `offline` is its last will, or its goodbye."""

    client: Name
    state: Literal["online", "offline"]
    boot: Name
    role: Literal["telemetry", "watch", "relay"] = "telemetry"
    """Kind of publisher; of several watches of a fleet, or relays of a cell, the one that began first leads."""
    since: Instant | None = None
    """RFC 3339, wall time: when it began, for a watch and a relay."""


class ReceiverErrorSpec(BaseModel):
    """Something that a receiver of a watch does not take: a silence, an acknowledgement, an alert, or all of them."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    receiver: Annotated[str, StringConstraints(max_length=64)]
    kind: Annotated[str, StringConstraints(max_length=32)]
    id: Annotated[str, StringConstraints(max_length=64)] = ""
    """Id of the silence, or fingerprint of the alert; empty where it is about all."""
    reason: Text = ""


class WatchMessage(PublisherMessage):
    """The presence of a watch or a relay; repeated as its heartbeat."""

    ts: Text | None = None
    """RFC 3339, wall time of the heartbeat: a retained message has no time of its own."""
    leads: bool | None = None
    """Whether it leads: publishes alerts and notifies receivers, or a cell's roll-ups."""
    firing: Annotated[int, Field(ge=0, le=1_000_000_000)] | None = None
    """Number of alerts that fire by its own evaluation and are neither silenced nor inhibited, so that readers see where a
    leader publishes none."""
    errors: Annotated[int, Field(ge=0, le=1_000_000_000)] | None = None
    """Number of alerts, silences and acknowledgements that receivers of the leader do not take at present."""
    receiver_errors: Annotated[tuple[ReceiverErrorSpec, ...], Field(max_length=16)] = ()
    """The first of them."""
    cell: Name | None = None
    """The cell of a relay, or of a watch that a relay passed on."""
    hears: bool | None = None
    """Of a relay: whether it hears its cell; null while it listens for others."""


class EventMessage(Message):
    """An event of hardware, a runtime, a job, EC2 or an operator. Not retained."""

    id: Name
    """Unique in the fleet: the publisher's boot and a number."""
    ts: Instant
    """RFC 3339, source time."""
    path: Annotated[
        str, StringConstraints(pattern=r"^([A-Za-z0-9_-]{1,64}(/[A-Za-z0-9_-]{1,64}){0,4})?$")
    ]
    """Address of its subject; empty for the fleet, whose events are published on the path `fleet`."""
    source: Name
    name: Name
    severity: Severity
    text: Text
    job: Name | None = None
    nrt: Annotated[int, Field(ge=0, le=65_535)] | None = None
    """NRT_STATUS of the execution that ended with it."""
    detail_type: Text | None = None
    """The detail type of the event that EventBridge has for it, such as `Capacity Block Expiration Warning`."""
    reservation: Name | None = None
    """The Capacity Block or Capacity Reservation that it concerns."""
    resources: Annotated[tuple[Arn, ...], Field(max_length=4)] = ()
    """With a detail type: the ARNs that EventBridge's event names. Left out of the message where it is empty."""
    detail: dict[Name, DetailText] = Field(default_factory=dict, max_length=8)
    """With a detail type: the detail of EventBridge's event. Left out of the message where it is empty."""

    @model_serializer(mode="wrap")
    def _without_empty(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = serialise(self)
        for name in ("resources", "detail"):
            if not data.get(name, True):
                del data[name]
        return data


class CommandMessage(BaseModel):
    """A request to a simulator or a relay; unknown fields are refused, because they might change its meaning."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, cache_strings="keys")

    v: Literal[1] = 1
    id: Name
    """Unique: a command that comes twice is carried out once."""
    client: Name
    """Client id of the requester; the answer goes to `reply/{client}/{id}`."""
    action: Name
    target: Text = ""
    args: dict[Name, Text | Amount | bool | None] = Field(default_factory=dict, max_length=16)
    expires: Text
    """RFC 3339, wall time: from then on it is not carried out."""
    by: Text = ""
    """Name of the operator, for the log."""


class ReplyMessage(Message):
    """The answer to a command."""

    id: Name
    ok: bool
    reason: Annotated[str, StringConstraints(max_length=2_000)] = ""
    """The result, or the reason of a refusal, in one line."""
    result: dict[str, Any] = Field(default_factory=dict)


MessageT = TypeVar("MessageT", bound=BaseModel)

STANDARD_COLUMNS = tuple(ColumnSpec.of(metric) for metric in CHIP_METRICS + INSTANCE_METRICS)
"""Every column of the metric table, as our own publishers describe them."""
COLUMN_SETS = {"standard/1": STANDARD_COLUMNS}
"""Sets of columns that descriptors name, by name and version. A set never changes: one with other columns gets the next version."""


def encode_message(message: Message) -> bytes:
    """Return a message as compact JSON."""
    return message.model_dump_json(exclude_none=False).encode()


def message_envelope(topic: str, message: Message, *, retain: bool) -> Envelope:
    """Return a message as it is published: JSON at QoS 1, retained where it is state."""
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
    try:
        return model.model_validate_json(payload)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in problem["loc"])
        value = _shown(problem["input"])
        raise WireError(
            f"{model.__name__} {place or 'as a whole'}: {problem['msg']}{value}"
        ) from None


def _shown(value: object) -> str:
    """Return a refused value in one line of plain text; empty where it is more than one."""
    if isinstance(value, str):
        # Quoted before it is cut: what is escaped may be longer.
        return f", not {value[:_VALUE_CHARS]!a:.{_VALUE_CHARS}}"
    if value is None or isinstance(value, (bool, float)):
        return f", not {value}"
    if isinstance(value, int):
        return f", not {value}" if value.bit_length() <= 64 else ", not a number of over 64 bits"
    return ""


def parse_json_object(payload: bytes, limits: Limits = DEFAULT_LIMITS) -> dict[str, Any]:
    """Parse a JSON object without NaN or infinity.

    Raises:
        WireError: it is too large, not JSON, or not an object.
    """
    if len(payload) > limits.json_bytes:
        raise WireError(f"JSON of {len(payload)} bytes is over the limit of {limits.json_bytes}")
    try:
        parsed = from_json(payload, allow_inf_nan=False, cache_strings="keys")
    except (ValueError, RecursionError) as error:
        raise WireError(f"not JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise WireError("JSON is not an object")
    return parsed


def to_json_bytes(value: dict[str, Any]) -> bytes:
    """Return an object as compact JSON; it must not have NaN or infinity (None stands for them)."""
    return to_json(value, inf_nan_mode="null")
