"""Errors raised on purpose: a shallow tree with messages for the user at the terminal.

A message names the file, the key, the value and the limit, and the nearest valid choice if there is
one.
"""

from __future__ import annotations

import enum
import errno
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


MOST_CHOICES = 100
"""Most choices listed in a message."""


_DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""Disk failures independent of the chosen file: full, quota or limit reached, or broken."""


class ExitStatus(enum.IntEnum):
    """Exit status of a command that does not succeed."""

    FAILED = enum.auto()
    INVALID = enum.auto()
    """Wrong use, or an invalid file."""
    UNHEALTHY = enum.auto()
    NOT_CONFIRMED = enum.auto()


class TrnfleetError(Exception):
    """Base of every error explained to the user in one line."""


class ConfigError(TrnfleetError):
    """Invalid file, option or variable of the user (exit status 2)."""


class WireError(TrnfleetError):
    """Invalid bytes from a broker or a file: counted, logged and dropped."""


class BrokerError(TrnfleetError):
    """A broker could not be reached, started or talked to (exit status 1)."""


class NotConfirmedError(BrokerError):
    """A message was sent without a confirmation from the broker (exit status 4)."""


class CloudError(TrnfleetError):
    """A cloud's API could not be asked, or refused (exit status 1)."""


def write_failure(what: str, error: OSError) -> TrnfleetError:
    """Return the error for a failure to make or write a file.

    Args:
        what: The file, and the intended action.
        error: The system's error. Exit status 1 for a disk error, 2 for any other (the user's
            fault).
    """
    kind = TrnfleetError if error.errno in _DISK_ERRORS else ConfigError
    return kind(f"{what}: {error.strerror or error}")


def nearest(name: str, choices: Iterable[str]) -> str:
    """Return a clause with the valid choice nearest to `name`, or with all choices."""
    import difflib  # noqa: PLC0415  for errors alone, and they are imported before what defers imports

    known = sorted(choices)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    if not known:
        return "there are none"
    more = f" and {len(known) - MOST_CHOICES:,} more" if len(known) > MOST_CHOICES else ""
    return "choose from " + ", ".join(known[:MOST_CHOICES]) + more
