"""Output of `make run` and `make test` while they set up `.venv`."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from support.documents import ROOT

if TYPE_CHECKING:
    from pathlib import Path

PIP = """#!/bin/sh
echo 'Ignoring colorama: markers do not match'
echo 'Collecting aiomqtt==2.5.1 (from -r list)'
echo 'Processing /mirror/anyio-4.16.0.whl (from -r list)'
{more}
"""
INSTALLED = "echo 'Installing collected packages: aiomqtt, anyio'"


def install(folder: Path, more: str, *, terminal: bool) -> tuple[int, str]:
    """Run `.ci/install` with a program as Python, and return status and output."""
    python = folder / "python"
    packages = folder / "list"
    python.write_text(PIP.format(more=more))
    python.chmod(0o755)
    packages.write_text("aiomqtt==2.5.1 \\\n  --hash=sha256:0\nanyio==4.16.0\ncolorama==1.0\n")
    # A terminal, or a file.
    reader, writer = os.openpty() if terminal else os.pipe()
    done = subprocess.run([ROOT / ".ci" / "install", python, packages], stdout=writer, check=False)
    os.close(writer)
    said = os.read(reader, 10_000).decode() if terminal or more.startswith("echo 'ERROR") else ""
    os.close(reader)
    return done.returncode, said


def test_a_terminal_sees_how_far_the_packages_are(tmp_path: Path) -> None:
    """Each arriving package is counted, out of this platform's number."""
    status, said = install(tmp_path, INSTALLED, terminal=True)
    assert status == 0
    assert "\r  1 of 2 packages: aiomqtt==2.5.1" in said
    assert "\r  2 of 2 packages: anyio-4.16.0.whl" in said
    assert "\r  installing 2 packages" in said


def test_a_failure_of_pip_is_shown_with_its_status(tmp_path: Path) -> None:
    """Its errors are printed, and `make` stops."""
    failed = "echo 'ERROR: no matching distribution'; exit 1"
    assert install(tmp_path, failed, terminal=False) == (1, "ERROR: no matching distribution\n")
