from __future__ import annotations

import pytest
from support.documents import DOCS, ROOT, script

from trnfleet.domain.faults.table import FAULTS
from trnfleet.tui.views import VIEWS

PAGES = sorted(page.name for page in DOCS.glob("*.md"))


@pytest.mark.parametrize("page", PAGES)
def test_generated_blocks_are_current(page: str) -> None:
    """Generated blocks are current.

    If not, run `make docs`.
    """
    blocks = script("docs-tables").blocks((DOCS / page).read_text(encoding="utf-8"))
    assert [name for name, found, made in blocks if found != made] == []


def test_every_view_is_listed() -> None:
    """A view has a line in the app's page, and its key in the README."""
    page = (DOCS / "app.md").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for entry in VIEWS:
        assert f"| `{entry.key}` | {entry.title} |" in page
        assert f"`{entry.key}`" in readme


def test_the_readme_counts_the_faults() -> None:
    assert f" {len(FAULTS)} faults " in (ROOT / "README.md").read_text(encoding="utf-8")


def test_a_stale_block_is_found_and_renewed() -> None:
    """A block changed by hand is stale.

    Renewing changes nothing else.
    """
    tables = script("docs-tables")
    page = "before\n<!-- metrics: instance -->\nold\n<!-- end -->\nafter <!-- a comment -->\n"
    ((name, found, made),) = tables.blocks(page)
    assert (name, found) == ("metrics: instance", "old\n")
    assert "`host_power_w`" in made
    renewed = tables.renewed(page)
    assert renewed == page.replace("old\n", made)
    assert [found == made for _, found, made in tables.blocks(renewed)] == [True]


def test_a_rule_that_is_shown_is_the_files() -> None:
    """A full rule is as in its file.

    An unknown name is an error.
    """
    tables = script("docs-tables")
    assert "clear = 82\n" in tables.body("rule: overheated")
    with pytest.raises(KeyError):
        tables.body("rule: no-such-rule")
