"""Roll-ups on the wire: a relay's messages about its cell.

Each row is an UltraServer or a standalone instance. A block of rows has a retained descriptor on
`node/{path}`, distinguished from a telemetry one by its `kind`, and a frame per period on
`rollup/{path}`. A frame is a CBOR map: `v`, `path`, `boot`, `rev`, `seq`, `ts` as in telemetry, and
RFC 8746 arrays, little-endian:

- `totals` (float32) and `counters` (float64): a line of rows for each column
- `covered`: chips or instances summed in each value, a line for each column of both
- `states`: chips in each freshness, a line for each row
- `alerts`: firing ones by severity, a line for each row

`worst` has for each row the address of its worst chip below the row's, or an empty text. `paid`,
in the cell's first block alone, has the paid time of the whole cell.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import cbor2
import msgspec
import numpy as np
from msgspec import Meta

from trnfleet.domain.address import STANDALONE
from trnfleet.domain.hardware.catalogue import (
    INSTANCE_TYPES,
    present_name,
    unknown_instance_type,
)
from trnfleet.domain.metrics import BY_NAME, METRICS, Kind, Metric, Scope
from trnfleet.domain.severity import Severity
from trnfleet.errors import WireError
from trnfleet.wire.cbor import ARRAY_TAGS, decode_cbor
from trnfleet.wire.limits import DEFAULT_LIMITS, Limits
from trnfleet.wire.messages import SCHEMA, ClockSpec, Name, Path, TypeName
from trnfleet.wire.structs import Message
from trnfleet.wire.telemetry import MAX_SEQ, Head
from trnfleet.wire.values import LATEST_NS, Amount, Period, Revision

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


STATES = 5
"""Chips of a row by freshness: live, stale, offline, not heard of yet, not observed."""
SEVERITIES = tuple(Severity)
BLOCK_ROWS = 256
"""Rows of a block at most: its descriptor and its frame stay below 128 KB."""
MOST_INSTANCES = 64
"""Most instances of a row; a Trn3 UltraServer has 36."""

TOTALS = tuple(metric.name for metric in METRICS if metric.kind is not Kind.COUNTER)
"""Columns of float32: sums, maxima and bits."""
COUNTERS = tuple(metric.name for metric in METRICS if metric.kind is Kind.COUNTER)
"""Columns of float64: sums of counters would be rounded in float32."""

_KIND = re.compile(rb'"kind"\s*:\s*"rollup"')
_F4 = np.dtype("<f4")
_F8 = np.dtype("<f8")
_U2 = np.dtype("<u2")
_WORST = r"(?:[A-Za-z0-9_-]{1,64}(?:/[A-Za-z0-9_-]{1,64})?)?"
_ALL_WORST = re.compile(rf"{_WORST}(?:\n{_WORST})*+")
_ROUNDING = 1.001
"""Margin for sums in float32."""

RowPath = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}(/[A-Za-z0-9_-]{1,64}){1,2}\Z")]
Columns = Annotated[tuple[Name, ...], Meta(max_length=DEFAULT_LIMITS.columns)]


class RollupRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of a block."""

    path: RowPath
    """Address of an UltraServer, or of an instance."""
    type: TypeName
    """Type of its instances."""
    instances: Annotated[int, Meta(ge=1, le=MOST_INSTANCES)]

    def __post_init__(self) -> None:
        """Check the limits across fields, and read other names of a type as the catalogue's."""
        if self.path.count("/") == 2 and self.instances != 1:
            raise ValueError("instances: a row of an instance stands for one instance")
        if self.path.endswith("/" + STANDALONE):
            raise ValueError("path: instances outside UltraServers have a row each")
        msgspec.structs.force_setattr(self, "type", present_name(self.type))


class RollupDescriptor(Message, frozen=True, kw_only=True):
    """The descriptor of a block of roll-ups: relay, rows in frame order, and columns."""

    kind: Literal["rollup"] = "rollup"
    path: Path
    publisher: Name
    """Client id of the relay. Its last will takes nothing offline, but makes all rows not observed.
    """
    boot: Name
    revision: Revision = 0
    period_s: Period
    clock: ClockSpec
    replay: bool = False
    origin: Literal["simulated", "neuron"] = "simulated"
    cell: Name
    rows: Annotated[tuple[RollupRow, ...], Meta(min_length=1, max_length=DEFAULT_LIMITS.instances)]
    totals: Columns = TOTALS
    counters: Columns = COUNTERS

    def __post_init__(self) -> None:
        """Check the limits across fields."""
        columns = (*self.totals, *self.counters)
        if len(set(columns)) < len(columns):
            raise ValueError("two columns of the same name")
        paths = {row.path for row in self.rows}
        if len(paths) < len(self.rows):
            raise ValueError("rows: two rows of the same path")
        if any(path.count("/") == 2 and path.rpartition("/")[0] in paths for path in paths):
            raise ValueError("rows: a row of an UltraServer and one of an instance in it")


class CellPaidTime(msgspec.Struct, frozen=True, kw_only=True):
    """Paid time of a cell over the last hour, as observed by its relay; it adds up over cells."""

    lasts_s: Amount
    """Observed part of the hour, in the fleet's time."""
    seconds: Annotated[dict[Name, Amount], Meta(max_length=64)]
    """Instance-seconds by cause, such as `idle_reserved`."""
    usd: Annotated[dict[Name, Amount], Meta(max_length=64)]
    """Their price, as far as known."""
    unpriced_s: Amount
    """Instance-seconds without a known price."""


class RollupFrame(NamedTuple):
    """A frame of a block; arrays are views of the payload."""

    head: Head
    totals: NDArray[np.float32]
    """Columns x rows."""
    counters: NDArray[np.float64]
    """Columns x rows."""
    covered: NDArray[np.uint16]
    """Columns of both x rows."""
    states: NDArray[np.uint16]
    """Rows x `STATES`."""
    alerts: NDArray[np.uint16]
    """Rows x severities, the worst first."""
    worst: Sequence[str]
    paid: CellPaidTime | None = None
    """None in other blocks than the first, and from an older relay."""


class RollupForm(NamedTuple):
    """The part of a descriptor its frames are checked against."""

    path: str
    boot: str
    revision: int
    totals: tuple[str, ...]
    counters: tuple[str, ...]
    chips: NDArray[np.int64]
    """Chips of each row."""
    instances: NDArray[np.int64]
    """Instances of each row."""
    is_of_instances: NDArray[np.bool_]
    """Columns of both that cover instances, not chips."""
    highest: NDArray[np.float64]
    """Largest value of each column of both, for each chip or instance that went in."""

    @staticmethod
    def of(descriptor: RollupDescriptor) -> RollupForm:
        """Return the form of a descriptor's frames.

        Raises:
            WireError: it names an instance type that the hardware catalogue does not have, or a row
                outside its cluster.
        """
        cluster = descriptor.path.partition("/")[0]
        for row in descriptor.rows:
            if row.type not in INSTANCE_TYPES:
                raise WireError(unknown_instance_type(row.type))
            if row.path.partition("/")[0] != cluster:
                raise WireError("describes a row of another cluster")
        instances = np.array([row.instances for row in descriptor.rows], np.int64)
        chips = instances * np.array(
            [INSTANCE_TYPES[row.type].chips for row in descriptor.rows], np.int64
        )
        known = [BY_NAME.get(name) for name in (*descriptor.totals, *descriptor.counters)]
        return RollupForm(
            descriptor.path,
            descriptor.boot,
            descriptor.revision,
            descriptor.totals,
            descriptor.counters,
            chips,
            instances,
            np.array(
                [metric is not None and metric.scope is Scope.INSTANCE for metric in known],
                np.bool_,
            ),
            np.array([_highest(metric) for metric in known], np.float64),
        )


def _highest(metric: Metric | None) -> float:
    if metric is None:
        return math.inf
    return (metric.top - 1) * metric.scale * metric.width * _ROUNDING


def is_rollup(payload: bytes) -> bool:
    """Return whether a descriptor is one of roll-ups."""
    return b'"rollup"' in payload and _KIND.search(payload) is not None


def encode_rollup(path: str, revision: int, frame: RollupFrame) -> bytes:
    """Return a frame as CBOR."""
    return cbor2.dumps(
        {
            "v": SCHEMA,
            "path": path,
            "boot": frame.head.boot,
            "rev": revision,
            "seq": frame.head.seq,
            "ts": frame.head.ts_ns,
            "totals": _tagged(frame.totals, _F4),
            "counters": _tagged(frame.counters, _F8),
            "covered": _tagged(frame.covered, _U2),
            "states": _tagged(frame.states, _U2),
            "alerts": _tagged(frame.alerts, _U2),
            "worst": list(frame.worst),
            **({} if frame.paid is None else {"paid": msgspec.structs.asdict(frame.paid)}),
        }
    )


def decode_rollup_head(
    payload: bytes, limits: Limits = DEFAULT_LIMITS
) -> tuple[dict[str, Any], Head, int]:
    """Return a frame's fields, its head and its revision.

    Raises:
        WireError: it is too large, or no frame.
    """
    if len(payload) > limits.payload_bytes:
        raise WireError(
            f"a roll-up of {len(payload)} bytes is over the limit of {limits.payload_bytes}"
        )
    fields = decode_cbor(payload)
    if not isinstance(fields, dict) or fields.get("v") != SCHEMA:
        raise WireError(f"not a roll-up of version {SCHEMA}")
    boot, seq, ts_ns, revision = (fields.get(key) for key in ("boot", "seq", "ts", "rev"))
    if not isinstance(boot, str) or not 0 < len(boot) <= 64:
        raise WireError("a roll-up whose boot is not text of 1 to 64 characters")
    numbers = ((seq, 0, MAX_SEQ), (ts_ns, 0, LATEST_NS), (revision, 0, MAX_SEQ))
    for value, least, most in numbers:
        if type(value) is not int or not least <= value <= most:
            raise WireError("a roll-up whose seq, ts or rev is not a number within its limits")
    return fields, Head(boot, int(seq or 0), int(ts_ns or 0)), int(revision or 0)


def decode_rollup(fields: dict[str, Any], head: Head, form: RollupForm) -> RollupFrame:
    """Return the arrays of a frame.

    Raises:
        WireError: it is not as its descriptor announces, or says more than its rows have.
    """
    if fields.get("path") != form.path:
        raise WireError("the roll-up's path is not its topic's")
    rows = len(form.chips)
    columns = len(form.totals) + len(form.counters)
    frame = RollupFrame(
        head,
        _array(fields, "totals", _F4, (len(form.totals), rows)),
        _array(fields, "counters", _F8, (len(form.counters), rows)),
        _array(fields, "covered", _U2, (columns, rows)),
        _array(fields, "states", _U2, (rows, STATES)),
        _array(fields, "alerts", _U2, (rows, len(SEVERITIES))),
        fields.get("worst", ()),
        _paid(fields.get("paid")),
    )
    if not (np.isfinite(frame.totals).all() and np.isfinite(frame.counters).all()):
        raise WireError("a roll-up with a value that is not finite")
    if not np.array_equal(frame.states.sum(axis=1, dtype=np.int64), form.chips):
        raise WireError("a roll-up whose states are not of as many chips as its rows have")
    too_many = (
        frame.covered > np.where(form.is_of_instances[:, None], form.instances, form.chips)
    ).any(axis=1)
    if too_many.any():
        name = (*form.totals, *form.counters)[int(too_many.argmax())]
        raise WireError(f"a roll-up whose {name} covers more than its rows have")
    first = len(form.totals)
    for begin, values in ((0, frame.totals), (first, frame.counters)):
        end = begin + len(values)
        most_of = form.highest[begin:end, None] * np.maximum(frame.covered[begin:end], 1)
        wrong = ((values < 0) | (values > most_of)).any(axis=1)
        if wrong.any():
            name = (*form.totals, *form.counters)[begin + int(wrong.argmax())]
            raise WireError(f"a roll-up whose {name} is nothing that its rows can add up to")
    if not _are_addresses(frame.worst, rows):
        raise WireError(f"a roll-up whose worst is not a list of {rows} addresses")
    return frame


def _paid(value: object) -> CellPaidTime | None:
    try:
        return None if value is None else msgspec.convert(value, CellPaidTime)
    except msgspec.ValidationError as error:
        raise WireError(f"a roll-up whose paid is no paid time: {error}") from None


def _are_addresses(found: object, rows: int) -> bool:
    """Return whether a value is a list of chip addresses or empty texts.

    Its length must be the number of rows.
    """
    if not isinstance(found, list) or len(found) != rows:
        return False
    try:
        joined = "\n".join(found)
    except TypeError:
        return False
    # A list of a block's addresses is matched at once: a match for each takes a quarter of all that
    # decoding takes.
    return joined.count("\n") == rows - 1 and _ALL_WORST.fullmatch(joined) is not None


def _tagged(array: NDArray[Any], dtype: np.dtype[Any]) -> cbor2.CBORTag:
    return cbor2.CBORTag(ARRAY_TAGS[dtype], np.ascontiguousarray(array, dtype).tobytes())


def _array(
    fields: dict[str, Any], key: str, dtype: np.dtype[Any], shape: tuple[int, int]
) -> NDArray[Any]:
    value = fields.get(key)
    size = shape[0] * shape[1] * dtype.itemsize
    if (
        not isinstance(value, cbor2.CBORTag)
        or value.tag != ARRAY_TAGS[dtype]
        or not isinstance(value.value, bytes)
    ):
        raise WireError(f"a roll-up whose {key} is not an array of {dtype.name}")
    if len(value.value) != size:
        raise WireError(f"a roll-up whose {key} has {len(value.value)} bytes, not {size}")
    return np.frombuffer(value.value, dtype).reshape(shape)
