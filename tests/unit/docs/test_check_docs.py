from __future__ import annotations

from typing import TYPE_CHECKING

from support.documents import PAGES, script

if TYPE_CHECKING:
    from pathlib import Path


def test_links_and_paths_of_every_page_exist() -> None:
    """Relative links reach files and headings, and paths in backticks are in the project."""
    check = script("check-docs")
    problems = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        problems += [
            f"{page.name}:{line}: {what}"
            for line, what in (*check.links(page, text), *check.paths(text), *check.dates(text))
        ]
    assert problems == []


def test_broken_links_are_found(tmp_path: Path) -> None:
    """A missing file or heading is found with its line.

    Foreign addresses and code are ignored.
    """
    links = script("check-docs").links
    (tmp_path / "other.md").write_text(
        "# One `thing`\n\n## Two: words, (more)\n\n## Two: words, (more)\n"
    )
    page = tmp_path / "page.md"
    page.write_text("")
    good = (
        "[a](other.md) [b](other.md#one-thing) [c](other.md#two-words-more-1)"
        " [d](https://example.com/none)\n"
    )
    bad = "[e](none.md)\n```\n[f](none.md)\n```\n[g](other.md#three) ![h](none.png)\n[i](#here)\n"
    assert list(links(page, good)) == []
    assert list(links(page, bad)) == [
        (1, "link to none.md: no such file"),
        (5, "link to other.md#three: no such heading"),
        (5, "link to none.png: no such file"),
        (6, "link to #here: no such heading"),
    ]


def test_examples_that_expire_are_found() -> None:
    """A future date in a command is found.

    JSON messages are no commands.
    """
    page = (
        '```sh\nmosquitto_pub -m \'{"expires": "2026-01-31T00:00:00Z"}\'\ntrnfleet simulate --start'
        ' 2026-07-14\ntrnfleet history query h --from 2026-01-31T00:00:00Z\n```\n```json\n{"ts":'
        ' "2026-01-31T00:00:00Z"}\n```\n'
    )
    assert list(script("check-docs").dates(page)) == [
        (2, "an example with a date expires: compute the date")
    ]


def test_missing_paths_are_found() -> None:
    """A path in backticks must exist.

    Patterns match a file, and `...` is anything.
    """
    paths = script("check-docs").paths
    text = (
        "`trnfleet/clock.py` `config/alerts/*.toml`\n`trnfleet/none.py` `trnfleet/`"
        " `trnfleet/.../x.py` `none.md`\n`docs/*.rst`"
    )
    assert list(paths(text)) == [
        (2, "trnfleet/none.py: no such file"),
        (3, "docs/*.rst: no such file"),
    ]
