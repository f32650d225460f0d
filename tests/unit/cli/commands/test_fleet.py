"""Claims of `trnfleet fleet compare` on terminals of several widths, and its files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from trnfleet.cli.commands.fleet import command

if TYPE_CHECKING:
    from pathlib import Path


def claims_on(monkeypatch: pytest.MonkeyPatch, columns: int | None) -> list[str]:
    """Return the lines of the claims about Trainium1, 2 and 3."""
    monkeypatch.setattr("trnfleet.cli.commands.fleet.stdout_columns", lambda: columns)
    result = CliRunner().invoke(command, ["compare", "trn1", "trn2", "trn3"])
    assert result.exit_code == 0, result.output
    _, _, claims = result.output.partition("what this catalogue gives:\n")
    return claims.partition("\n\n")[0].splitlines()


@pytest.mark.parametrize("columns", [40, 80, 120, 170, 200])
def test_claims_fit_the_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """Each line is at most as wide as the terminal, and no word is lost."""
    whole = claims_on(monkeypatch, None)
    fitted = claims_on(monkeypatch, columns)
    assert max(map(len, whole)) > columns
    assert max(map(len, fitted)) <= columns
    assert sum(line.count("2023-11") for line in fitted) == sum(
        line.count("2023-11") for line in whole
    )
    assert {"agrees", "sooner", "weeks,", "assumed"} <= {
        word.strip("();,") if word != "weeks," else word for line in fitted for word in line.split()
    }


def test_a_wide_terminal_and_a_file_have_the_source_in_a_column(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = claims_on(monkeypatch, None)
    assert claims_on(monkeypatch, max(map(len, whole))) == whole
    assert whole[0].endswith("source")


def test_a_source_that_has_no_room_is_below_its_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    head, first, below, *_ = claims_on(monkeypatch, 170)
    assert head.endswith("by")
    assert "4 x the speed" in first
    assert below == "    AWS blog at the launch of Trn2, 2024-12"


@pytest.mark.parametrize("does", ["describe", "compare"])
def test_a_fleet_file_needs_no_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str
) -> None:
    """It is a file of the folder before it is a name."""
    (tmp_path / "own").write_text(
        'name = "one"\nclusters = [{ name = "uc1", ultraservers = [{ count = 1 }] }]\n'
    )
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(command, [does, "own"])
    assert result.exit_code == 0, result.exception
    assert "83.2 PFLOP/s" in result.output
