"""Addresses in a fleet: `cluster/ultraserver/instance/chipNN/ncN`, or the first segments of it.

The UltraServer segment of an instance outside an UltraServer is `standalone`: a segment, not an
UltraServer.
"""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.text import plain

if TYPE_CHECKING:
    from collections.abc import Mapping

STANDALONE = "standalone"

SEGMENT = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SEGMENTS = re.compile(rf"{SEGMENT.pattern}(?:/{SEGMENT.pattern})*")
_CHIP = re.compile(r"chip(\d{2,3})")
_CORE = re.compile(r"nc(\d{1,2})")


class Level(enum.IntEnum):
    """The levels of the hierarchy, by an address's number of segments."""

    FLEET = 0
    CLUSTER = enum.auto()
    ULTRASERVER = enum.auto()
    INSTANCE = enum.auto()
    CHIP = enum.auto()
    CORE = enum.auto()


LEVEL_NAMES = {
    Level.FLEET: "fleet",
    Level.CLUSTER: "UltraCluster",
    Level.ULTRASERVER: "UltraServer",
    Level.INSTANCE: "instance",
    Level.CHIP: "chip",
    Level.CORE: "NeuronCore",
}


def is_segment(text: str) -> bool:
    """Return whether `text` is valid between two slashes of an address or a topic."""
    return SEGMENT.fullmatch(text) is not None


def to_segment(name: str) -> str:
    """Return a name for people as a segment, other characters replaced by `-`."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", name)[:64]


def are_segments(text: str) -> bool:
    """Return whether `text` is one segment or more with slashes between them."""
    return _SEGMENTS.fullmatch(text) is not None


def format_chip(number: int) -> str:
    """Return the segment of chip `number` (0-based within its instance), such as `chip05`."""
    return f"chip{number:02d}"


def parse_chip(segment: str) -> int | None:
    """Return the chip's number, or None where the segment is no chip's."""
    match = _CHIP.fullmatch(segment)
    return int(match[1]) if match else None


def format_core(number: int) -> str:
    """Return the segment of physical NeuronCore `number` of a chip, such as `nc3`."""
    return f"nc{number}"


def parse_core(segment: str) -> int | None:
    """Return the physical NeuronCore's number, or None where the segment is no core's."""
    match = _CORE.fullmatch(segment)
    return int(match[1]) if match else None


def split(address: str) -> tuple[str, ...]:
    """Return the segments of an address; the empty address is the fleet's own.

    Raises:
        ValueError: a segment has characters that no segment may have, or there are more than five.
    """
    if not address:
        return ()
    segments = tuple(address.split("/"))
    if len(segments) > Level.CORE:
        raise ValueError(
            f"address {address!r} has {len(segments)} segments; the deepest has {int(Level.CORE)}"
        )
    for segment in segments:
        if not is_segment(segment):
            raise ValueError(
                f"address {address!r}: segment {segment!r} does not match [A-Za-z0-9_-] with 1 to"
                " 64 characters",
            )
    return segments


def level_of(address: str) -> Level:
    """Return the level of an address, from its number of segments."""
    return Level(address.count("/") + 1 if address else 0)


def sort_key(address: str) -> str:
    """Return the sort key of an address.

    Segments are compared one by one: the separator sorts below any character.
    """
    return address.replace("/", "\0")


def parent(address: str) -> str:
    """Return the address one level up; the fleet's own for a cluster's."""
    return address.rpartition("/")[0]


class Names(NamedTuple):
    """Display names of instances by address and of jobs by segment, as their publishers sent them.

    Texts for people come from here, fit for the screen. Segments stay the identity, and follow a
    name that several instances have, such as one of an Auto Scaling group.
    """

    instances: Mapping[str, str]
    jobs: Mapping[str, str]
    uses: Mapping[str, int]
    """Instances with the same name, by name."""

    def job(self, segment: str) -> str:
        """Return the text shown for a job."""
        return plain(self.jobs.get(segment, segment))

    def segment(self, address: str) -> str:
        """Return the text shown for the last segment of an address."""
        segment = address.rpartition("/")[2]
        name = self.instances.get(address)
        if not name:
            return plain(segment)
        return plain(name if self.uses.get(name, 1) < 2 else f"{name} {segment}")

    def address(self, address: str) -> str:
        """Return an address with the display name of its instance.

        What follows the instance stays: a chip, a lane, or words after a space.
        """
        if not self.instances:
            return address
        place, space, words = address.partition(" ")
        segments = place.split("/")
        instance = "/".join(segments[: Level.INSTANCE])
        if instance not in self.instances:
            return address
        segments[Level.INSTANCE - 1] = self.segment(instance)
        return "/".join(segments) + space + words


NO_NAMES = Names({}, {}, {})
