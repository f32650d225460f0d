"""Synchronise silences with an Alertmanager: what to write, import, and end.

A silence passed on is found again by the end of its comment, `[trnfleet FLEET KIND NAME REVISION]`,
by every watch and after every restart. Nothing here reads a clock; times are wall-clock times.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

from trnfleet.clock import NS_PER_S
from trnfleet.domain.alerts.matchers import Matcher, parse_matchers
from trnfleet.errors import ConfigError
from trnfleet.export.alertmanager_silences import AlertmanagerSilence, SilenceDraft
from trnfleet.text import LONGEST, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence


MOST_TAKEN = 200
"""Most silences of Alertmanager shown here; each is matched with every alert."""
TOLERANCE_NS = 2 * NS_PER_S
TOLERANCE_SHARE = 0.01
"""Largest difference of two ends caused by conversion. Absolutely and as a share of the rest; it is
not a change: the fleet's time is known to some tenths of a second, and its speed to less than a
percent."""
LEAST_LEFT_NS = NS_PER_S
"""Shortest remaining time worth a silence; Alertmanager refuses past ends."""
PREFIX = "alertmanager-"
"""Prefix of the local id of a silence created there."""
_MARK = re.compile(
    r"\[trnfleet ([A-Za-z0-9_-]{1,64}) (silence|ack) ([A-Za-z0-9_-]{1,64}) (\d{1,16})\]\s*$"
)


class SilenceKey(NamedTuple):
    """A silence or an acknowledgement of ours."""

    kind: Literal["silence", "ack"]
    name: str
    """Id of a silence, fingerprint of an acknowledged alert."""


class OwnSilence(NamedTuple):
    """A silence or an acknowledgement of ours, as Alertmanager is to have it."""

    revision: int
    matchers: tuple[Matcher, ...]
    starts_ns: int
    ends_ns: int
    who: str
    why: str


class SilencePlan(NamedTuple):
    """Changes of one Alertmanager's silences, and of ours because of it."""

    write: list[tuple[SilenceDraft, str]]
    """Silences to write, each with the id of the one it replaces."""
    expire: list[str]
    """Ids of silences to end there."""
    ended_there: list[SilenceKey]
    """Ours that somebody has ended there."""


class TakenSilence(NamedTuple):
    """A silence created there, as shown here."""

    id: str
    """With `PREFIX`."""
    matchers: tuple[str, ...]
    starts_ns: int
    ends_ns: int
    who: str
    why: str
    not_applied: str
    """Reason why it hides nothing here; empty where it does."""


def comment_of(fleet: str, key: SilenceKey, own: OwnSilence) -> str:
    """Return the comment of a silence passed on."""
    return f"{own.why[:LONGEST]} [trnfleet {fleet} {key.kind} {key.name} {own.revision}]".lstrip()


def plan(
    fleet: str,
    ours: Mapping[SilenceKey, OwnSilence],
    theirs: Iterable[AlertmanagerSilence],
    is_over: Callable[[SilenceKey], bool],
    wall_ns: int,
) -> SilencePlan:
    """Return the changes that make an Alertmanager's silences equal ours.

    Args:
        fleet: The fleet's name.
        ours: Silences Alertmanager should have.
        theirs: Silences it has, recently expired ones included.
        is_over: Returns whether a silence missing in `ours` is known to be over.
        wall_ns: The wall clock.
    """
    copies: dict[SilenceKey, list[tuple[AlertmanagerSilence, int]]] = {}
    for silence in theirs:
        mark = _mark(fleet, silence)
        if mark is not None:
            copies.setdefault(mark[0], []).append((silence, mark[1]))
    made = SilencePlan([], [], [])
    for key, own in ours.items():
        alive = [copy for copy in copies.get(key, []) if not copy[0].is_expired]
        alive.sort(key=lambda copy: copy[0].id)
        if alive:
            # Two watches, or two members of a cluster, may have written at the same time: all keep
            # the same one.
            chosen, revision = next(
                (copy for copy in alive if _is_same(*copy, own, wall_ns)), alive[0]
            )
            made.expire.extend(copy.id for copy, _ in alive if copy.id != chosen.id)
            if not _is_same(chosen, revision, own, wall_ns):
                made.write.append((_draft(fleet, key, own, chosen.starts_ns), chosen.id))
        elif _was_ended(copies.get(key, []), own):
            made.ended_there.append(key)
        elif own.ends_ns - wall_ns >= LEAST_LEFT_NS:
            made.write.append((_draft(fleet, key, own, own.starts_ns), ""))
    for key, found_copies in copies.items():
        if key not in ours and is_over(key):
            made.expire.extend(copy.id for copy, _ in found_copies if not copy.is_expired)
    return made


def import_silences(
    fleet: str, theirs: Iterable[AlertmanagerSilence], labels: Collection[str]
) -> dict[str, TakenSilence]:
    """Return the silences created there that may concern this fleet, by local id.

    Args:
        fleet: The fleet's name.
        theirs: All silences of Alertmanager.
        labels: Names of the labels that alerts here can have.
    """
    silences: dict[str, TakenSilence] = {}
    for silence in theirs:
        if (
            silence.is_expired
            or _mark(fleet, silence) is not None
            or _is_elsewhere(fleet, silence.matchers)
        ):
            continue
        if len(silences) >= MOST_TAKEN:
            break
        texts, why_not = _translate(silence.matchers, labels)
        silence_id = PREFIX + silence.id
        silences[silence_id] = TakenSilence(
            silence_id,
            texts or (f'not_applied="{silence.id}"',),
            silence.starts_ns,
            silence.ends_ns,
            plain(silence.who, 64).strip() or "unknown",
            plain(silence.comment, LONGEST),
            why_not,
        )
    return silences


def differs(one_ns: int, other_ns: int, now_ns: int, *, scale: float = 1.0) -> bool:
    """Return whether two instants differ by more than clock conversion explains.

    `scale` is the clock's seconds per second.
    """
    return abs(one_ns - other_ns) > TOLERANCE_NS * scale + TOLERANCE_SHARE * abs(other_ns - now_ns)


def _mark(fleet: str, silence: AlertmanagerSilence) -> tuple[SilenceKey, int] | None:
    """Return the original and revision of a copied silence; None if created there."""
    match = _MARK.search(silence.comment)
    if match is None or match[1] != fleet:
        return None
    return SilenceKey("ack" if match[2] == "ack" else "silence", match[3]), int(match[4])


def _is_same(copy: AlertmanagerSilence, revision: int, own: OwnSilence, wall_ns: int) -> bool:
    return (
        revision == own.revision
        and set(copy.matchers) == set(own.matchers)
        and not differs(copy.ends_ns, own.ends_ns, wall_ns)
        # Alertmanager moves a beginning that is over to now.
        and (own.starts_ns <= wall_ns or not differs(copy.starts_ns, own.starts_ns, wall_ns))
    )


def _was_ended(copies: Sequence[tuple[AlertmanagerSilence, int]], own: OwnSilence) -> bool:
    """Return whether somebody has ended the last copy of this revision."""
    last = max(
        (copy for copy, revision in copies if revision == own.revision),
        key=lambda silence: silence.ends_ns,
        default=None,
    )
    return last is not None and last.was_ended


def _draft(fleet: str, key: SilenceKey, own: OwnSilence, starts_ns: int) -> SilenceDraft:
    begins_ns = min(max(starts_ns, own.starts_ns), own.ends_ns - LEAST_LEFT_NS)
    return SilenceDraft(own.matchers, begins_ns, own.ends_ns, own.who, comment_of(fleet, key, own))


def _is_elsewhere(fleet: str, matchers: Iterable[Matcher]) -> bool:
    """Return whether matchers restrict a silence to other fleets."""
    for matcher in matchers:
        if matcher.label == "fleet":
            try:
                if not Matcher.parse(str(matcher)).matches({"fleet": fleet}):
                    return True
            except ConfigError:
                continue
    return False


def _translate(matchers: Sequence[Matcher], labels: Collection[str]) -> tuple[tuple[str, ...], str]:
    """Return matchers in our syntax, and why they hide nothing here; empty if untranslatable."""
    texts = tuple(str(matcher) for matcher in matchers)
    unknown = ""
    for text in texts:
        if plain(text, len(text)) != text:
            return (), f"matcher {plain(text, 80)}: characters that do not show"
        try:
            parsed = Matcher.parse(text)
        except ConfigError as error:
            return (), plain(str(error), 400)
        if parsed.label not in labels and not parsed.matches({}):
            unknown = unknown or f"no alert here has the label {parsed.label}"
    try:
        parse_matchers(texts)
    except ConfigError as error:
        return (), plain(str(error), 400)
    return texts, unknown
