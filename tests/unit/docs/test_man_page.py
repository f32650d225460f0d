"""The man page generated from the commands."""

from __future__ import annotations

import subprocess

import pytest
from support.documents import ROOT, script

from trnfleet.cli.command_table import COMMANDS

PAGE = ROOT / "docs" / "man" / "trnfleet.1"


def test_the_page_is_current() -> None:
    """The page is current.

    If not, run `make docs`.
    """
    assert script("man-page").page() == PAGE.read_text(encoding="utf-8")


def test_every_command_has_its_part() -> None:
    headings = [
        line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith(".SS ")
    ]
    assert {heading.split('"')[1].split()[0] for heading in headings} == set(COMMANDS)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("--log-file", r"\-\-log\-file"),
        (".start of a line", r"\&.start of a line"),
        ("'quoted'", r"\&'quoted'"),
        (r"a\b", r"a\eb"),
    ],
)
def test_text_is_no_request_of_roff(text: str, printed: str) -> None:
    """Dashes can be copied into a shell, and no character is read as a request.

    Dots, quotes and backslashes.
    """
    assert script("man-page").escape(text) == printed


def test_man_reads_it_without_a_warning() -> None:
    """Groff, the usual formatter, reads the page without a warning, if installed."""
    try:
        shown = subprocess.run(
            ["groff", "-man", "-Tutf8", "-ww", "-Wbreak", str(PAGE)],
            capture_output=True,
            text=True,
            check=True,
        )
    except FileNotFoundError:
        return
    assert shown.stderr == ""
    assert "--broker" in shown.stdout
