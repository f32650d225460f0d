"""Silences here and in an Alertmanager: what to write there, what to take from there, and what was ended on either side.

A silence that was passed on is found again by the end of its comment, `[trnfleet FLEET KIND NAME REVISION]`, by every watch and after
every restart. Nothing here reads a clock; times are the wall clock's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

from trnfleet.clock import NS_PER_S
from trnfleet.domain.alerts.matchers import LONGEST, Matcher, parse_matchers
from trnfleet.errors import ConfigError
from trnfleet.export.alertmanager_silences import SilenceDraft
from trnfleet.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from trnfleet.export.alertmanager_silences import AlertmanagerSilence

MOST_TAKEN = 200
"""Silences of Alertmanager that are shown here; each is matched with every alert."""
TOLERANCE_NS = 2 * NS_PER_S
TOLERANCE_SHARE = 0.01
"""Difference of two ends, absolutely and as a share of what is left, that is the conversion's and no change: the fleet's time is known to
some tenths of a second, and its speed to less than a percent."""
LEAST_LEFT_NS = NS_PER_S
"""Shortest time left that is worth a silence; Alertmanager refuses an end that is over."""
PREFIX = "alertmanager-"
"""Begin of the id, here, of a silence that was made there."""
_LONGEST_COMMENT = 1_000
_MARK = re.compile(
    r"\[trnfleet ([A-Za-z0-9_-]{1,64}) (silence|ack) ([A-Za-z0-9_-]{1,64}) (\d{1,16})\]\s*$"
)


class Key(NamedTuple):
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


class Plan(NamedTuple):
    """Changes of one Alertmanager's silences, and of ours because of it."""

    write: list[tuple[SilenceDraft, str]]
    """Silences to write, each with the id of the one that it replaces."""
    expire: list[str]
    """Ids of silences to end there."""
    ended_there: list[Key]
    """Ours that somebody has ended there."""


class TakenSilence(NamedTuple):
    """A silence that was made there, as it is shown here."""

    id: str
    """With `PREFIX`."""
    matchers: tuple[str, ...]
    starts_ns: int
    ends_ns: int
    who: str
    why: str
    not_applied: str
    """Reason why it hides nothing here; empty where it does."""


def comment_of(fleet: str, key: Key, own: OwnSilence) -> str:
    """Return the comment of a silence that is passed on."""
    return f"{own.why[:_LONGEST_COMMENT]} [trnfleet {fleet} {key.kind} {key.name} {own.revision}]".lstrip()


def plan(
    fleet: str,
    ours: Mapping[Key, OwnSilence],
    theirs: Iterable[AlertmanagerSilence],
    is_over: Callable[[Key], bool],
    wall_ns: int,
) -> Plan:
    """Return what makes an Alertmanager's silences those of here.

    Args:
        fleet: The fleet's name.
        ours: All that Alertmanager is to have.
        theirs: All that it has, also what has expired lately.
        is_over: Returns whether one that is not among `ours` is known to be over.
        wall_ns: The wall clock.
    """
    copies: dict[Key, list[tuple[AlertmanagerSilence, int]]] = {}
    for each in theirs:
        found = _mark(fleet, each)
        if found is not None:
            copies.setdefault(found[0], []).append((each, found[1]))
    made = Plan([], [], [])
    for key, own in ours.items():
        alive = sorted((each for each in copies.get(key, []) if not each[0].is_expired), key=_by_id)
        if alive:
            # Two watches, or two members of a cluster, may have written at the same time: all keep the same one.
            kept, revision = next(
                (each for each in alive if _is_same(*each, own, wall_ns)), alive[0]
            )
            made.expire.extend(each.id for each, _ in alive if each.id != kept.id)
            if not _is_same(kept, revision, own, wall_ns):
                made.write.append((_draft(fleet, key, own, kept.starts_ns), kept.id))
        elif _was_ended(copies.get(key, []), own):
            made.ended_there.append(key)
        elif own.ends_ns - wall_ns >= LEAST_LEFT_NS:
            made.write.append((_draft(fleet, key, own, own.starts_ns), ""))
    for key, found_copies in copies.items():
        if key not in ours and is_over(key):
            made.expire.extend(each.id for each, _ in found_copies if not each.is_expired)
    return made


def take(
    fleet: str, theirs: Iterable[AlertmanagerSilence], labels: Collection[str]
) -> dict[str, TakenSilence]:
    """Return the silences that were made there and may concern this fleet, by their id here.

    Args:
        fleet: The fleet's name.
        theirs: All that Alertmanager has.
        labels: Names of the labels that alerts here can have.
    """
    found: dict[str, TakenSilence] = {}
    for each in theirs:
        if each.is_expired or _mark(fleet, each) is not None or _is_elsewhere(fleet, each.matchers):
            continue
        if len(found) >= MOST_TAKEN:
            break
        texts, why_not = _translate(each.matchers, labels)
        silence_id = PREFIX + each.id
        found[silence_id] = TakenSilence(
            silence_id,
            texts or (f'not_applied="{each.id}"',),
            each.starts_ns,
            each.ends_ns,
            plain(each.who, 64).strip() or "unknown",
            plain(each.comment, _LONGEST_COMMENT),
            why_not,
        )
    return found


def differs(one_ns: int, other_ns: int, now_ns: int, *, scale: float = 1.0) -> bool:
    """Return whether two instants differ by more than the conversion between clocks does; `scale` is a clock's seconds a second."""
    return abs(one_ns - other_ns) > TOLERANCE_NS * scale + TOLERANCE_SHARE * abs(other_ns - now_ns)


def _mark(fleet: str, silence: AlertmanagerSilence) -> tuple[Key, int] | None:
    """Return what a silence there is a copy of, and of which revision; None where it was made there."""
    found = _MARK.search(silence.comment)
    if found is None or found[1] != fleet:
        return None
    return Key("ack" if found[2] == "ack" else "silence", found[3]), int(found[4])


def _by_id(copy: tuple[AlertmanagerSilence, int]) -> str:
    return copy[0].id


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
        key=lambda each: each.ends_ns,
        default=None,
    )
    return last is not None and last.was_ended


def _draft(fleet: str, key: Key, own: OwnSilence, starts_ns: int) -> SilenceDraft:
    begins_ns = min(max(starts_ns, own.starts_ns), own.ends_ns - LEAST_LEFT_NS)
    return SilenceDraft(own.matchers, begins_ns, own.ends_ns, own.who, comment_of(fleet, key, own))


def _is_elsewhere(fleet: str, matchers: Iterable[Matcher]) -> bool:
    """Return whether matchers say that it is about other fleets."""
    for each in matchers:
        if each.label == "fleet" and len(each.value) < LONGEST:
            try:
                if not Matcher.parse(str(each)).matches({"fleet": fleet}):
                    return True
            except ConfigError:
                continue
    return False


def _translate(matchers: Sequence[Matcher], labels: Collection[str]) -> tuple[tuple[str, ...], str]:
    """Return matchers as ours are written, and why they hide nothing here; none where they cannot be written."""
    texts, unknown = tuple(str(each) for each in matchers), ""
    for text in texts:
        if plain(text, len(text)) != text:
            return (), f"matcher {plain(text, 80)}: characters that do not show"
        if len(text) > LONGEST:
            return (), f"matcher {text[:80]}…: at most {LONGEST} characters"
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
