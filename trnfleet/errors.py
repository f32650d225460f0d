"""The errors that trnfleet raises on purpose: a shallow tree with messages made for the person at the terminal.

A message names the file, the key, the value and the limit, and where there is one the nearest valid choice.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


MOST_CHOICES = 100
"""Choices that a message lists."""


_DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""Failures of a disk, whatever file was chosen: it is full, a quota or limit is reached, or it is broken."""


class TrnfleetError(Exception):
    """Base of every error that is explained to the user in one line."""


class ConfigError(TrnfleetError):
    """A file, an option or a variable that the user wrote is invalid (exit status 2)."""


class WireError(TrnfleetError):
    """Bytes from a broker or a file that are not what the protocol says: counted, logged and dropped."""


class BrokerError(TrnfleetError):
    """A broker could not be reached, started or talked to (exit status 1)."""


class NotConfirmedError(BrokerError):
    """A message was sent, and nothing shows that the broker took it (exit status 4)."""


class CloudError(TrnfleetError):
    """A cloud's API could not be asked, or refused (exit status 1)."""


def write_failure(what: str, error: OSError) -> TrnfleetError:
    """Return the error for a file that cannot be made or written.

    Args:
        what: The file, and what was to be done with it.
        error: The system's error: of a disk it is no fault of the user's (exit status 1), all else is (2).
    """
    kind = TrnfleetError if error.errno in _DISK_ERRORS else ConfigError
    return kind(f"{what}: {error.strerror or error}")


def nearest(name: str, choices: Iterable[str]) -> str:
    """Return a clause that names the valid choice nearest to `name`, or every choice when none is near."""
    import difflib  # noqa: PLC0415  for errors alone, and they are imported before what defers imports

    known = sorted(choices)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    if not known:
        return "there is none to choose from"
    more = f" and {len(known) - MOST_CHOICES:,} more" if len(known) > MOST_CHOICES else ""
    return "choose from " + ", ".join(known[:MOST_CHOICES]) + more
