"""CBOR frames: one message for many chips, a typed array (RFC 8746) for each metric.

A frame is a map: `v`, `path`, `boot`, `seq`, `ts` (source time, ns), `rev` (the descriptor's
revision), `chip` and `instance`, which map a metric's name to its array, rows in the descriptor's
order, lanes within a row. Numbers of the head have a fixed width, so that the frames of a publisher
differ only in their values.
"""

from __future__ import annotations

import functools
import itertools
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

import cbor2
import numpy as np

from trnfleet.domain.hardware.catalogue import INSTANCE_TYPES, unknown_instance_type
from trnfleet.domain.metrics import (
    BY_NAME,
    CHIP_METRICS,
    INSTANCE_METRICS,
    WIRE_TYPES,
    Metric,
    Scope,
)
from trnfleet.errors import WireError
from trnfleet.wire.cbor import ARRAY_TAGS, TYPED_ARRAYS, decode_cbor
from trnfleet.wire.limits import DEFAULT_LIMITS, Limits
from trnfleet.wire.messages import SCHEMA, ColumnSpec, Descriptor
from trnfleet.wire.telemetry import MAX_SEQ, Head
from trnfleet.wire.values import LATEST_NS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray


_MOST_TEMPLATES = 64
_LARGEST_FIXED = 8_192
"""Most bytes besides the values in a cached structure; ours has about 700."""
_U64 = struct.Struct(">BQ")
_LATEST = LATEST_NS.to_bytes(8, "big")
"""Big-endian numbers compare as their bytes do."""
_KEYS = {Scope.CHIP: "chip", Scope.INSTANCE: "instance"}


def _map_head(entries: int) -> bytes:
    """Return the head of a CBOR map of up to 65,535 entries.

    Its width depends only on the count.
    """
    if entries < 24:
        return bytes([0xA0 | entries])
    return bytes([0xB8, entries]) if entries < 256 else b"\xb9" + entries.to_bytes(2, "big")


def _array_head(metric: Metric, rows: int) -> bytes:
    """Return key, tag and byte string head of a metric's array."""
    return (
        cbor2.dumps(metric.name)
        + bytes([0xD8, ARRAY_TAGS[metric.dtype], 0x5A])
        + (rows * metric.bytes_per_row).to_bytes(4, "big")
    )


class FrameEncoder:
    """Encoder of the frames of one topic; constant parts are built once."""

    def __init__(
        self,
        path: str,
        boot: str,
        *,
        revision: int,
        columns: Mapping[str, NDArray[Any]],
        chips: slice,
        instances: slice,
    ) -> None:
        """Bind to columns and to the rows of the path.

        The simulator rewrites the columns in place each tick. Metrics without a column are left
        out.
        """
        self._head = b"".join(
            (
                _map_head(8),
                cbor2.dumps("v"),
                cbor2.dumps(SCHEMA),
                cbor2.dumps("path"),
                cbor2.dumps(path),
                cbor2.dumps("boot"),
                cbor2.dumps(boot),
                cbor2.dumps("rev"),
                cbor2.dumps(revision),
                cbor2.dumps("seq"),
            )
        )
        self._ts_key = cbor2.dumps("ts")
        self._parts: list[bytes | memoryview] = [self._head, b"", b""]
        for key, metrics, rows in (
            ("chip", CHIP_METRICS, chips),
            ("instance", INSTANCE_METRICS, instances),
        ):
            own = [metric for metric in metrics if metric.name in columns]
            self._parts.append(cbor2.dumps(key) + _map_head(len(own)))
            for metric in own:
                column = columns[metric.name]
                self._parts.append(_array_head(metric, rows.stop - rows.start))
                size = metric.bytes_per_row
                self._parts.append(column.data.cast("B")[rows.start * size : rows.stop * size])

    def encode(self, seq: int, ts_ns: int) -> bytes:
        """Return the frame of a tick from the columns' present values."""
        parts = self._parts
        parts[1] = _U64.pack(0x1B, seq)
        parts[2] = self._ts_key + _U64.pack(0x1B, ts_ns)
        return b"".join(parts)


class Frame(NamedTuple):
    """A decoded frame; arrays are views of the payload, rows x width or rows."""

    head: Head
    path: str
    revision: int
    chip: dict[str, NDArray[Any]]
    instance: dict[str, NDArray[Any]]


class FrameColumnsError(WireError):
    """A frame's values are not as its descriptor announces; it may be another one's."""

    def __init__(self, reason: str, head: Head, path: str, revision: int) -> None:
        super().__init__(reason)
        self.head = head
        self.path = path
        self.revision = revision


class FrameDecoder:
    """Decoder of frames with the same announced columns and numbers of rows.

    It serves all topics with such descriptors. The first frame is parsed in full. Its structure
    (all bytes but the values, path, boot, seq and time) is cached as a template, and a later frame
    with the same structure is cut at the known places; any other is parsed in full again.
    """

    def __init__(self, columns: Sequence[ColumnSpec], chips: int, instances: int) -> None:
        self._rows = {Scope.CHIP: chips, Scope.INSTANCE: instances}
        self._columns = {scope: {c.name: c for c in columns if c.per is scope} for scope in Scope}
        self.templates: dict[int, FrameTemplate] = {}
        """By the size of the frame."""

    def decode(self, payload: bytes, limits: Limits = DEFAULT_LIMITS) -> Frame:
        """Return the frame's head and arrays.

        Raises:
            WireError: it is too large, not CBOR, or not as its descriptor announces.
        """
        template = self.templates.get(len(payload))
        if template is not None and template.fits(payload):
            return template.cut(payload)
        frame = self._parse(payload, limits)
        learned = FrameTemplate.learn(payload, frame)
        if learned is not None:
            if len(self.templates) >= _MOST_TEMPLATES:
                self.templates.clear()
            self.templates[len(payload)] = learned
        return frame

    def template(self, payload: bytes) -> FrameTemplate | None:
        """Return the cached template of a decoded frame; None if none fits."""
        template = self.templates.get(len(payload))
        return template if template is not None and template.fits(payload) else None

    def _parse(self, payload: bytes, limits: Limits) -> Frame:
        if len(payload) > limits.payload_bytes:
            raise WireError(
                f"frame of {len(payload)} bytes is over the limit of {limits.payload_bytes}"
            )
        data = decode_cbor(payload)
        if not isinstance(data, dict) or data.get("v") != SCHEMA:
            raise WireError(f"not a frame of schema version {SCHEMA}")
        path, boot, seq, ts_ns, revision = (
            data.get(key) for key in ("path", "boot", "seq", "ts", "rev")
        )
        if type(path) is not str or type(boot) is not str or not 0 < len(boot) <= 64:
            raise WireError("frame lacks its path or boot")
        if type(seq) is not int or type(ts_ns) is not int or type(revision) is not int:
            raise WireError("frame lacks its seq, ts or rev")
        if not (0 <= seq <= MAX_SEQ and 0 <= ts_ns <= LATEST_NS and 0 <= revision <= MAX_SEQ):
            raise WireError(
                f"frame's seq, ts or rev is out of range: {_short(seq)}, {_short(ts_ns)},"
                f" {_short(revision)}"
            )
        head = Head(boot, seq, ts_ns)
        try:
            chip = self._arrays(data.get("chip"), Scope.CHIP)
            instance = self._arrays(data.get("instance"), Scope.INSTANCE)
        except WireError as error:
            raise FrameColumnsError(str(error), head, path, revision) from None
        return Frame(head, path, revision, chip, instance)

    def _arrays(self, data: object, scope: Scope) -> dict[str, NDArray[Any]]:
        if not isinstance(data, dict):
            raise WireError(f"frame lacks its {_KEYS[scope]} arrays")
        arrays: dict[str, NDArray[Any]] = {}
        for name, value in data.items():
            column = self._columns[scope].get(name)
            if column is None:
                continue
            if (
                not isinstance(value, cbor2.CBORTag)
                or value.tag not in TYPED_ARRAYS
                or not isinstance(value.value, bytes)
            ):
                raise WireError(f"{column.name} is not a typed array")
            dtype = _dtype_of(column)
            if value.tag != ARRAY_TAGS[dtype]:
                raise WireError(
                    f"{column.name} is not of the type {column.type} that its descriptor names"
                )
            rows = self._rows[scope]
            if len(value.value) != rows * column.width * dtype.itemsize:
                raise WireError(
                    f"{column.name} has {len(value.value)} bytes, not {rows} rows of {column.width}"
                )
            array = np.frombuffer(value.value, dtype)
            arrays[column.name] = array.reshape(rows, column.width) if column.width > 1 else array
        if len(arrays) != len(self._columns[scope]):
            missing = sorted(self._columns[scope].keys() - arrays.keys())
            raise WireError(f"frame lacks {missing[0]}, which its descriptor announces")
        return arrays


class Cut(NamedTuple):
    """The place of a column's values in a frame."""

    is_chip: bool
    name: str
    dtype: np.dtype[Any]
    size: int
    """Values."""
    at: int
    shape: tuple[int, ...] | None
    """Rows and lanes; None for one lane."""


class FrameTemplate:
    """The positions of the values in frames of one structure, and the bytes between them."""

    def __init__(
        self,
        frame: Frame,
        payload: bytes,
        *,
        path_at: int,
        boot_at: int,
        seq_at: int,
        ts_at: int,
        cuts: Sequence[tuple[int, NDArray[Any], str, bool]],
    ) -> None:
        """Build from the findings of `learn`.

        Stores no view of the payload, because that would keep it alive.
        """
        is_fixed = np.ones(len(payload), np.bool_)
        for at in (seq_at, ts_at):
            is_fixed[at : at + 8] = False
        for at, array, _, _ in cuts:
            is_fixed[at : at + array.nbytes] = False
        self.path = slice(path_at, path_at + len(frame.path))
        self.boot = slice(boot_at, boot_at + len(frame.head.boot))
        """Where path and boot are."""
        is_fixed[self.path] = is_fixed[self.boot] = False
        self.revision = frame.revision
        """The descriptor's revision, equal in all frames of the structure."""
        self.size = len(payload)
        """Bytes of a frame."""
        self.is_fixed: NDArray[np.bool_] = is_fixed
        """Mask of the bytes equal in all frames of the structure."""
        self._fixed = np.flatnonzero(is_fixed)
        self._expected = np.frombuffer(payload, np.uint8)[self._fixed]
        self.seq_at = seq_at
        self.ts_at = ts_at
        """Where the 8 bytes of number and time begin."""
        self.cuts = [
            Cut(is_chip, name, array.dtype, array.size, at, array.shape if array.ndim > 1 else None)
            for at, array, name, is_chip in cuts
        ]
        """Where the values are, in the order of the frame."""

    @staticmethod
    def learn(payload: bytes, frame: Frame) -> FrameTemplate | None:
        """Return the template of a parsed frame; None for a foreign encoder's form."""
        cuts: list[tuple[int, NDArray[Any], str, bool]] = []
        # Arrays follow each other in the order in which they were parsed; searching on from the
        # last one's end keeps this quick, and from taking one array's values for the next one's
        # key.
        end = head_end = 0
        for is_chip, arrays in ((True, frame.chip), (False, frame.instance)):
            for name, array in arrays.items():
                key = (
                    cbor2.dumps(name)
                    + bytes([0xD8, ARRAY_TAGS[array.dtype], 0x5A])
                    + array.nbytes.to_bytes(4, "big")
                )
                key_at = payload.find(key, end, end + 4_096 if cuts else len(payload))
                if key_at < 0:
                    return None
                at = key_at + len(key)
                head_end = head_end or key_at
                end = at + array.nbytes
                if payload[at:end] != array.tobytes():
                    return None
                cuts.append((at, array, name, is_chip))
        seq_at = _find_number(payload[:head_end], b"\x63seq", frame.head.seq)
        ts_at = _find_number(payload[:head_end], b"\x62ts", frame.head.ts_ns)
        path = cbor2.dumps(frame.path)
        path_at = payload[:head_end].find(b"\x64path" + path)
        if path_at < 0 or not frame.path.isascii():
            return None
        path_at += 5 + len(path) - len(frame.path)
        boot_at = _find_text(payload[:head_end], b"\x64boot", frame.head.boot)
        size = sum(array.nbytes for _, array, _, _ in cuts)
        if (
            boot_at is None
            or seq_at is None
            or ts_at is None
            or len(payload) - size > _LARGEST_FIXED
        ):
            return None
        return FrameTemplate(
            frame, payload, path_at=path_at, boot_at=boot_at, seq_at=seq_at, ts_at=ts_at, cuts=cuts
        )

    def fits(self, payload: bytes) -> bool:
        """Return whether a payload differs from the learned one in its values alone."""
        if len(payload) != self.size:
            return False
        if payload[self.seq_at] > 0x7F or payload[self.ts_at : self.ts_at + 8] > _LATEST:
            return False
        if not (payload[self.boot].isascii() and payload[self.path].isascii()):
            return False
        return np.array_equal(np.frombuffer(payload, np.uint8)[self._fixed], self._expected)

    def cut(self, payload: bytes) -> Frame:
        """Return the frame of a payload accepted by `fits`."""
        seq = int.from_bytes(payload[self.seq_at : self.seq_at + 8], "big")
        ts_ns = int.from_bytes(payload[self.ts_at : self.ts_at + 8], "big")
        chip: dict[str, NDArray[Any]] = {}
        instance: dict[str, NDArray[Any]] = {}
        for is_chip, name, dtype, size, at, shape in self.cuts:
            array = np.frombuffer(payload, dtype, size, at)
            (chip if is_chip else instance)[name] = array if shape is None else array.reshape(shape)
        return Frame(
            Head(payload[self.boot].decode("ascii"), seq, ts_ns),
            payload[self.path].decode("latin-1"),
            self.revision,
            chip,
            instance,
        )


def _short(number: int) -> str:
    """Return a number from the wire as text of bounded length."""
    return str(number) if number.bit_length() <= 64 else "over 64 bits"


def _find_number(payload: bytes, key: bytes, value: int) -> int | None:
    """Return the position of the 8 bytes of a number after `key`.

    None if it is written otherwise, or twice.
    """
    pattern = key + _U64.pack(0x1B, value)
    key_at = payload.find(pattern)
    if key_at < 0 or payload.find(pattern, key_at + 1) >= 0:
        return None
    return key_at + len(key) + 1


def _find_text(payload: bytes, key: bytes, text: str) -> int | None:
    """Return the position of a text after `key`; None if written otherwise, or twice."""
    encoded = cbor2.dumps(text)
    key_at = payload.find(key + encoded)
    if key_at < 0 or not text.isascii() or payload.find(key + encoded, key_at + 1) >= 0:
        return None
    return key_at + len(key) + len(encoded) - len(text)


def is_known(column: ColumnSpec) -> bool:
    """Return whether the metric table has a column's metric, for the same scope."""
    metric = BY_NAME.get(column.name)
    return metric is not None and metric.scope is column.per


def limited(columns: Iterable[ColumnSpec]) -> tuple[tuple[ColumnSpec, int], ...]:
    """Return the known columns with codes above the limit of their metric, and its code."""
    codes = {column: round(BY_NAME[column.name].limit / column.scale) for column in columns}
    return tuple((column, most) for column, most in codes.items() if most < _top(column) - 1)


def _dtype_of(column: ColumnSpec) -> np.dtype[Any]:
    return np.dtype(WIRE_TYPES[column.type]).newbyteorder("<")


def _top(column: ColumnSpec) -> int:
    return int(np.iinfo(_dtype_of(column)).max)


def is_above(codes: NDArray[Any], most: int) -> bool:
    """Return whether any code is above a limit, except "not available"."""
    # The code after that one is 0.
    return (
        int(codes.max(initial=0)) > most
        and int((codes + codes.dtype.type(1)).max(initial=0)) > most + 1
    )


def to_store_codes(column: ColumnSpec, array: NDArray[Any]) -> NDArray[Any]:
    """Return an array of a known column's wire codes as the metric table's codes.

    The same type, scale and width pass through as they are; otherwise values are converted, and
    lanes that the publisher's type lacks are not available.
    """
    metric = BY_NAME[column.name]
    if column.type == metric.wire and column.scale == metric.scale and column.width == metric.width:
        return array
    top = np.iinfo(array.dtype).max
    values = array.astype(np.float64) * column.scale
    values[array == top] = np.nan
    rows = len(array)
    values = values.reshape(rows, column.width)
    lanes = np.full((rows, metric.width), np.nan)
    shared = min(column.width, metric.width)
    lanes[:, :shared] = values[:, :shared]
    return metric.encode(lanes if metric.is_vector else lanes[:, 0])


class Unit(NamedTuple):
    """The part of a descriptor needed to read its frames."""

    path: str
    boot: str
    revision: int
    instances: tuple[tuple[str, str], ...]
    """Path and type of each, in the order of the frames' rows."""
    chips: tuple[int, ...]
    """First chip row of each instance, and their number at the end."""
    columns: tuple[ColumnSpec, ...]
    """Those of known metrics."""
    decoder: FrameDecoder

    @staticmethod
    def of(descriptor: Descriptor) -> Unit:
        """Return the unit of a descriptor.

        Raises:
            WireError: it names an instance type that the hardware catalogue does not have.
        """
        counts = [_chips_of(instance.type) for instance in descriptor.instances]
        chips = tuple(itertools.accumulate(counts, initial=0))
        columns = tuple(column for column in descriptor.columns if is_known(column))
        return Unit(
            descriptor.path,
            descriptor.boot,
            descriptor.revision,
            tuple((instance.path, instance.type) for instance in descriptor.instances),
            chips,
            columns,
            _decoder(columns, chips[-1], len(counts)),
        )

    def decode(self, payload: bytes) -> Frame:
        """Return a frame of the unit.

        Raises:
            WireError: it is not as the descriptor announces, or of another path, boot or revision.
        """
        frame = self.decoder.decode(payload)
        if frame.path != self.path:
            raise WireError("the frame's path is not its topic's")
        if (frame.head.boot, frame.revision) != (self.boot, self.revision):
            raise WireError("a frame of another boot or revision than its descriptor's")
        return frame

    def codes(self, frame: Frame) -> dict[str, NDArray[Any]]:
        """Return a frame's values as the metric table's codes, by metric.

        A row per chip or per instance.
        """
        return {
            column.name: to_store_codes(
                column, (frame.chip if column.per is Scope.CHIP else frame.instance)[column.name]
            )
            for column in self.columns
        }


def _chips_of(instance_type: str) -> int:
    kind = INSTANCE_TYPES.get(instance_type)
    if kind is None:
        raise WireError(unknown_instance_type(instance_type))
    return kind.chips


@functools.lru_cache
def _decoder(columns: tuple[ColumnSpec, ...], chips: int, instances: int) -> FrameDecoder:
    """Return the decoder of a form of frames.

    Units share it, and its learned templates.
    """
    return FrameDecoder(columns, chips, instances)
