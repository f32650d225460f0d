"""Links back to alerts."""

from __future__ import annotations

import pytest

from trnfleet.domain.alerts.links import generator_url

LABELS = {"fleet": "demo", "alertname": "hot", "target": "uc1/us-0001/i 0:nc1", "job": "j"}
QUERY = "fleet=demo&alertname=hot&target=uc1%2Fus-0001%2Fi+0%3Anc1"


@pytest.mark.parametrize(
    ("base", "link"),
    [
        ("", ""),
        ("https://dash.example", f"https://dash.example?{QUERY}"),
        ("https://dash.example/d/1?org=7#top", f"https://dash.example/d/1?org=7&{QUERY}#top"),
    ],
)
def test_a_link_names_the_alert(base: str, link: str) -> None:
    """The alert is added to the query of the operator's URL.

    Without a URL there is no link.
    """
    assert generator_url(base, LABELS) == link
