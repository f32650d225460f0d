"""The candidates of the command palette, and which of them a typed text finds.

Names of our own (views, keys, commands and what may follow these) are found fuzzily. Names of the fleet are found by a part of their text
alone, as far as `MOST` of a kind: there may be a million, and anybody may have made them up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from textual.fuzzy import FuzzySearch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

MOST = 20
"""Names of the fleet that are offered of each kind."""
MOST_TYPED = 60
"""Letters of the text that are looked at."""
_FUZZY_LETTERS, _FUZZY_TYPED = 32, 12
"""Letters of a name and of a text that are compared fuzzily: the number of ways in which they match grows with both."""

# What a candidate is found by, the best last.
_FUZZY, _OF_FLEET, _WORD, _BEGIN, _SIGN = range(1, 6)


class Candidate(NamedTuple):
    """Something to choose."""

    sign: str
    """The key that does the same, else what kind of thing it is."""
    text: str
    run: Callable[[], object]
    note: str = ""
    """What else is to be said of it."""
    words: tuple[str, ...] = ()
    """Other names by which it is found."""
    is_key: bool = False
    """Whether `sign` is a key."""
    is_possible: bool = True
    """Whether it can be done now; else `run` says why not."""


class Found(NamedTuple):
    """A candidate that a text finds."""

    score: float
    """Greater for what is more probably meant."""
    candidate: Candidate
    marked: Sequence[int] = ()
    """Places of the letters in its text that the typed ones stand for."""


class Candidates:
    """Everything that can be chosen at one time."""

    def __init__(
        self,
        own: Sequence[Candidate],
        listed: Sequence[Candidate],
        of_fleet: Callable[[str], Iterable[Candidate]],
    ) -> None:
        """Make the candidates.

        Args:
            own: All of our own names.
            listed: Those that are offered before anything is typed.
            of_fleet: Returns those of the fleet that have a text, at most `MOST` of each kind, the most usual first.
        """
        self.own = own
        self.listed = listed
        self._of_fleet = of_fleet

    def find(self, text: str) -> list[Found]:
        """Return the candidates that a text finds, what is most probably meant first."""
        text = text.strip()[:MOST_TYPED]
        if not text:
            return [Found(0.0, each) for each in self.listed]
        wanted = text.lower()
        fuzzy = FuzzySearch()
        found = [
            made for each in self.own if (made := _found(each, text, wanted, fuzzy)) is not None
        ]
        found += [
            Found(_OF_FLEET, each, _span(each.text.lower().find(wanted), wanted))
            for each in self._of_fleet(text)
        ]
        return sorted(found, key=lambda each: -each.score)


def _found(candidate: Candidate, text: str, wanted: str, fuzzy: FuzzySearch) -> Found | None:
    """Return how a text finds one of our own names; None where it does not."""
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
    """Return the places of a text that begins at one; none before the first."""
    return range(at, at + len(wanted)) if at >= 0 else ()
