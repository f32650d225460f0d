"""Silences of an Alertmanager, by its API v2: list, write and expire.

Listings are bounded in bytes and in number; unreadable entries are counted and skipped.
Alertmanager compares times with its own clock: if it differs from ours, times read are converted to
ours, and times written to Alertmanager's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from trnfleet.clock import Clock, format_rfc3339, parse_rfc3339
from trnfleet.domain.alerts.matchers import Matcher
from trnfleet.export.http import Answer, HttpTarget, RequestOutcome, make_client, request_json
from trnfleet.export.other_clock import OtherClock

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    import httpx


MOST = 2_000
"""Most silences considered, unexpired ones first. Alertmanager lists expired ones for five days."""
_ID = re.compile(r"[A-Za-z0-9_-]{1,50}")


class AlertmanagerSilence(NamedTuple):
    """A silence as Alertmanager has it. Times are our wall clock's."""

    id: str
    matchers: tuple[Matcher, ...]
    """Matchers as written there, including kinds invalid in our silences."""
    starts_ns: int
    ends_ns: int
    updated_ns: int
    is_expired: bool
    who: str
    comment: str

    @property
    def was_ended(self) -> bool:
        """Whether somebody has expired it, and its time was not simply over."""
        # Alertmanager writes both with one reading of its clock.
        return self.is_expired and self.ends_ns <= self.updated_ns


class Listing(NamedTuple):
    """The silences of an Alertmanager."""

    silences: tuple[AlertmanagerSilence, ...]
    invalid: int = 0
    """Entries that could not be read."""
    left_out: int = 0
    """Silences beyond `MOST`."""
    why: str = ""
    """Reason why there are none; empty where they could be listed."""


class SilenceDraft(NamedTuple):
    """A silence to write there. Times are our wall clock's."""

    matchers: tuple[Matcher, ...]
    starts_ns: int
    ends_ns: int
    who: str
    comment: str


class AlertmanagerSilences:
    """Silences of one Alertmanager; an asynchronous context with its connections."""

    def __init__(
        self,
        name: str,
        target: HttpTarget,
        clock: Clock,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Describe it; it connects with the first request.

        Args:
            name: Name of the receiver, such as `alertmanager`.
            target: Alertmanager's own URL.
            clock: The clock.
            transport: For tests: replaces the network.
        """
        self.name = name
        self.target = target
        self._url = target.url.rstrip("/") + "/api/v2"
        self._clock = clock
        self._there = OtherClock(clock)
        self._client = make_client(target, transport)

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._client.__aexit__(kind, error, trace)

    async def list(self) -> Listing:
        """Return the silences, including recently expired ones."""
        answer = await request_json(
            self._client, "GET", f"{self._url}/silences", self._clock, is_read=True
        )
        if answer.outcome is not RequestOutcome.DONE:
            return Listing((), why=answer.why)
        if not isinstance(answer.content, list):
            return Listing((), why="the answer is not a list of silences")
        self._there.learn(answer.date_ns)
        return read_listing(answer.content, -self._there.ahead_ns)

    async def write(self, draft: SilenceDraft, replaced: str = "") -> Answer:
        """Write a silence; where `replaced` is the id of one, in its place."""
        ahead_ns = self._there.ahead_ns
        content: dict[str, Any] = {
            "matchers": [
                {
                    "name": matcher.label,
                    "value": matcher.value,
                    "isRegex": matcher.operator.endswith("~"),
                    "isEqual": matcher.operator.startswith("="),
                }
                for matcher in draft.matchers
            ],
            "startsAt": format_rfc3339(draft.starts_ns + ahead_ns),
            "endsAt": format_rfc3339(draft.ends_ns + ahead_ns),
            "createdBy": draft.who,
            "comment": draft.comment,
        }
        if replaced:
            content["id"] = replaced
        return await request_json(
            self._client, "POST", f"{self._url}/silences", self._clock, content
        )

    async def expire(self, silence_id: str) -> Answer:
        """End a silence."""
        return await request_json(
            self._client, "DELETE", f"{self._url}/silence/{silence_id}", self._clock
        )


def read_listing(content: Sequence[Any], shift_ns: int = 0) -> Listing:
    """Return the silences of an answer: unexpired ones first, then the last to end.

    Args:
        content: The entries.
        shift_ns: Added to their times for our clock.
    """
    silences = []
    invalid = 0
    for value in content:
        try:
            silences.append(_read(value, shift_ns))
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            invalid += 1
    silences.sort(
        key=lambda silence: (
            silence.is_expired,
            -silence.ends_ns if silence.is_expired else silence.starts_ns,
            silence.id,
        )
    )
    return Listing(tuple(silences[:MOST]), invalid, max(0, len(silences) - MOST))


def _read(entry: Any, shift_ns: int) -> AlertmanagerSilence:
    """Return a silence of an answer.

    Raises:
        AttributeError, KeyError, TypeError, ValueError, OverflowError: it is invalid.
    """
    matchers = entry["matchers"]
    if not isinstance(matchers, list) or not matchers:
        raise ValueError("matchers")
    if not _ID.fullmatch(entry["id"]):
        raise ValueError("id")
    ends_ns = parse_rfc3339(entry["endsAt"]) + shift_ns
    return AlertmanagerSilence(
        entry["id"],
        tuple(_read_matcher(matcher) for matcher in matchers),
        parse_rfc3339(entry["startsAt"]) + shift_ns,
        ends_ns,
        parse_rfc3339(entry["updatedAt"]) + shift_ns if "updatedAt" in entry else 0,
        entry["status"]["state"] == "expired",
        _text(entry.get("createdBy", "")),
        _text(entry.get("comment", "")),
    )


def _read_matcher(entry: Any) -> Matcher:
    # Alertmanager before 0.22 knows no negative matchers, and leaves the key out.
    operator = ("=" if entry.get("isEqual", True) else "!") + ("~" if entry["isRegex"] else "=")
    return Matcher(
        _text(entry["name"]), "=" if operator == "==" else operator, _text(entry["value"])
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value
