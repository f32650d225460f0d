"""The candidates of the command palette, and the search for a typed text.

Names of the app's own (views, keys, commands and their arguments) are matched fuzzily. Names of the
fleet are matched by a part of their text alone, up to `MOST` of a kind: there may be a million, and
anyone may have invented them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from textual.fuzzy import FuzzySearch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

MOST = 20
"""Most fleet names offered of each kind."""
MOST_TYPED = 60
"""Most letters compared of the text."""
_FUZZY_LETTERS = 32
_FUZZY_TYPED = 12
"""Most letters of a name and of a text for fuzzy matching. The number of possible matches grows
with both."""

# What a candidate is found by, the best last.
_FUZZY, _OF_FLEET, _WORD, _BEGIN, _SIGN = range(1, 6)


class Candidate(NamedTuple):
    """Something to choose."""

    sign: str
    """Key with the same effect, else the kind of thing."""
    text: str
    run: Callable[[], object]
    note: str = ""
    """Further text about it."""
    words: tuple[str, ...] = ()
    """Other names by which it is found."""
    is_key: bool = False
    """Whether `sign` is a key."""
    is_possible: bool = True
    """Whether it can be run now; else `run` shows the reason."""


class Found(NamedTuple):
    """A candidate that a text finds."""

    score: float
    """Higher for a more probable match."""
    candidate: Candidate
    marked: Sequence[int] = ()
    """Places of the matched letters in its text."""


class Candidates:
    """Everything that can be chosen at one time."""

    def __init__(
        self,
        own: Sequence[Candidate],
        listed: Sequence[Candidate],
        of_fleet: Callable[[str], Iterable[Candidate]],
    ) -> None:
        """Store the candidates.

        Args:
            own: All names of the app's own.
            listed: Candidates offered before anything is typed.
            of_fleet: Returns the fleet's candidates that contain a text, at most `MOST` of each
                kind, the
                most usual first.
        """
        self.own = own
        self.listed = listed
        self._of_fleet = of_fleet

    def find(self, text: str) -> list[Found]:
        """Return the candidates for a text, the most probable first."""
        text = text.strip()[:MOST_TYPED]
        if not text:
            return [Found(0.0, candidate) for candidate in self.listed]
        needle = text.lower()
        fuzzy = FuzzySearch()
        matches = [
            made
            for candidate in self.own
            if (made := _found(candidate, text, needle, fuzzy)) is not None
        ]
        matches += [
            Found(_OF_FLEET, candidate, _span(candidate.text.lower().find(needle), needle))
            for candidate in self._of_fleet(text)
        ]
        return sorted(matches, key=lambda match: -match.score)


def _found(candidate: Candidate, text: str, wanted: str, fuzzy: FuzzySearch) -> Found | None:
    """Return the match of a text with an own name; None without a match."""
    lower = candidate.text.lower()
    if wanted.startswith(":") and not (lower.startswith(":") or candidate.sign == text):
        # The colon asks for a command.
        return None
    at = lower.find(wanted)
    marked = _span(at, wanted)
    score = 0.0
    if candidate.is_key and candidate.sign == text:
        score = _SIGN
    elif lower.lstrip(":").startswith(wanted.lstrip(":")) or any(
        word.startswith(wanted) for word in candidate.words
    ):
        score = _BEGIN
    elif at > 0 and not lower[at - 1].isalnum():
        score = _WORD
    elif at > 0:
        score = _FUZZY + 0.5
    elif len(wanted) <= _FUZZY_TYPED:
        fit, marked = fuzzy.match(wanted, lower[:_FUZZY_LETTERS])
        # Twice the letters, twice as many where they begin words.
        score = _FUZZY + min(0.4, fit / (10 * len(wanted))) if fit else 0.0
    if not score:
        return None
    return Found(score - 0.5 * (not candidate.is_possible), candidate, marked)


def _span(at: int, wanted: str) -> Sequence[int]:
    """Return the places of `wanted` from `at` on; empty if `at` is negative."""
    return range(at, at + len(wanted)) if at >= 0 else ()
