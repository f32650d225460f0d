"""Unusable values and names in telemetry, by publisher and key.

Each has the last message with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnfleet import logs

if TYPE_CHECKING:
    from trnfleet.monitor.pipeline.counts import PipelineCounts
    from trnfleet.wire.telemetry import Doubt

log = logs.get_logger(__name__)

MOST_KEYS = 256
"""Most keys of publishers with their own entry. Beyond it, the ones not seen for longest are
forgotten, and only their counts stay."""


class KeyDoubt(NamedTuple):
    """A key of a publisher."""

    publisher: str
    key: str
    is_unknown: bool
    """Whether no metric has this name; else its values could not be ones."""
    text: str
    """The key with its last fault, and the limit or the nearest metric."""
    path: str
    """Address of the last message."""
    at_s: float
    """Monotonic seconds of its arrival."""
    times: int
    """How often, lane by lane."""


class TelemetryDoubts:
    """All of one monitor."""

    def __init__(self) -> None:
        self._by_key: dict[tuple[str, str], KeyDoubt] = {}

    def note(
        self, publisher: str, path: str, doubt: Doubt, now_s: float, counts: PipelineCounts
    ) -> None:
        """Count an unusable key.

        Log it if it is the publisher's first.
        """
        is_unknown = not doubt.reason
        if is_unknown:
            counts.unknown_keys += 1
        else:
            counts.unusable += 1
        known = self._by_key.pop((publisher, doubt.key), None)
        if known is None:
            log.warning("telemetry_not_usable", publisher=publisher, path=path, what=doubt.text)
        text = known.text if known is not None and known.is_unknown and is_unknown else doubt.text
        times = 1 if known is None else known.times + 1
        self._by_key[publisher, doubt.key] = KeyDoubt(
            publisher, doubt.key, is_unknown, text, path, now_s, times
        )
        if len(self._by_key) > MOST_KEYS:
            del self._by_key[next(iter(self._by_key))]

    def newest_first(self) -> tuple[KeyDoubt, ...]:
        """Return them, latest first."""
        return tuple(reversed(self._by_key.values()))
