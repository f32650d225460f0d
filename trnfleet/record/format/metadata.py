"""The metadata record `trnfleet` at the beginning of every file."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import trnfleet
from trnfleet.domain.address import is_segment
from trnfleet.record.format.schema import SCHEMA_OF_OWN
from trnfleet.wire.topics import DEFAULT_ROOT, is_root

if TYPE_CHECKING:
    from collections.abc import Mapping

PROFILE = "trnfleet"
"""Profile of the files, and name of their metadata record."""
LIBRARY = "trnfleet"


@dataclass(frozen=True, slots=True)
class About:
    """Origin of a recording: fleet, seed, program and schema."""

    id: str = ""
    """The same in all parts of a recording; the caller gives it."""
    part: int = 1
    fleets: tuple[str, ...] = ()
    """Names of the fleets, as far as they were known at the begin."""
    root: str = DEFAULT_ROOT
    """Root of the topics."""
    version: str = trnfleet.__version__
    """Version of trnfleet at the time of recording."""
    schema: str = SCHEMA_OF_OWN
    broker: str = ""
    """Address of the broker, without user and password."""
    filters: tuple[str, ...] = ()
    """Subscribed topic filters."""
    started: str = ""
    """Begin of the recording, RFC 3339."""
    seed: int | None = None
    """Seed of the simulation, where it is known."""
    note: str = ""

    def with_part(self, part: int) -> About:
        """Return the same for another part."""
        return dataclasses.replace(self, part=part)

    def to_metadata(self) -> dict[str, str]:
        """Return it as MCAP metadata: texts by name; lists are JSON."""
        result = {
            "schema": self.schema,
            "id": self.id,
            "part": str(self.part),
            "fleets": json.dumps(self.fleets),
            "root": self.root,
            "version": self.version,
            "broker": self.broker,
            "filters": json.dumps(self.filters),
            "started": self.started,
            "note": self.note,
        }
        if self.seed is not None:
            result["seed"] = str(self.seed)
        return result

    @classmethod
    def from_metadata(cls, data: Mapping[str, str]) -> About:
        """Return a file's metadata; missing and malformed values take their defaults."""
        texts = {
            name: data[name]
            for name in ("schema", "id", "root", "version", "broker", "started", "note")
            if name in data
        }
        part = _number(data.get("part", ""))
        if not is_root(texts.get("root", "")):
            texts.pop("root", None)
        return cls(
            part=1 if part is None else part,
            fleets=tuple(name for name in _names(data.get("fleets", "")) if is_segment(name)),
            filters=_names(data.get("filters", "")),
            seed=_number(data.get("seed", "")),
            **{"version": "", **texts},
        )


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 40 else None


def _names(text: str) -> tuple[str, ...]:
    """Return the texts of a JSON list."""
    try:
        names = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    if not isinstance(names, list):
        return ()
    return tuple(name for name in names if isinstance(name, str))
