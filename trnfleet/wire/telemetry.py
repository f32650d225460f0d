"""JSON telemetry: one flat object per chip and per instance, for people and tools.

It carries the same quantised values as frames do, so that both result in the same store.
"""

from __future__ import annotations

import functools
import itertools
import operator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trnfleet.clock import format_rfc3339, parse_rfc3339
from trnfleet.domain.address import format_chip
from trnfleet.domain.metrics import CHIP_METRICS, INSTANCE_METRICS, Metric
from trnfleet.errors import WireError, nearest
from trnfleet.wire.limits import DEFAULT_LIMITS, Limits
from trnfleet.wire.messages import SCHEMA, parse_json_object, to_json_bytes
from trnfleet.wire.structs import shown
from trnfleet.wire.values import EARLIEST_NS, LATEST_NS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    Columns = Mapping[str, NDArray[Any]]

MAX_SEQ = 2**63 - 1
_BATCH = 8
"""Smallest number of messages decoded in columns; below it single values are faster."""


class Head(NamedTuple):
    """The head of every telemetry payload."""

    boot: str
    seq: int
    """The topic's own tick number: 0 at the first tick, one more each tick."""
    ts_ns: int
    """Source time, nanoseconds since 1970 UTC."""


class Doubt(NamedTuple):
    """A key of a message with an unusable value; the rest of the message counts."""

    key: str
    reason: str
    """Reason the value is not available; empty for a key outside the message's scope."""
    is_chip: bool

    @property
    def text(self) -> str:
        """The key with its problem, and for an unknown one the nearest metric."""
        if self.reason:
            return f"{self.key} {self.reason}"
        own, others = (
            (_CHIP_NAMES, _INSTANCE_NAMES) if self.is_chip else (_INSTANCE_NAMES, _CHIP_NAMES)
        )
        key = self.key if self.key.isascii() and self.key.isidentifier() else ascii(self.key)
        if self.key in others:
            scopes = ("instances", "chips") if self.is_chip else ("chips", "instances")
            return f"{key}: a metric of {scopes[0]}, not of {scopes[1]}"
        hint = nearest(self.key, own).replace("'", "")
        return f"{key}: {hint}" if hint.startswith("did you mean") else f"{key}: unknown metric"


class Sample(NamedTuple):
    """A JSON telemetry message, decoded."""

    head: Head
    path: str
    """Address of the chip or instance, from the payload."""
    is_chip: bool
    codes: Sequence[int] | NDArray[np.uint64]
    """Wire codes of all lanes of all metrics of its scope, in table order. The top code if absent,
    null or in doubt."""
    doubts: Sequence[Doubt] = ()
    """Keys with unusable values, only the first of them."""


def encode_instance(
    head: Head, path: str, job: str | None, columns: Columns, row: int
) -> dict[str, Any]:
    """Return the object of one instance's own metrics."""
    return _identity(head, path, None, job) | _row(
        _values(INSTANCE_METRICS, columns, slice(row, row + 1)), 0
    )


def encode_chips(
    head: Head, path: str, job: str | None, columns: Columns, rows: slice
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (address, object) for each chip of one instance.

    `rows` are its chips' rows of the columns.
    """
    values = _values(CHIP_METRICS, columns, rows)
    for number in range(rows.stop - rows.start):
        yield (
            f"{path}/{format_chip(number)}",
            _identity(head, path, number, job) | _row(values, number),
        )


def dump(value: dict[str, Any]) -> bytes:
    """Return a telemetry object as compact JSON."""
    return to_json_bytes(value)


def _values(
    metrics: Sequence[Metric], columns: Columns, rows: slice
) -> list[tuple[str, list[Any]]]:
    return [(metric.name, metric.json_values(columns[metric.name][rows])) for metric in metrics]


def _identity(head: Head, path: str, chip: int | None, job: str | None) -> dict[str, Any]:
    cluster, ultraserver, instance = path.split("/")
    result: dict[str, Any] = {
        "ts": format_rfc3339(head.ts_ns),
        "v": SCHEMA,
        "boot": head.boot,
        "seq": head.seq,
        "cluster": cluster,
        "ultraserver": ultraserver,
        "instance": instance,
    }
    if chip is not None:
        result["chip"] = chip
    result["job"] = job
    return result


def _row(values: list[tuple[str, list[Any]]], row: int) -> dict[str, Any]:
    return {name: rows[row] for name, rows in values}


class _Field(NamedTuple):
    name: str
    width: int
    is_vector: bool
    steps: int
    """Codes in one unit where the scale is below 1, else 0."""
    scale: float
    top: int
    most: int
    """Largest code that can be a value."""
    limit: float
    """The value of it."""
    ceiling: float
    """Largest number converted; beyond it there is no code."""


def _fields(metrics: Sequence[Metric]) -> tuple[_Field, ...]:
    return tuple(
        _Field(
            m.name,
            m.width,
            m.is_vector,
            m.steps_per_unit,
            m.scale,
            m.top,
            m.limit_code,
            m.limit,
            m.top * m.scale,
        )
        for m in metrics
    )


_CHIP_FIELDS = _fields(CHIP_METRICS)
_INSTANCE_FIELDS = _fields(INSTANCE_METRICS)
_CHIP_NAMES = frozenset(field.name for field in _CHIP_FIELDS)
_INSTANCE_NAMES = frozenset(field.name for field in _INSTANCE_FIELDS)
_IDENTITY = frozenset(
    {"ts", "v", "boot", "seq", "cluster", "ultraserver", "instance", "chip", "job"}
)
_KNOWN = _INSTANCE_NAMES | _IDENTITY, _CHIP_NAMES | _IDENTITY
"""Known keys, indexed by whether the message is a chip's."""
_MOST_DOUBTS = 16
"""Most keys reported per message."""
_KEY_CHARS = 64
"""Characters of an unknown key that are kept."""


class _Place(NamedTuple):
    """The head of a message and where it belongs."""

    head: Head
    path: str
    is_chip: bool


def decode_sample(payload: bytes, limits: Limits = DEFAULT_LIMITS) -> Sample:
    """Parse and validate a chip's or an instance's object.

    Raises:
        WireError: it is not JSON, or lacks its identity. A value that cannot be used is not
            available, and among the doubts.
    """
    data = parse_json_object(payload, limits)
    place = _place(data)
    doubts = _unknown(data, place.is_chip)
    codes = _codes(data, _CHIP_FIELDS if place.is_chip else _INSTANCE_FIELDS, place.is_chip, doubts)
    return Sample(*place, codes=codes, doubts=doubts[:_MOST_DOUBTS])


def _unknown(data: dict[str, Any], is_chip: bool) -> list[Doubt]:
    """Return the keys with numbers but without a metric; other values are private notes."""
    if _KNOWN[is_chip].issuperset(data):
        return []
    return [
        Doubt(key[:_KEY_CHARS], "", is_chip)
        for key, value in data.items()
        if key not in _KNOWN[is_chip] and type(value) in _NUMERIC
    ][:_MOST_DOUBTS]


def decode_samples(
    payloads: Sequence[bytes], limits: Limits = DEFAULT_LIMITS
) -> list[Sample | WireError]:
    """Parse and validate many objects; return the error in place of a wrong one.

    Faster than one by one if most are alike.
    """
    if len(payloads) < _BATCH:
        return [_decoded(payload, limits) for payload in payloads]
    results: list[Sample | WireError | None] = [None] * len(payloads)
    usual: tuple[list[_Usual], list[_Usual]] = [], []
    for number, payload in enumerate(payloads):
        try:
            data = parse_json_object(payload, limits)
            place = _place(data)
        except WireError as error:
            results[number] = error
            continue
        values = _VALUES[place.is_chip].of(data)
        if values is not None:
            usual[place.is_chip].append(
                _Usual(number, place, *values, _unknown(data, place.is_chip))
            )
    for is_chip, chosen in enumerate(usual):
        if chosen:
            for message, codes in zip(chosen, _VALUES[is_chip].codes(chosen), strict=True):
                if codes is not None:
                    results[message.number] = Sample(
                        *message.place, codes=codes, doubts=message.doubts
                    )
    return [
        _decoded(payload, limits) if result is None else result
        for payload, result in zip(payloads, results, strict=True)
    ]


def _decoded(payload: bytes, limits: Limits) -> Sample | WireError:
    try:
        return decode_sample(payload, limits)
    except WireError as error:
        return error


def _place(data: dict[str, Any]) -> _Place:
    head = Head(*_head(data))
    try:
        path = f"{data['cluster']}/{data['ultraserver']}/{data['instance']}"
    except KeyError as error:
        raise WireError(f"telemetry lacks {error.args[0]!r}") from error
    chip = data.get("chip")
    if chip is None:
        return _Place(head, path, is_chip=False)
    if type(chip) is not int or not 0 <= chip < 1_000:
        raise WireError("chip is not a number from 0 to 999")
    return _Place(head, f"{path}/{format_chip(chip)}", is_chip=True)


class _Usual(NamedTuple):
    """A message with all its values, as numbers not yet converted."""

    number: int
    """Its place among the payloads."""
    place: _Place
    measured: list[float | None]
    whole: Sequence[int]
    doubts: list[Doubt]


class _Values:
    """Values of messages in columns: every lane a number or not available.

    Nearly all messages are like this.
    """

    def __init__(self, fields: Sequence[_Field]) -> None:
        ends = itertools.accumulate(field.width for field in fields)
        lanes = {
            field: range(end - field.width, end) for field, end in zip(fields, ends, strict=True)
        }
        vectors = [field for field in fields if field.is_vector]
        single = [field for field in fields if not field.is_vector and field.scale != 1]
        # Whole numbers may be larger than a float64 holds exactly.
        whole = [field for field in fields if not field.is_vector and field.scale == 1]
        measured = [*vectors, *single]
        self._get = operator.itemgetter(*(field.name for field in (*measured, *whole)))
        self._vectors, self._measured = len(vectors), len(measured)
        self._widths = [field.width for field in vectors]
        self._width = len([lane for field in fields for lane in lanes[field]])
        self._measured_lanes = [lane for field in measured for lane in lanes[field]]
        self._whole_lanes = [lane for field in whole for lane in lanes[field]]
        of_lanes = [field for field in measured for _ in lanes[field]]
        self._steps = np.array([field.steps or 1 for field in of_lanes], np.float64)
        self._scale = np.array([1.0 if field.steps else field.scale for field in of_lanes])
        self._tops = np.array([field.top for field in of_lanes], np.float64)
        self._most = np.array([field.most for field in of_lanes], np.float64)
        self._whole_tops = np.array([field.top for field in whole], np.uint64)
        self._blanks = [[None] * width for width in self._widths]

    def of(self, data: dict[str, Any]) -> tuple[list[float | None], Sequence[int]] | None:
        """Return an object's measured and whole values.

        None for an object that must be checked value by value.
        """
        try:
            values = self._get(data)
        except KeyError:
            return None
        vectors: Sequence[Any] = values[: self._vectors]
        if None in vectors:
            vectors = [
                blank if vector is None else vector
                for vector, blank in zip(vectors, self._blanks, strict=True)
            ]
        if not _ARRAYS.issuperset(map(type, vectors)) or list(map(len, vectors)) != self._widths:
            return None
        measured = [
            *itertools.chain.from_iterable(vectors),
            *values[self._vectors : self._measured],
        ]
        whole = values[self._measured :]
        if _NUMBERS.issuperset(map(type, measured)) and _INTEGERS.issuperset(map(type, whole)):
            return measured, whole
        return None

    def codes(self, chosen: Sequence[_Usual]) -> Sequence[NDArray[np.uint64] | None]:
        """Return the codes of each message; None for one with a value out of range."""
        try:
            measured = np.array([message.measured for message in chosen], np.float64)
            whole = np.array([message.whole for message in chosen], np.uint64)
        except OverflowError:
            return [None] * len(chosen)
        missing = np.isnan(measured)
        with np.errstate(over="ignore"):
            codes = np.rint(measured * self._steps / self._scale)
        is_fine = (missing | ((measured >= 0) & (codes <= self._most))).all(axis=1)
        is_fine &= (whole < self._whole_tops).all(axis=1)
        codes = np.where(missing, self._tops, codes)
        if not is_fine.all():
            codes[~is_fine] = 0
        table = np.empty((len(chosen), self._width), np.uint64)
        table[:, self._whole_lanes] = whole
        table[:, self._measured_lanes] = codes
        return [row if fine else None for row, fine in zip(table, is_fine.tolist(), strict=True)]


_NUMBERS, _INTEGERS, _ARRAYS = (
    frozenset({int, float, type(None)}),
    frozenset({int}),
    frozenset({list}),
)
_NUMERIC = frozenset({int, float, list})
_VALUES = _Values(_INSTANCE_FIELDS), _Values(_CHIP_FIELDS)
"""By whether they are a chip's."""


def _head(data: dict[str, Any]) -> tuple[str, int, int]:
    boot = data.get("boot")
    seq = data.get("seq")
    stamp = data.get("ts")
    if data.get("v") != SCHEMA:
        raise WireError(f"schema version is not {SCHEMA}")
    if type(boot) is not str or not 0 < len(boot) <= 64:
        raise WireError("boot is not a string of 1 to 64 characters")
    if type(seq) is not int or not 0 <= seq <= MAX_SEQ:
        raise WireError("seq is not a whole number from 0 to 2^63 - 1")
    if type(stamp) is not str or len(stamp) > 40:
        raise WireError("ts is not an RFC 3339 instant")
    try:
        ts_ns = _instant_ns(stamp)
    except (ValueError, OverflowError) as error:
        raise WireError("ts is not an RFC 3339 instant") from error
    if not EARLIEST_NS <= ts_ns <= LATEST_NS:
        raise WireError(f"ts is outside the years 1970 to 2199, not {stamp!a}")
    return boot, seq, ts_ns


@functools.lru_cache(maxsize=256)
def _instant_ns(stamp: str) -> int:
    """Return nanoseconds since 1970; all messages of a tick have the same instant."""
    return parse_rfc3339(stamp)


def _codes(
    data: dict[str, Any], fields: tuple[_Field, ...], is_chip: bool, doubts: list[Doubt]
) -> list[int]:
    # Most of a message's cost is here; unusual values are left to `_code`.
    codes: list[int] = []
    add = codes.append
    get = data.get
    for field in fields:
        name, width, is_vector, steps, scale, top, most, _, ceiling = field
        value = get(name)
        if value is None:
            codes.extend([top] * width)
            continue
        if is_vector:
            if type(value) is not list or len(value) != width:
                doubts.append(
                    Doubt(name, f"must be a list of {width} numbers{shown(value)}", is_chip)
                )
                codes.extend([top] * width)
                continue
            lanes: list[Any] | tuple[Any] = value
        else:
            lanes = (value,)
        for lane in lanes:
            kind = type(lane)
            if (kind is float or kind is int) and 0 <= lane <= ceiling:
                code = round(lane * steps) if steps else lane if scale == 1 else round(lane / scale)
                if code <= most and type(code) is int:
                    add(code)
                    continue
            if lane is not None:
                doubts.append(Doubt(name, _reason(lane, field), is_chip))
            add(top)
    return codes


def _reason(value: object, field: _Field) -> str:
    """Return why a value is not one of a metric."""
    if type(value) is not float and type(value) is not int:
        return f"must be a number{shown(value)}"
    if 0 <= value <= field.limit:
        return f"must be a whole number{shown(value)}"
    return f"must be from 0 to {field.limit:g}{shown(value)}"


def reason_above(metric: Metric, value: float) -> str:
    """Return why a value above a metric's limit is not one of it."""
    return f"must be from 0 to {metric.limit:g}{shown(value)}"


def split_codes(
    codes: Sequence[Sequence[int] | NDArray[np.uint64]], metrics: Sequence[Metric]
) -> Iterator[tuple[Metric, NDArray[Any]]]:
    """Yield each metric's column of decoded rows: shape (rows,), or (rows, width) for a vector."""
    table = np.array(codes, dtype=np.uint64)
    start = 0
    for metric in metrics:
        part = table[:, start : start + metric.width]
        yield metric, (part if metric.is_vector else part[:, 0]).astype(metric.dtype)
        start += metric.width
