"""JSON telemetry: one flat object per chip and per instance, for people and tools.

It carries the same quantised values as frames do, so that both result in the same store.
"""

from __future__ import annotations

import functools
import itertools
import operator
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta

from trnfleet.clock import format_rfc3339
from trnfleet.domain.address import format_chip
from trnfleet.domain.metrics import CHIP_METRICS, INSTANCE_METRICS, Metric
from trnfleet.errors import WireError, nearest
from trnfleet.wire.frame_head import frame_head, is_cbor
from trnfleet.wire.limits import DEFAULT_LIMITS, Limits
from trnfleet.wire.messages import SCHEMA, parse_json_object
from trnfleet.wire.structs import VALUE_CHARS, refusal, shown
from trnfleet.wire.values import instant_ns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from trnfleet.wire.ports import Envelope

    Columns = Mapping[str, NDArray[Any]]

MAX_SEQ = int(np.iinfo(np.int64).max)
# Within a JSON text a quotation mark is escaped: these bytes can be nothing but a key and its
# value.
_BOOT = re.compile(rb'"boot": ?"([A-Za-z0-9_-]+)"')
_SEQ = re.compile(rb'"seq": ?(\d{1,18})[,}]')


class Head(NamedTuple):
    """The head of every telemetry payload."""

    boot: str
    seq: int
    """The topic's own tick number: 0 at the first tick, one more each tick."""
    ts_ns: int
    """Source time, nanoseconds since 1970 UTC."""


def telemetry_head(envelope: Envelope) -> tuple[str, int]:
    """Return boot and seq of telemetry, without its descriptor.

    Raises:
        WireError: it has none.
    """
    payload = envelope.payload
    return frame_head(payload) if is_cbor(envelope) else json_head(payload)


def json_head(payload: bytes) -> tuple[str, int]:
    """Return boot and seq of telemetry in JSON.

    Raises:
        WireError: it has none.
    """
    boots = _BOOT.findall(payload)
    seqs = _SEQ.findall(payload)
    if len(boots) == 1 and len(seqs) == 1:
        return boots[0].decode(), int(seqs[0])
    data = parse_json_object(payload)
    boot = data.get("boot")
    seq = data.get("seq")
    if not (isinstance(boot, str) and isinstance(seq, int) and seq >= 0):
        raise WireError("telemetry without boot or seq")
    return boot, seq


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
        own = _FORMS[self.is_chip].metrics
        key = self.key if self.key.isascii() and self.key.isidentifier() else ascii(self.key)
        if self.key in _FORMS[not self.is_chip].metrics:
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
    values: Sequence[Any]
    """Values for `split_codes`; None where absent, null or in doubt."""
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
    """Return a telemetry object as compact JSON.

    It must not have NaN or infinity; None stands for them.
    """
    return msgspec.json.encode(value)


def _values(
    metrics: Sequence[Metric], columns: Columns, rows: slice
) -> list[tuple[str, list[Any]]]:
    return [
        (metric.name, metric.json_values(columns[metric.name][rows]))
        for metric in metrics
        if metric.name in columns
    ]


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


class Telemetry(msgspec.Struct, kw_only=True):
    """The identity of a message; `_Form` adds the metrics of its scope."""

    v: Literal[1]
    boot: Annotated[str, Meta(min_length=1, max_length=64)]
    seq: Annotated[int, Meta(ge=0, le=MAX_SEQ)]
    ts: Annotated[str, Meta(max_length=40)]
    cluster: str
    ultraserver: str
    instance: str
    chip: Annotated[int, Meta(ge=0, le=999)] | None = None
    job: Any = None


_METRIC = re.compile(r"\$\.(\w+)")
"""The field of a message in an error of msgspec's."""
_NUMERIC = frozenset({int, float, list})
_MOST_DOUBTS = 16
"""Most keys reported per message."""
_NOT_AVAILABLE = int(np.iinfo(np.uint64).max)
"""The top code of every wire type, once cut to its bits."""


class _Form:
    """The messages of a scope: their struct, and the wire codes of their values."""

    def __init__(self, metrics: Sequence[Metric], *, is_chip: bool) -> None:
        # Whole numbers may be larger than a float64 holds exactly.
        self.metrics = {
            metric.name: metric
            for metric in sorted(metrics, key=lambda m: (not m.is_vector, m.scale == 1))
        }
        self._is_chip = is_chip
        model: Any = msgspec.defstruct(
            "Telemetry",
            [
                ("chip", Annotated[int, Meta(ge=0, le=999)]) if is_chip else ("chip", None, None),
                *((metric.name, _type_of(metric), _blank(metric)) for metric in metrics),
            ],
            bases=(Telemetry,),
            kw_only=True,
        )
        strict = msgspec.defstruct("Telemetry", [], bases=(model,), forbid_unknown_fields=True)
        self._model = model
        self._fields = frozenset(model.__struct_fields__)
        decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(strict)
        self.decode = decoder.decode
        self.values = operator.attrgetter(*self.metrics)
        measured = [m for m in self.metrics.values() if m.is_vector or m.scale != 1]
        lanes = [metric for metric in measured for _ in range(metric.width)]
        self._vectors = sum(metric.is_vector for metric in measured)
        self._measured = len(measured)
        self._steps = np.array([metric.steps_per_unit or 1 for metric in lanes], np.float64)
        self._scale = np.array([1 if metric.steps_per_unit else metric.scale for metric in lanes])

    def usable(self, data: dict[str, Any]) -> tuple[Telemetry, list[Doubt]]:
        """Return the usable part of an object, and the doubts about the rest.

        Raises:
            WireError: it lacks its identity.
        """
        doubts = [
            Doubt(key[:VALUE_CHARS], "", self._is_chip)
            for key, value in data.items()
            if key not in self._fields and type(value) in _NUMERIC
        ][:_MOST_DOUBTS]
        others: dict[str, Any] = {}
        while True:
            try:
                message = msgspec.convert(data, self._model)
                break
            except msgspec.ValidationError as error:
                name = _METRIC.search(str(error))
                metric = self.metrics.get(name[1]) if name else None
                if metric is None:
                    raise refusal(error, data, self._model) from None
                usable, reasons = _usable(data.pop(metric.name), metric)
                others[metric.name] = usable
                doubts += [Doubt(metric.name, reason, self._is_chip) for reason in reasons]
        for key, usable in others.items():
            setattr(message, key, usable)
        return message, doubts[:_MOST_DOUBTS]

    def codes(self, values: Sequence[Sequence[Any]]) -> NDArray[np.uint64]:
        """Return the wire codes of messages: a row each, with the lanes of all metrics."""
        vectors = self._vectors
        end = self._measured
        measured = np.array(
            [[*itertools.chain.from_iterable(row[:vectors]), *row[vectors:end]] for row in values],
            np.float64,
        )
        whole = np.array(
            [[_NOT_AVAILABLE if value is None else value for value in row[end:]] for row in values],
            np.uint64,
        )
        missing = np.isnan(measured)
        measured[missing] = 0
        codes = np.rint(measured * self._steps / self._scale).astype(np.uint64)
        codes[missing] = _NOT_AVAILABLE
        return np.hstack([codes, whole])


def _type_of(metric: Metric) -> Any:
    """Return the type of a metric's value in a message."""
    lane: Any
    if metric.scale == 1:
        # The struct's limits fit 64 bits with a sign; larger counts are checked one by one.
        lane = Annotated[int, Meta(ge=0, le=min(metric.limit_code, MAX_SEQ))] | None
    else:
        lane = Annotated[float, Meta(ge=0, le=metric.limit)] | None
    return tuple[(lane,) * metric.width] if metric.is_vector else lane  # type: ignore[misc]  # made at run time


def _blank(metric: Metric) -> tuple[None, ...] | None:
    """Return a metric's value where it is not available."""
    return (None,) * metric.width if metric.is_vector else None


_FORMS = (_Form(INSTANCE_METRICS, is_chip=False), _Form(CHIP_METRICS, is_chip=True))
"""By whether they are a chip's."""


def decode_sample(payload: bytes, limits: Limits = DEFAULT_LIMITS) -> Sample:
    """Parse and validate a chip's or an instance's object.

    Raises:
        WireError: it is not JSON, or lacks its identity. A value that cannot be used is not
            available, and among the doubts.
    """
    if len(payload) <= limits.payload_bytes:
        form = _FORMS[b'"chip"' in payload]
        try:
            return _sample(form.decode(payload), form, ())
        except (ValueError, RecursionError):
            # What is unusable or unknown is looked for below.
            pass
    data = parse_json_object(payload, limits)
    form = _FORMS[data.get("chip") is not None]
    message, doubts = form.usable(data)
    return _sample(message, form, doubts)


def _sample(message: Telemetry, form: _Form, doubts: Sequence[Doubt]) -> Sample:
    try:
        head = Head(message.boot, message.seq, _instant_ns(message.ts))
    except ValueError as error:
        raise WireError(f"Telemetry ts: {error}{shown(message.ts)}") from None
    path = f"{message.cluster}/{message.ultraserver}/{message.instance}"
    values = form.values(message)
    if message.chip is None:
        return Sample(head, path, False, values, doubts)
    return Sample(head, f"{path}/{format_chip(message.chip)}", True, values, doubts)


@functools.lru_cache(maxsize=256)
def _instant_ns(text: str) -> int:
    """Return nanoseconds since 1970; all messages of a tick have the same instant."""
    return instant_ns(text)


def _usable(value: Any, metric: Metric) -> tuple[Any, list[str]]:
    """Return a metric's value, None for unusable lanes, and the reason of them all."""
    lanes = value if metric.is_vector else [value]
    if type(lanes) is not list or len(lanes) != metric.width:
        wrong = f"must be a list of {metric.width} numbers{shown(value)}"
        return _blank(metric), [] if value is None else [wrong]
    reasons = [_reason(lane, metric) for lane in lanes]
    usable = [None if reason else lane for lane, reason in zip(lanes, reasons, strict=True)]
    return (usable if metric.is_vector else usable[0]), [*filter(None, reasons)]


def _reason(value: object, metric: Metric) -> str:
    """Return why a value is not one of a metric; empty if it is."""
    if value is None:
        return ""
    if type(value) is not float and type(value) is not int:
        return f"must be a number{shown(value)}"
    if 0 <= value <= metric.top * metric.scale:
        steps = metric.steps_per_unit
        is_whole = metric.scale == 1
        code = value if is_whole else round(value * steps if steps else value / metric.scale)
        if code <= metric.limit_code:
            is_usable = not is_whole or type(value) is int
            return "" if is_usable else f"must be a whole number{shown(value)}"
    return reason_above(metric, value)


def reason_above(metric: Metric, value: float) -> str:
    """Return why a value above a metric's limit is not one of it."""
    return f"must be from 0 to {metric.limit:g}{shown(value)}"


def split_codes(samples: Sequence[Sample]) -> Iterator[tuple[Metric, NDArray[Any]]]:
    """Yield each metric's column of wire codes: shape (rows,), or (rows, width) for a vector.

    Args:
        samples: At least one, all of chips or all of instances.
    """
    form = _FORMS[samples[0].is_chip]
    table = form.codes([sample.values for sample in samples])
    start = 0
    for metric in form.metrics.values():
        part = table[:, start : start + metric.width]
        yield metric, (part if metric.is_vector else part[:, 0]).astype(metric.dtype)
        start += metric.width
