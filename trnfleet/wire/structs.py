"""Typed structs of messages: decoding with all checks, and readable errors."""

from __future__ import annotations

import contextlib
import functools
import re
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from trnfleet.errors import WireError, nearest
from trnfleet.wire.values import Instant, instant_ns

VALUE_CHARS = 60
"""Most characters of a refused value, or of an unknown key, shown in an error."""
_STEP = re.compile(r"\.(\w+)|\[(\d+|\.\.\.)\]")
"""A step of a value's path in msgspec's form. A field, an item, or any entry of a dict."""
_OF_FIELD = re.compile(r"(\w+): (.*)")
"""Message of a struct's own check about one field."""
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_EXPECTED = re.compile(r"Expected `([a-z |]+)`(?: (.*))?")
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
_UNITS = {"str": "characters", "array": "items", "object": "entries"}

StructT = TypeVar("StructT", bound=msgspec.Struct)


class WireStruct(msgspec.Struct, frozen=True, kw_only=True):
    """Base of messages and of objects in them; unknown fields are ignored."""

    def __post_init__(self) -> None:
        """Check the instants."""
        for name in _instants(type(self)):
            value = getattr(self, name)
            if value is not None:
                try:
                    instant_ns(value)
                except ValueError as error:
                    raise ValueError(f"{name}: {error}") from None

    def as_written(self) -> object:
        """Return the encoded fields."""
        return self


class Message(WireStruct, frozen=True, kw_only=True):
    """Base of every JSON message."""

    v: Literal[1] = 1


def decode_struct(payload: bytes, model: type[StructT]) -> StructT:
    """Parse and check a message.

    Raises:
        WireError: it is not JSON, or does not fit the struct; names field, value and limit.
    """
    try:
        try:
            message: StructT = _decoder(model).decode(payload)
        except msgspec.ValidationError as error:
            raise refusal(error, msgspec.json.decode(payload), model) from None
    except (ValueError, RecursionError) as error:
        raise WireError(f"{model.__name__} is not JSON: {error}") from None
    return message


def shown(value: object) -> str:
    """Return a refused value in one line of plain text; empty for a container."""
    if isinstance(value, str):
        # Quoted before it is cut: what is escaped may be longer.
        return f", not {value[:VALUE_CHARS]!a:.{VALUE_CHARS}}"
    if value is None or isinstance(value, (bool, float)):
        return f", not {value}"
    if isinstance(value, int):
        return f", not {value}" if value.bit_length() <= 64 else ", not a number of over 64 bits"
    return ""


def refusal(error: Exception, value: Any, model: type[msgspec.Struct]) -> WireError:
    """Return the error for a message refused by msgspec, in words."""
    problem = str(error)
    # Of a key that is there twice, the one that is left is not the one that is refused.
    with contextlib.suppress(AttributeError, LookupError, TypeError):
        problem = _explain(problem, value, model)
    return WireError(f"{model.__name__} {problem}")


def _explain(problem: str, value: Any, model: type[msgspec.Struct]) -> str:
    """Return a sentence about msgspec's error: the field, the limit and the value.

    Args:
        problem: Its message, ending with the path to the value.
        value: The whole message.
        model: The struct.
    """
    words, _, way = problem.partition(" - at ")
    kind: Any = model
    names: list[str] = []
    for field, item in _STEP.findall(way):
        if field:
            names.append(field)
            kind = _hints(kind)[field]
            value = value[field]
        elif item == "...":
            key = _wrong_key(value, kind)
            names.append(_shown_key(key))
            kind = _parts(kind)[1]
            value = value[key]
        else:
            names.append(item)
            kind = _parts(kind)[0]
            value = value[int(item)]
        kind = _without_none(kind)
    if way.startswith("`key`"):
        value = _wrong_key(value, kind)
    own = _OF_FIELD.fullmatch(words)
    if own is not None:
        names.append(own[1])
        words = own[2]
        value = value.get(own[1])
    unknown = _UNKNOWN.fullmatch(words)
    if unknown is not None:
        choices = nearest(unknown[1][:VALUE_CHARS], kind.__struct_fields__)
        return f"{'.'.join([*names, _shown_key(unknown[1])])}: unknown field: {choices}"
    missing = re.fullmatch(r"Object missing required field `(\w+)`", words)
    if missing is not None:
        return f"{'.'.join([*names, missing[1]])}: is missing"
    return f"{'.'.join(names) or 'as a whole'}: {_limit(words, value, kind)}"


def _limit(words: str, value: object, kind: Any) -> str:
    """Return msgspec's message about a value in plain words, with the value."""
    if words.startswith("Invalid enum value"):
        choices = get_args(kind) or tuple(member.value for member in kind)
        if isinstance(value, str):
            return f"unknown value {value[:VALUE_CHARS]!a}: {nearest(value[:VALUE_CHARS], choices)}"
        return f"must be {', '.join(map(str, choices))}{shown(value)}"
    expected = _EXPECTED.fullmatch(words.replace("`,", "` ,"))
    if expected is None:
        return words[:1].lower() + words[1:] + shown(value)
    kinds = expected[1].split(" | ")
    limit = expected[2] or ""
    sign, _, bound = limit.removeprefix("of length ").partition(" ")
    if limit.startswith("of length"):
        size = f", not {len(value)}" if isinstance(value, (str, list, dict)) else ""
        most = "at least" if sign == ">=" else "at most"
        return f"must have {most} {bound} {_UNITS.get(kinds[0], 'items')}{size}"
    if sign in {">=", "<=", ">"}:
        most = {">=": "at least", "<=": "at most", ">": "more than"}[sign]
        return f"must be {most} {bound.removesuffix('.0')}{shown(value)}"
    if sign == "matching":
        pattern = limit.removeprefix("matching regex ").strip("'").replace(r"\\Z", "$")
        return f"must match {pattern}{shown(value)}"
    *others, last = [_KINDS.get(kind, kind) for kind in kinds if kind != "null"]
    return f"must be {' or '.join(filter(None, [', '.join(others), last]))}{shown(value)}"


def _shown_key(key: str) -> str:
    """Return a key in plain text, quoted unless it is an identifier."""
    key = key[:VALUE_CHARS]
    return key if key.isascii() and key.isidentifier() else ascii(key)


def _wrong_key(entries: dict[str, Any], kind: Any) -> str:
    """Return the key of the first entry not matching a dict's type."""
    for key, entry in entries.items():
        try:
            msgspec.convert({key: entry}, kind)
        except msgspec.ValidationError:
            return key
    return ""


def _parts(kind: Any) -> tuple[Any, ...]:
    """Return the types of a tuple's or a dict's members."""
    return get_args(get_args(kind)[0] if get_origin(kind) is Annotated else kind)


def _without_none(kind: Any) -> Any:
    """Return a field's type without null."""
    if get_origin(kind) in {Union, UnionType}:
        return next(option for option in get_args(kind) if option is not type(None))
    return kind


@functools.cache
def _hints(model: type[msgspec.Struct]) -> dict[str, Any]:
    return get_type_hints(model, include_extras=True)


@functools.cache
def _instants(model: type[msgspec.Struct]) -> tuple[str, ...]:
    """Return the fields with a time."""
    return tuple(name for name, kind in _hints(model).items() if Instant in {kind, *get_args(kind)})


@functools.cache
def _decoder(model: type[StructT]) -> msgspec.json.Decoder[StructT]:
    return msgspec.json.Decoder(model)
