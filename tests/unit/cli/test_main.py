"""Errors that reach the end of the command line."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest

from trnfleet.cli import main


@pytest.mark.parametrize(
    ("file", "named"), [("/run/some\x1b[2Jwhere", "/run/some\\u001b[2Jwhere: "), (None, "")]
)
def test_an_error_of_the_system_names_its_file(
    file: str | None,
    named: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The line has the file, as plain text, and the reason."""

    def fail(**_options: Any) -> None:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), file)

    monkeypatch.setattr(main.cli, "main", fail)
    assert main.run(["status"]) == 1
    assert capsys.readouterr().err == f"trnfleet: {named}Permission denied\n"
