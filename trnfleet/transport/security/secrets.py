"""Passwords and tokens in files readable by their owner only."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from trnfleet.errors import ConfigError
from trnfleet.systemd import is_credential

LONGEST_SECRET = 65_535
"""Bytes of a password in MQTT."""


def read_secret(option: str, file: str) -> str:
    """Return the line of a password or token file.

    Args:
        option: The option with the file's name, for messages.
        file: The file.

    Raises:
        ConfigError: it cannot be read, is empty, too long or more than a line, or others may read
            it.
    """
    where = f"{option} {file}"
    try:
        with Path(file).open("rb") as stream:
            is_open = os.fstat(stream.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO)
            if is_open and not is_credential(file):
                raise ConfigError(f"{where}: others may read it; chmod 600 it")
            data = stream.read(LONGEST_SECRET + 3)
    except OSError as error:
        raise ConfigError(f"{where}: {(error.strerror or str(error)).lower()}") from None
    except ValueError:
        raise ConfigError(f"{option} {file!r}: no name of a file") from None
    try:
        text = data.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        # The error itself would quote the unreadable bytes.
        raise ConfigError(f"{where}: it is not UTF-8") from None
    if "\n" in text or "\r" in text:
        raise ConfigError(f"{where}: it has several lines, of which none is known to be the secret")
    if not text:
        raise ConfigError(f"{where}: it is empty")
    if len(data) > LONGEST_SECRET:
        raise ConfigError(f"{where}: it is over MQTT's {LONGEST_SECRET:,} bytes")
    return text


class TokenFile:
    """A token in a file, read for every connection.

    Its issuer may replace it at any time.
    """

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        """Name the file; nothing is read yet."""
        self.path = path

    def check(self) -> None:
        """Read it once.

        Raises:
            ConfigError: it cannot be read, or not twice, such as a pipe.
        """
        if Path(self.path).exists() and not Path(self.path).is_file():
            raise ConfigError(
                f"--token-file {self.path}: no file that can be read again for every connection"
            )
        self.reveal()

    def reveal(self) -> str:
        """Return the token that is there now, for the CONNECT packet and nothing else.

        Raises:
            ConfigError: it cannot be read.
        """
        return read_secret("--token-file", self.path)

    def __repr__(self) -> str:
        return f"TokenFile({self.path!r})"
