from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from trnfleet.errors import ConfigError
from trnfleet.transport.security.secrets import LONGEST_SECRET, TokenFile, read_secret

if TYPE_CHECKING:
    from pathlib import Path


def write(folder: Path, data: bytes, mode: int = 0o600) -> str:
    file = folder / "secret"
    file.write_bytes(data)
    file.chmod(mode)
    return str(file)


def test_a_token_is_what_the_file_has_now(tmp_path: Path) -> None:
    """It is read each time, without the line's end, and shows itself nowhere."""
    token = TokenFile(write(tmp_path, b"one\r\n"))
    assert token.reveal() == "one"
    write(tmp_path, b"two")
    assert token.reveal() == "two"
    assert "two" not in repr(token)


@pytest.mark.parametrize(
    ("data", "mode", "words"),
    [
        (b"hunter2", 0o640, "others may read it; chmod 600 it"),
        (b"\n", 0o600, "it is empty"),
        (
            b"hunter2\nnotes\n",
            0o600,
            "it has several lines, of which none is known to be the secret",
        ),
        (b"hunter2\xff", 0o600, "it is not UTF-8"),
        (b"h" * (LONGEST_SECRET + 1), 0o600, "it is over MQTT's 65,535 bytes"),
    ],
)
def test_a_file_that_is_no_good_is_named_and_not_quoted(
    data: bytes, mode: int, words: str, tmp_path: Path
) -> None:
    """The error has the option, the file and the reason, and none of its content.

    Nor has its traceback.
    """
    file = write(tmp_path, data, mode)
    with pytest.raises(ConfigError) as error:
        read_secret("--password-file", file)
    assert str(error.value) == f"--password-file {file}: {words}"
    assert error.value.__context__ is None or error.value.__suppress_context__


def test_a_token_in_a_pipe_is_refused_before_it_is_waited_for(tmp_path: Path) -> None:
    """It could be read once, and the next connection would wait for a writer forever."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    with pytest.raises(ConfigError, match="no file that can be read again for every connection"):
        TokenFile(str(pipe)).check()


def test_a_missing_file_is_named() -> None:
    """The line says that it is missing."""
    with pytest.raises(ConfigError, match=r"--token-file /missing: no such file or directory"):
        TokenFile("/missing").reveal()


def test_a_credential_of_a_service_may_seem_to_be_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A systemd credential with group permission is accepted; other files are refused.

    Systemd permits its user by a list, and that shows as a right of the group.
    """
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path / "credentials"))
    for folder in ("credentials", "elsewhere"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "token").write_text("t0ken\n")
        (tmp_path / folder / "token").chmod(0o440)
    assert read_secret("--token-file", str(tmp_path / "credentials" / "token")) == "t0ken"
    with pytest.raises(ConfigError, match="others may read it"):
        read_secret("--token-file", str(tmp_path / "elsewhere" / "token"))
