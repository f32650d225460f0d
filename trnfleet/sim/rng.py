"""Randomness of a run: words, ids and single draws from the seed and a key.

No draw depends on an earlier one, so that chunks, shards and batches see the same values. Columns
come from a counter-based generator, keyed by stream, tick and ordinal; ids and single draws from
digests, keyed by kind and names. A unit is an instance, by its index in the whole fleet's layout.
It has the words of the fleet's largest instance type, and of at least 16 chips
(`hardware.columns.LEAST_NOISE_CHIPS`).
"""

from __future__ import annotations

import enum
import hashlib
import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_DOMAIN = int.from_bytes(b"trnfleet", "big")
"""Second word of every key; separates these draws from another program's with the same seed."""

_WORD = int(np.iinfo(np.uint64).max)
_GOLDEN = 0x9E3779B97F4A7C15
"""SplitMix64's increment."""
_BLOCK_BYTES = 32
"""Philox4x64 makes four words of eight bytes at a counter."""


class Stream(enum.IntEnum):
    """Uses of random words.

    The numbers are part of a seed's meaning: never change them or reuse one of an earlier version.
    """

    NC_UTIL = 1
    ENGINE_UTIL = 2
    LINK = 7
    HOST = 8
    MEM_ECC = 9
    SRAM_ECC = 10
    THERMAL_OFFSET = 11
    JOB_START = 12
    LOAD_MINUTE = 13
    WEAR = 16
    FAULT_TARGET = 17
    REQUESTS = 30
    ROUTER = 31
    REPLICA_START = 32
    CYCLE = 40
    CHIP_POWER = 41
    CHIP_KNOT = 42
    CHIP_SAMPLE = 43
    HOST_KNOT = 44
    ECC_BURST = 45
    WEAKNESS = 46


class LaneReader:
    """Reads the lanes of consecutive units of one stream and tick."""

    def __init__(self, generator: np.random.Philox, bytes_per_unit: int) -> None:
        self._generator = generator
        self._bytes = bytes_per_unit

    def read(self, units: int, dtype: type[np.unsignedinteger[Any]]) -> NDArray[Any]:
        """Return the lanes of the next `units` units: shape (units, lanes).

        Uniform over the whole range of `dtype`.
        """
        words = self._generator.random_raw(units * self._bytes // 8)
        return words.view(dtype).reshape(units, self._bytes // np.dtype(dtype).itemsize)


class Rng:
    """The random numbers and tokens of one run."""

    def __init__(self, seed: int, from_s: float = 0.0) -> None:
        """Take a seed.

        Args:
            seed: Any integer.
            from_s: Simulated seconds of the first tick, before which noise does not change.
        """
        self._seed = seed
        self._from_s = from_s
        self._key = np.array([seed & _WORD, _DOMAIN], np.uint64)

    def lanes(self, stream: Stream, tick: int, bytes_per_unit: int, first: int = 0) -> LaneReader:
        """Return a reader that begins at unit `first`.

        A unit uses a whole number of 32-byte blocks.
        """
        if bytes_per_unit % _BLOCK_BYTES:
            raise ValueError(f"{bytes_per_unit} bytes a unit are not a multiple of {_BLOCK_BYTES}")
        return LaneReader(
            self._generator(stream, tick, first * (bytes_per_unit // _BLOCK_BYTES)), bytes_per_unit
        )

    def words(self, stream: Stream, index: int, count: int, part: int = 0) -> NDArray[np.uint64]:
        """Return one word for each of the first `count` ordinals.

        `part` distinguishes several draws of an index.
        """
        return self._generator(stream, index, 0, part).random_raw(count)

    def scattered(self, stream: Stream, *keys: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return a word for each row of keys, such as (job, cycle).

        For rows that are each at a position of their own.

        Args:
            stream: Of the words.
            keys: Integers, of one shape.
        """
        word = np.full(
            np.shape(keys[0]), (self._seed ^ _DOMAIN) + int(stream) * _GOLDEN & _WORD, np.uint64
        )
        for key in (np.zeros_like(keys[0]), *keys):
            word = next_word(word, key)
        return word

    def uniform(self, stream: Stream, index: int, count: int) -> NDArray[np.float64]:
        """Return one value in [0, 1) for each of the first `count` ordinals."""
        return (self.words(stream, index, count) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def smooth(self, stream: Stream, at_s: float, knot_s: float, count: int) -> NDArray[np.float64]:
        """Return value noise in [-1, 1) at time `at_s`.

        Random knots every `knot_s` seconds are joined smoothly.

        Args:
            stream: Of the knots.
            at_s: Simulated seconds since the start; before the first tick its value holds.
            knot_s: Distance of the knots.
            count: Ordinals, such as jobs, each with a noise of its own.
        """
        knot, blend = knot_of(max(self._from_s, at_s), knot_s)
        before = self.uniform(stream, knot, count)
        after = self.uniform(stream, knot + 1, count)
        return (before + (after - before) * blend) * 2.0 - 1.0

    def token(self, kind: str, *parts: object) -> str:
        """Return 16 hexadecimal digits for a kind of id and its names."""
        return _digest(kind, self._seed, *parts)

    def boot(self) -> str:
        """Return the boot id of a run that repeats bit by bit: 16 hexadecimal digits."""
        return self.token("boot")

    def chance(self, kind: str, *parts: object) -> float:
        """Return a uniform value in [0, 1) for one event.

        It depends only on the arguments and the seed.
        """
        word = hashlib.blake2b(_key(self._seed, kind, *parts), digest_size=8).digest()
        return (int.from_bytes(word, "little") >> 11) * 2.0**-53

    def _generator(self, stream: Stream, index: int, block: int, part: int = 0) -> np.random.Philox:
        counter = np.array([block, int(stream), index & _WORD, part], np.uint64)
        return np.random.Philox(key=self._key, counter=counter)


def knot_of(at_s: float, knot_s: float) -> tuple[int, float]:
    """Return the last knot before a time and the smoothed fraction to the next.

    Args:
        at_s: Simulated seconds since the start.
        knot_s: Distance of the knots; number 0 is at the start.
    """
    place = at_s / knot_s
    knot = math.floor(place)
    rest = place - knot
    return knot, rest * rest * (3.0 - 2.0 * rest)


def next_word(word: NDArray[np.uint64], key: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the successors of words, with one key each.

    SplitMix64's step, in integers that wrap around.
    """
    mixed = word + (key.astype(np.uint64) + np.uint64(1)) * np.uint64(_GOLDEN)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    result: NDArray[np.uint64] = mixed ^ (mixed >> np.uint64(31))
    return result


def share_of(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return words as values in [0, 1)."""
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def bell(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return words as nearly normal values: mean 0, standard deviation 1, within +-3.47."""
    field = np.uint64(0xFFFF)
    total = (words & field) + (words >> np.uint64(48))
    total += (words >> np.uint64(16) & field) + (words >> np.uint64(32) & field)
    values: NDArray[np.float64] = (total.astype(np.float64) - 2.0 * 65_535.0) * (
        3.0**0.5 / 65_536.0
    )
    return values


def part_of(name: str) -> int:
    """Return the part of a stream for a name, independent of other names."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")


def boot_after(boot: str, path: str, boots: int) -> str:
    """Return the boot id of an instance after `boots` boots.

    `boot` is its id at the start of the simulator.
    """
    return _digest(boot, path, boots) if boots else boot


def _digest(*parts: object) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of some parts."""
    return hashlib.sha256(_key(*parts)).hexdigest()[:16]


def _key(*parts: object) -> bytes:
    return ":".join(map(str, parts)).encode()
