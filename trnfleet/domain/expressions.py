"""Regular expressions of users and of the wire, by RE2.

The syntax is Alertmanager's; a match runs in linear time.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import re2

from trnfleet.errors import ConfigError

LONGEST = 4_000
"""Characters of an expression: a list of sixty hosts by their addresses."""
MOST_STEPS = 2_000
"""Size limit of a compiled expression: the cost per character of a value."""


class Expression:
    """A compiled expression."""

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled

    def matches(self, text: str) -> bool:
        """Return whether it matches the whole text, as Alertmanager's do."""
        return self._compiled.fullmatch(_encoded(text)) is not None

    def is_in(self, text: str) -> bool:
        """Return whether it matches a part of the text."""
        return self._compiled.search(_encoded(text)) is not None


def _encoded(text: str) -> bytes:
    # Half of a surrogate pair, as a file name or JSON may have it, is not UTF-8.
    return text.encode("utf-8", "surrogatepass")


@lru_cache(maxsize=512)
def expression(pattern: str, *, ignores_case: bool = False) -> Expression:
    """Compile an expression; `(?i)` in it ignores case, too.

    Raises:
        ConfigError: it is not valid, or too large.
    """
    if len(pattern) > LONGEST:
        raise ConfigError(f"an expression of {len(pattern):,} characters: at most {LONGEST:,}")
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not ignores_case
    # 512 expressions are cached, so a hostile one may have little.
    options.max_mem = 2**20
    try:
        compiled = re2.compile(_encoded(pattern), options)
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace")
        if reason.startswith("pattern too large"):
            reason = "it is too large when its repetitions are written out"
        raise ConfigError(f"not a valid regular expression: {reason}") from error
    if compiled.programsize > MOST_STEPS:
        raise ConfigError(
            f"a regular expression of {compiled.programsize:,} steps when its repetitions are "
            f"written out: at most {MOST_STEPS:,}"
        )
    return Expression(compiled)
