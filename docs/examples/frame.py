"""Build one CBOR frame: the same host as a single message, with a typed array for each metric."""

import struct

import cbor2

COLUMNS = [
    {"name": "nc_util_pct", "per": "chip", "type": "u8", "scale": 0.5, "width": 8},
    {"name": "power_w", "per": "chip", "type": "u16", "scale": 0.1, "width": 1},
    {"name": "host_power_w", "per": "instance", "type": "u16", "scale": 1.0, "width": 1},
]  # as the descriptor has them
TAGS = {"u8": 64, "u16": 69, "u32": 70, "u64": 71}  # RFC 8746: unsigned, little-endian
FORMATS = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q"}


def typed_array(column: dict[str, object], values: list[float | None]) -> cbor2.CBORTag:
    """Return value / scale as raw integers; the largest means not available."""
    kind, scale = str(column["type"]), float(str(column["scale"]))
    missing = 256 ** struct.calcsize(FORMATS[kind]) - 1
    raw = [missing if value is None else round(value / scale) for value in values]
    return cbor2.CBORTag(TAGS[kind], struct.pack(f"<{len(raw)}{FORMATS[kind]}", *raw))


def frame(
    path: str, boot: str, seq: int, ts_ns: int, values: dict[str, list[float | None]]
) -> bytes:
    """Return the payload for `telemetry/{path}`: rows as in the descriptor, lanes side by side."""
    arrays: dict[str, dict[str, cbor2.CBORTag]] = {"chip": {}, "instance": {}}
    for column in COLUMNS:
        arrays[str(column["per"])][str(column["name"])] = typed_array(
            column, values[str(column["name"])]
        )
    head = {"v": 1, "path": path, "boot": boot, "rev": 0, "seq": seq, "ts": ts_ns}
    return cbor2.dumps(head | arrays)
