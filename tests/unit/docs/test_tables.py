from __future__ import annotations

import pytest
from support.documents import DOCS, ROOT, script

from trnfleet.domain.faults.table import FAULTS
from trnfleet.tui.views import VIEWS

PAGES = sorted(page.name for page in DOCS.glob("*.md"))


@pytest.mark.parametrize("page", PAGES)
def test_generated_blocks_are_current(page: str) -> None:
    """What `make docs` writes is what the pages have; run it where this fails."""
    blocks = script("docs-tables").blocks((DOCS / page).read_text(encoding="utf-8"))
    assert [name for name, found, made in blocks if found != made] == []


def test_every_view_is_listed() -> None:
    """A view has a line in the app's page, and its key in the README."""
    page, readme = (
        (DOCS / "app.md").read_text(encoding="utf-8"),
        (ROOT / "README.md").read_text(encoding="utf-8"),
    )
    for entry in VIEWS:
        assert f"| `{entry.key}` | {entry.title} |" in page
        assert f"`{entry.key}`" in readme


def test_the_readme_counts_the_faults() -> None:
    assert f" {len(FAULTS)} faults " in (ROOT / "README.md").read_text(encoding="utf-8")


def test_a_stale_block_is_found_and_renewed() -> None:
    """A block that somebody changed by hand is stale; renewing changes nothing else."""
    tables = script("docs-tables")
    page = "before\n<!-- metrics: instance -->\nold\n<!-- end -->\nafter <!-- a comment -->\n"
    ((name, found, made),) = tables.blocks(page)
    assert (name, found) == ("metrics: instance", "old\n")
    assert "`host_power_w`" in made
    renewed = tables.renewed(page)
    assert renewed == page.replace("old\n", made)
    assert [found == made for _, found, made in tables.blocks(renewed)] == [True]


def test_conditions_read_like_promql() -> None:
    """The words of a rule's condition name window, comparison and the limit at which it clears."""
    expression = script("docs-tables")._expression
    assert (
        expression({"figure": "lost", "increase_over": "30s", "above": 5, "clear": 0})
        == "increase(lost[30s]) > 5 (until 0)"
    )
    assert expression({"absent": True}) == "absent"
    assert expression({"figure": "health", "has": ["hbm", "sram"]}) == "health has any of hbm, sram"
    assert expression({"figure": "state", "equals": ["failed", "hung"]}) == "state == failed, hung"
    assert (
        expression(
            {"figure": "step_time_s", "share_of_median_of": "past", "past": "30m", "above": 1.1}
        )
        == "step_time_s / median(30m past) > 1.1"
    )
