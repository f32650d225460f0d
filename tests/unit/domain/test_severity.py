"""The order of severities."""

from __future__ import annotations

import itertools

import pytest

from trnfleet.domain.severity import BY_RANK, Severity


def test_the_worst_is_first() -> None:
    """Sorting, `min` and the rank agree."""
    assert sorted([Severity.INFO, Severity.CRITICAL, Severity.WARNING]) == list(Severity)
    assert min(Severity) is Severity.CRITICAL
    assert max(Severity) is Severity.INFO
    assert [severity.rank for severity in BY_RANK] == [0, 1, 2]


@pytest.mark.parametrize(("worse", "better"), list(itertools.combinations(Severity, 2)))
def test_comparisons(worse: Severity, better: Severity) -> None:
    """All four comparisons go by severity, not alphabetically."""
    assert worse < better
    assert worse <= better
    assert better > worse
    assert better >= worse
    assert not better <= worse
    assert worse <= Severity(worse.value)
