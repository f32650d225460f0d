"""Messages as JSON lines in the format of `mosquitto_sub -F '%j'`, and back.

A line has `tst` (time of receipt, with its zone), `topic`, `qos`, `retain` (0 or 1), `payloadlen`,
`mid` if the QoS is above 0, `properties` if there are MQTT 5 properties, and `payload`: the bytes
as a string (`%j`), or as a JSON value (`%J`); null if empty. Bytes outside UTF-8 do not survive in
the lines of mosquitto_sub. Our lines leave `payload` null then and add `payload_base64`.
"""

from __future__ import annotations

import base64
import binascii
import functools
import re
from typing import TYPE_CHECKING, Any, BinaryIO

from pydantic_core import from_json, to_json

from trnfleet.clock import NS_PER_S, format_rfc3339, parse_rfc3339
from trnfleet.errors import WireError
from trnfleet.record.format.envelopes import MAX_NS
from trnfleet.wire.ndjson import LeftOut, is_plain, read_lines, to_plain_json
from trnfleet.wire.ports import LARGEST_TWO_BYTES, Envelope, Stored

if TYPE_CHECKING:
    from collections.abc import Iterator


_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:[.,](\d{1,9})\d*)?(Z?)([+-]\d\d:?\d\d)?")
_WHOLE_FROM = 1e15
"""From here on mosquitto_sub's %J writes whole numbers with an exponent. They would be read as
fractions."""


MOST_LINE_BYTES = 8 * 2**20
"""A payload of 1 MiB fits even with every byte escaped. Longer lines are left out and counted."""


def encode_line(stored: Stored) -> bytes:
    """Return a message as a line of text with its line end, safe for terminals."""
    envelope = stored.envelope
    payload = envelope.payload
    line: dict[str, Any] = {
        "tst": _format_time(stored.time_ns),
        "topic": envelope.topic,
        "qos": envelope.qos,
        "retain": int(envelope.retain),
        "payloadlen": len(payload),
    }
    if envelope.qos:
        # Its id is not recorded; MQTT never uses 0.
        line["mid"] = 0
    if envelope.content_type is not None:
        line["properties"] = {"content-type": envelope.content_type}
    text = _text(payload)
    line["payload"] = text
    if text is None and payload:
        line["payload_base64"] = base64.b64encode(payload).decode("ascii")
    written = to_json(line)
    return (written if is_plain(written) else to_plain_json(line)) + b"\n"


def decode_line(line: bytes) -> Stored:
    """Return the message in a line.

    Raises:
        WireError: it is not JSON, lacks something, or its payload did not survive.
    """
    try:
        data = from_json(line, allow_inf_nan=False, cache_strings="keys")
    except (ValueError, RecursionError) as error:
        raise WireError(_why_not(line, error)) from error
    if not isinstance(data, dict):
        raise WireError("not a JSON object")
    topic = data.get("topic")
    qos = data.get("qos", 0)
    retain = data.get("retain", 0)
    if type(topic) is not str or not topic or not _is_topic(topic):
        raise WireError("topic is not one")
    if type(qos) is not int or not 0 <= qos <= 2:
        raise WireError("qos is not 0, 1 or 2")
    if retain not in (0, 1):
        raise WireError("retain is not 0 or 1")
    return Stored(
        _parse_time(data.get("tst")),
        Envelope(topic, _payload(data), qos, bool(retain), _content_type(data.get("properties"))),
    )


def decode_lines(stream: BinaryIO, counts: LeftOut | None = None) -> Iterator[Stored]:
    """Yield the messages of a file of lines, leaving out invalid lines.

    A time earlier than the one before is replaced by it: times in a recording never fall.

    Args:
        stream: The file.
        counts: Counts messages and left-out lines, with number and reason of the first of these.
    """
    counts = counts if counts is not None else LeftOut()
    latest_ns = 0
    for number, line in read_lines(stream, MOST_LINE_BYTES):
        try:
            stored = _decoded(line)
        except WireError as error:
            counts.add(f"line {number}", str(error))
            continue
        latest_ns = max(latest_ns, stored.time_ns)
        counts.taken += 1
        yield stored if stored.time_ns == latest_ns else stored._replace(time_ns=latest_ns)


def _decoded(line: bytes | None) -> Stored:
    if line is None:
        raise WireError(f"longer than {MOST_LINE_BYTES} bytes")
    if not line:
        raise WireError("empty; mosquitto_sub -F %J writes that for a payload that is not JSON")
    return decode_line(line)


def _why_not(line: bytes, error: Exception) -> str:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return (
            "not JSON: not UTF-8 text; mosquitto_sub's %j does not keep binary payloads, such as"
            " frames"
        )
    return f"not JSON: {error}"


def _text(payload: bytes) -> str | None:
    """Return a payload as text.

    None if empty, or if the text would not encode to the same bytes.
    """
    if not payload or b"\0" in payload:
        return None
    try:
        return payload.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _is_topic(topic: str) -> bool:
    return len(topic.encode("utf-8")) <= LARGEST_TWO_BYTES and not any(
        char in topic for char in "+#\0"
    )


def _payload(data: dict[str, Any]) -> bytes:
    length = data.get("payloadlen")
    if length is not None and (type(length) is not int or length < 0):
        raise WireError("payloadlen is not a number of bytes")
    if "payload_base64" in data:
        payload = _from_base64(data["payload_base64"])
    elif "payload" not in data:
        raise WireError("no payload")
    else:
        value = data["payload"]
        payload = value.encode("utf-8") if type(value) is str else b""
        if length in (None, len(payload)):
            if value is None or type(value) is str:
                return payload
            return _compact(value)
        # %J: null and strings of JSON look like %j's, but for the length.
        as_json = _compact(value)
        if length == len(as_json) or not (value is None or type(value) is str):
            return as_json
    if length is not None and length != len(payload):
        raise WireError(
            f"payload has {len(payload)} of {length} bytes: mosquitto_sub's %j keeps text alone"
        )
    return payload


def _from_base64(text: object) -> bytes:
    if type(text) is not str:
        raise WireError("payload_base64 is not a string")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise WireError(f"payload_base64: {error}") from error


def _compact(value: Any) -> bytes:
    return to_json(_whole(value), inf_nan_mode="null")


def _whole(value: Any) -> Any:
    """Return a JSON value with large whole numbers as integers again.

    mosquitto_sub writes them with an exponent.
    """
    if type(value) is float and value.is_integer() and abs(value) >= _WHOLE_FROM:
        return int(value)
    if type(value) is list:
        return [_whole(member) for member in value]
    if type(value) is dict:
        return {key: _whole(member) for key, member in value.items()}
    return value


def _content_type(properties: object) -> str | None:
    if properties is None:
        return None
    if not isinstance(properties, dict):
        raise WireError("properties are not an object")
    content_type = properties.get("content-type")
    if content_type is None or type(content_type) is str:
        return content_type
    raise WireError("content-type is not a string")


def _format_time(time_ns: int) -> str:
    """Return a time in the format of mosquitto_sub 2.0, with a zone after the Z.

    Nanoseconds are added if there are any.
    """
    seconds, rest = divmod(time_ns, NS_PER_S)
    fraction = f"{rest:09d}" if rest % 1_000 else f"{rest // 1_000:06d}"
    return f"{_moment(seconds)}.{fraction}Z+0000"


@functools.lru_cache(maxsize=8)
def _moment(seconds: int) -> str:
    return format_rfc3339(seconds * NS_PER_S)[:19]


def _parse_time(text: object) -> int:
    """Return a `tst` in ns since 1970.

    It is text with a zone, or a number of seconds from before mosquitto 2.0.
    """
    if type(text) is int or type(text) is float:
        time_ns = round(text * NS_PER_S) if 0 <= text <= MAX_NS // NS_PER_S else -1
    else:
        match = _TIME.fullmatch(text) if type(text) is str and len(text) <= 48 else None
        if match is None or not (match[3] or match[4]):
            raise WireError("tst is not a time with its zone")
        time_ns = _second(match[1], match[4] or "+0000") + int((match[2] or "0").ljust(9, "0"))
    if not 0 <= time_ns <= MAX_NS:
        raise WireError("tst is before 1970 or after 2262")
    return time_ns


@functools.lru_cache(maxsize=8)
def _second(moment: str, zone: str) -> int:
    zone = zone if ":" in zone else f"{zone[:3]}:{zone[3:]}"
    try:
        return parse_rfc3339(moment + zone)
    except (ValueError, OverflowError) as error:
        raise WireError("tst is not a time with its zone") from error
