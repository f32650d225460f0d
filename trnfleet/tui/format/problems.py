"""Problems in cells: their place in the room that there is, and the header's badge; the words are those of `monitor.problems.texts`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.domain.address import STANDALONE, Level
from trnfleet.domain.quantities import count
from trnfleet.domain.severity import Severity
from trnfleet.monitor.problems import texts
from trnfleet.text import plain
from trnfleet.tui import theme
from trnfleet.tui.format.addresses import shortened, without_start

if TYPE_CHECKING:
    from trnfleet.monitor.problems.problem import Place, ProblemCounts
    from trnfleet.tui.widgets.cells import Parts

_LEAST_START = 4
"""Cells from which the end of an instance's name says something."""
_WHOLE_SHARE = 0.8
"""Of the room, at most, for a place with its UltraServer: what is wrong needs the rest."""
_SHORT = {Severity.CRITICAL: "crit", Severity.WARNING: "warn", Severity.INFO: "info"}


def place_in(place: Place, room: int) -> str:
    """Return where a problem is in at most `room` cells: both ends of a link as long as they fit.

    Where there is plenty of room the UltraServer stands before the instance; a chip never stands without its instance.
    """
    text = texts.place_text(place)
    above = place.address.split("/")[1:2]
    if above and len(place.address.split("/")) >= Level.INSTANCE and above[0] != STANDALONE:
        whole = f"{plain(above[0])}/{text}"
        if (
            text.startswith(texts.short_address(plain(place.address)))
            and len(whole) <= _WHOLE_SHARE * room
        ):
            return whole
    scheme = text.rfind("://")
    if len(text) > room and scheme > 0:
        # Of a broker its host is the end of an address, not what follows a slash.
        return without_start(text[scheme + 3 :], max(room, 2))
    if len(text) <= room:
        return text
    near, arrow, far = text.partition(" ↔ ")
    if arrow:
        tight = f"{near.replace('/chip', ' ')}↔{far.rpartition('chip')[2]}"
        if len(tight) <= room:
            return tight
        text = near
    short = shortened(text, room)
    # A chip's number alone says nothing: the end of its instance's name stands before it.
    has_more = short != text and short.startswith("chip") and room - len(short) >= _LEAST_START
    return without_start(text if has_more else short, max(room, 2))


def badge(
    counts: ProblemCounts, *, short: bool = False, tight: bool = False, with_quiet: bool = True
) -> Parts:
    """Return how many problems there are, worst first, for the header: severity as sign, word and colour.

    Args:
        counts: How many there are.
        short: Whether words are cut to four letters.
        tight: Whether signs stand for the words.
        with_quiet: Whether acknowledged, silenced and pending ones are counted, too.
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
        glyph, word = theme.SEVERITY_GLYPH[severity], severity.value
        word = "" if tight else f" {_SHORT[severity] if short else word}"
        parts.append((f" {glyph} {count(number)}{word} ", styles[severity]))
    handled = counts.acknowledged or counts.silenced
    if not parts:
        parts.append((" 0 unacknowledged " if handled else f" {texts.NONE} ", theme.HEAD))
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
        parts.append((f" {', '.join(quiet)} ", theme.HEAD))
    return parts
