"""Problems in cells: their place in the available room, and the header's badge.

The words come from `monitor.problems.texts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.domain.address import NO_NAMES, STANDALONE, Level, Names
from trnfleet.domain.quantities import count
from trnfleet.domain.severity import Severity
from trnfleet.monitor.problems import texts
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.format.addresses import in_room, without_start

if TYPE_CHECKING:
    from trnfleet.monitor.problems.problem import Place, ProblemCounts
    from trnfleet.tui.widgets.cells import Parts

_WHOLE_SHARE = 0.8
"""Largest share of the room for a place with its UltraServer. The problem text needs the rest."""
_SHORT = {Severity.CRITICAL: "crit", Severity.WARNING: "warn", Severity.INFO: "info"}


def place_in(place: Place, room: int, names: Names = NO_NAMES) -> str:
    """Return a problem's place in at most `room` cells.

    Both ends of a link are named if they fit. With enough room the UltraServer precedes the
    instance. A chip always has its instance.
    """
    text = texts.place_text(place, names)
    above = place.address.split("/")[1:2]
    if above and len(place.address.split("/")) >= Level.INSTANCE and above[0] != STANDALONE:
        whole = f"{plain(above[0])}/{text}"
        if (
            text.startswith(texts.short_address(plain(names.address(place.address))))
            and len(whole) <= _WHOLE_SHARE * room
        ):
            return whole
    scheme = text.rfind("://")
    if len(text) > room and scheme > 0:
        # Of a broker its host is the end of an address, not what follows a slash.
        return without_start(text[scheme + 3 :], room)
    if len(text) <= room:
        return text
    near, arrow, far = text.partition(" ↔ ")
    if arrow:
        other = far.rpartition("/")[0].rpartition("-")[2]
        far = f"{f'-{other} ' if other else ''}{far.rpartition('chip')[2]}"
        tight = f"{near.replace('/chip', ' ')}↔{far}"
        if len(tight) <= room:
            return tight
        text = near
    return without_start(in_room(text, room), room)


def badge(
    counts: ProblemCounts,
    *,
    short: bool = False,
    tight: bool = False,
    with_quiet: bool = True,
    incomplete: str = "",
) -> Parts:
    """Return the number of problems, worst first, as sign, word and colour.

    It is for the header.

    Args:
        counts: How many there are.
        short: Whether words are cut to four letters.
        tight: Whether signs stand for the words.
        with_quiet: Whether acknowledged, silenced and pending ones are counted, too.
        incomplete: What is lacking of the moment that is shown; empty for nothing.
    """
    styles = {
        Severity.CRITICAL: theme.BAR_DOWN,
        Severity.WARNING: theme.BAR_ALERT,
        Severity.INFO: theme.HEAD_ACCENT,
    }
    parts: Parts = []
    for severity, number in texts.severity_counts(counts):
        if not number or (
            severity is Severity.INFO and (tight or counts.critical or counts.warning)
        ):
            continue
        glyph = theme.SEVERITY_GLYPH[severity]
        word = severity.value
        word = "" if tight else f" {_SHORT[severity] if short else word}"
        parts.append((f" {glyph} {count(number)}{word} ", styles[severity]))
    if incomplete and parts:
        parts.append((f" {incomplete} ", theme.HEAD_STRONG))
    elif not parts:
        is_calm = (counts.acknowledged or counts.silenced) and not incomplete
        parts.append((" OK " if is_calm else f" {texts.none_text(incomplete)} ", theme.HEAD))
    quiet = [
        f"{count(number)} {word}"
        for number, word in (
            (counts.acknowledged, "ack"),
            (counts.silenced, "silenced"),
            (counts.pending, "pending"),
        )
        if number
    ]
    if quiet and with_quiet:
        parts.append((f" {'  '.join(quiet)} ", theme.HEAD))
    return parts
