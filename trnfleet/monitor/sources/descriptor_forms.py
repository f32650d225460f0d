"""Descriptors that differ in names alone, read without the model: a host's is as that of all others but for path, publisher, boot, revision, epoch and EC2 id.

A form is learned from a descriptor that the model has read, and is kept only if the model, given other values in these places, reads exactly
them. What has anything else in these places, or anywhere another byte, fits no form and is the model's to read or to refuse.
"""

from __future__ import annotations

import re
from typing import Generic, NamedTuple, Protocol, TypeVar

from trnfleet.clock import parse_rfc3339
from trnfleet.errors import WireError
from trnfleet.wire.messages import Descriptor, InstanceSpec, decode_message, encode_message
from trnfleet.wire.values import EARLIEST_NS, LATEST_NS

MOST_FORMS = 8
"""Forms that are kept: a fleet's agents are of a few versions."""
LEARN_EVERY = 64
"""Descriptors that fit no form from one that is learned to the next: learning takes as long as reading thirty (measured), and a publisher of
ever new forms must not make that the usual case."""
LONGEST_BYTES = 4_096
"""Largest descriptor of which a form is learned: a host's that lists all columns one by one has 2,500 bytes, or 2,800 with spaces. Of a larger one learning
would hold up what comes, 0.6 ms a KB (measured), and Python keeps the last 512 patterns, with 30 bytes for each of theirs."""
_NAME = rb"[A-Za-z0-9_-]{1,64}"
_KEYS: dict[str, bytes] = {
    "path": rb"(?P<path>" + _NAME + rb"/" + _NAME + rb"/" + _NAME + rb")",
    "publisher": rb"(?P<publisher>" + _NAME + rb")",
    "boot": rb"(?P<boot>" + _NAME + rb")",
    "revision": rb"(?P<revision>0|[1-9][0-9]{0,14})",
    "epoch": rb"(?P<epoch>[0-9T:.Z+-]{1,64})",
    "ec2_id": rb"(?P<ec2_id>[A-Za-z0-9_.:-]{0,256})",
}
"""What may stand in each place: less than the model takes, and never what it refuses, but for the epoch, which is parsed."""
_SECOND_PATH = rb"(?P=path)"


class Kept(Protocol):
    """What a form needs of a descriptor as it is kept: a `CompactDescriptor`."""

    @property
    def path(self) -> str: ...

    @property
    def instances(self) -> tuple[str, ...]: ...

    @property
    def rest(self) -> bytes: ...


K = TypeVar("K", bound=Kept)


class NamesOf(NamedTuple):
    """What a descriptor has of its own."""

    path: str
    publisher: str
    boot: str
    revision: int
    epoch_ns: int
    rest: bytes
    """The descriptor as it is kept."""


class DescriptorForm(Generic[K]):
    """The bytes that the descriptors of many hosts have in common, and the places of those that each has of its own."""

    def __init__(self, payload: bytes, places: list[_Place], rest: bytes, kept: K) -> None:
        """Use `learn`."""
        parts: list[bytes] = []
        at, has_path = 0, False
        for place in places:
            is_again = place.key == "path" and has_path
            has_path = has_path or place.key == "path"
            parts += [
                re.escape(payload[at : place.begin]),
                _SECOND_PATH if is_again else _KEYS[place.key],
            ]
            at = place.end
        self._pattern = re.compile(b"".join(parts))
        self._tail = payload[at:]
        self._ec2_at = self._pattern.groupindex.get("ec2_id", 0)
        self._rest, self._rest_keys = _blanks(
            rest, _places(rest, _varying(decode_message(rest, Descriptor)))
        )
        self.kept = kept
        """The descriptor that it was learned from."""

    @staticmethod
    def learn(payload: bytes, descriptor: Descriptor, kept: K) -> DescriptorForm[K] | None:
        """Return the form of a descriptor; None where it has more than one instance, is large, or its names stand in no place of their own.

        Args:
            payload: What came.
            descriptor: As the model read it.
            kept: As it is kept.
        """
        if (
            kept.instances != (kept.path,)
            or kept.path.count("/") != 2
            or len(payload) > LONGEST_BYTES
        ):
            return None
        try:
            form = DescriptorForm(payload, _places(payload, _varying(descriptor)), kept.rest, kept)
            return (
                form
                if form.read(payload) is not None and form._is_proven(payload, descriptor)
                else None
            )
        except (WireError, ValueError):
            return None

    def read(self, payload: bytes) -> NamesOf | None:
        """Return the names of a descriptor of this form; None for any other."""
        if not payload.endswith(self._tail):
            return None
        found = self._pattern.fullmatch(payload, 0, len(payload) - len(self._tail))
        if found is None:
            return None
        values = found.groupdict()
        try:
            epoch_ns = parse_rfc3339(values["epoch"].decode("ascii"))
        except (ValueError, OverflowError):
            return None
        if not EARLIEST_NS <= epoch_ns <= LATEST_NS:
            return None
        path, publisher, boot = (
            values[key].decode("ascii") for key in ("path", "publisher", "boot")
        )
        rest = self._rest % tuple([values[key] for key in self._rest_keys])
        return NamesOf(path, publisher, boot, int(values["revision"]), epoch_ns, rest)

    def _is_proven(self, payload: bytes, descriptor: Descriptor) -> bool:
        """Return whether the model reads other values in these places as what they are here, and all else as before."""
        other = descriptor.model_copy(
            update={
                "path": "o/t/her-1", "publisher": "other-2", "boot": "other-3", "revision": 123_454,
                "clock": descriptor.clock.model_copy(update={"epoch": "2001-02-03T04:05:06.5Z"}),
                "instances": (
                    descriptor.instances[0].model_copy(
                        update={"path": "o/t/her-1"} | ({"ec2_id": "i-5"} if self._ec2_at else {})
                    ),
                ),
            }
        )  # fmt: skip  # one value a field
        template, keys = _blanks(payload, _places(payload, _varying(descriptor)))
        values = _varying(other)
        changed = template % tuple([values[key] for key in keys])
        names = self.read(changed)
        return (
            decode_message(changed, Descriptor) == other
            and names is not None
            and names.rest == encode_message(other.model_copy(update={"columns": ()}))
        )


class DescriptorForms(Generic[K]):
    """The forms of the descriptors that have come, the one that fitted last first."""

    def __init__(self) -> None:
        self._forms: list[DescriptorForm[K]] = []
        self._misses = 0

    def find(self, payload: bytes) -> tuple[NamesOf, K] | None:
        """Return the names of a descriptor, and one of the same form as it is kept; None where it is of no form that is known."""
        for place, form in enumerate(self._forms):
            names = form.read(payload)
            if names is not None:
                if place:
                    self._forms.insert(0, self._forms.pop(place))
                return names, form.kept
        return None

    def learn(self, payload: bytes, descriptor: Descriptor, kept: K) -> None:
        """Take in a descriptor that is of no form that is known."""
        self._misses += 1
        if self._misses % LEARN_EVERY != LEARN_EVERY // 4:
            return
        form = DescriptorForm.learn(payload, descriptor, kept)
        if form is not None:
            del self._forms[MOST_FORMS - 1 :]
            self._forms.append(form)


class _Place(NamedTuple):
    """The place of a value in a message."""

    begin: int
    end: int
    key: str


def _varying(descriptor: Descriptor) -> dict[str, bytes]:
    """Return the values that forms leave open, as they are written."""
    instance: InstanceSpec = descriptor.instances[0]
    texts = {
        "path": descriptor.path,
        "publisher": descriptor.publisher,
        "boot": descriptor.boot,
        "revision": str(descriptor.revision),
        "epoch": descriptor.clock.epoch,
    }
    if instance.ec2_id is not None:
        texts["ec2_id"] = instance.ec2_id
    return {key: text.encode() for key, text in texts.items()}


def _places(payload: bytes, values: dict[str, bytes]) -> list[_Place]:
    """Return where values are written, each once behind its key, and the path twice: of the whole and of its instance.

    Raises:
        ValueError: one is written otherwise.
    """
    colon = b'": ' if b'"path": ' in payload else b'":'
    found: list[_Place] = []
    for key, value in values.items():
        quote = b"" if key == "revision" else b'"'
        before = b'"' + key.encode() + colon + quote
        token = before + value + quote
        parts = payload.split(token)
        if len(parts) != (3 if key == "path" else 2):
            raise ValueError(key)
        at = 0
        for part in parts[:-1]:
            at += len(part) + len(before)
            found.append(_Place(at, at + len(value), key))
            at += len(value) + len(quote)
    return sorted(found)


def _blanks(payload: bytes, places: list[_Place]) -> tuple[bytes, tuple[str, ...]]:
    """Return a message with blanks for `%` in place of its values, and the key of each."""
    parts: list[bytes] = []
    at = 0
    for place in places:
        parts += [payload[at : place.begin].replace(b"%", b"%%"), b"%b"]
        at = place.end
    return b"".join([*parts, payload[at:].replace(b"%", b"%%")]), tuple(
        place.key for place in places
    )
