"""What a filter of alerts says: parts of texts, matchers as in a silence, and a place.

`at=ADDRESS` leaves what is at, below or above an address; `severity=critical` and the like are matchers; anything else is a part
of what an alert says, and with `!` in front all others.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.alerts.alert import address_of
from trnfleet.domain.alerts.matchers import Matcher, all_match
from trnfleet.errors import ConfigError
from trnfleet.tui.state.alerts import touches
from trnfleet.tui.widgets.text_filter import TextFilter

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.domain.alerts.alert import Alert

AT = "at"
"""What stands before `=` and an address."""
_TOKEN = re.compile(r"""[A-Za-z_]\w*(?:=~|!~|!=|=)(?:"(?:[^"\\]|\\.)*"|[^\s,]+)""")
_BETWEEN = re.compile(r"[\s,]*")


class AlertFilter(NamedTuple):
    """What is left of alerts; everything for an empty one."""

    matchers: tuple[Matcher, ...] = ()
    place: str = ""
    text: TextFilter = TextFilter()
    problem: str = ""
    """What is wrong with it, in a line; such a filter leaves what the rest of it leaves."""

    def keeps(self, alert: Alert, said: Callable[[], str]) -> bool:
        """Say whether an alert is left.

        Args:
            alert: The alert.
            said: Returns all that it says, in lower case.
        """
        if self.place and not touches(address_of(alert), self.place):
            return False
        if self.matchers and not all_match(self.matchers, alert.labels):
            return False
        return self.text.is_empty or self.text.keeps_lower(said())


def read_filter(pattern: str) -> AlertFilter:
    """Return the filter that somebody typed."""
    tokens, place, problem = [], "", ""
    rest = pattern
    while found := _TOKEN.match(rest):
        token, rest = found[0], rest[found.end() :].lstrip()
        label, equals, value = token.partition("=")
        if label == AT and equals:
            place = value.strip('"')
            continue
        try:
            tokens.append(Matcher.parse(token))
        except ConfigError as error:
            problem = str(error)
    return AlertFilter(tuple(tokens), place, TextFilter.of(rest.strip()), problem)


def split_matchers(text: str) -> list[str]:
    """Return the matchers that stand in a line, divided by spaces or commas.

    Raises:
        ConfigError: something among them is no matcher.
    """
    found: list[str] = []
    position = _skip(text, 0)
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            rest = text[position : position + 60]
            raise ConfigError(f'{rest!r}: write matchers as label="value", with =, !=, =~ or !~')
        found.append(token[0])
        position = _skip(text, token.end())
    return found


def _skip(text: str, position: int) -> int:
    between = _BETWEEN.match(text, position)
    return position if between is None else between.end()
