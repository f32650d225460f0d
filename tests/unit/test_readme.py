from __future__ import annotations

import re

import pytest
from support.paths import ROOT

from trnfleet.domain.metrics import CHIP_METRICS, INSTANCE_METRICS, Metric

README = ROOT / "README.md"


def table(metrics: tuple[Metric, ...]) -> str:
    """Return the README's table of metrics."""
    rows = ["| metric | unit | lanes | what | on a real host |", "|---|---|---|---|---|"]
    rows += [
        f"| `{m.name}` | {m.unit} | {m.width if m.is_vector else ''} | {m.help} | {m.real_host}: {m.real_source} |"
        for m in metrics
    ]
    return "\n".join(rows)


@pytest.mark.parametrize(("scope", "metrics"), [("chip", CHIP_METRICS), ("instance", INSTANCE_METRICS)])
def test_metrics_are_those_of_the_table(scope: str, metrics: tuple[Metric, ...]) -> None:
    """The README's metric tables are what the metric table says; paste what the failure shows to mend them."""
    found = re.search(rf"<!-- metrics: {scope} -->\n(.*?)\n?<!-- end -->", README.read_text(), re.DOTALL)
    assert found is not None
    assert found[1] == table(metrics)
