from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.monitor.feed import Feed, ultraservers

if TYPE_CHECKING:
    from trnfleet.monitor.summary import Summary


@pytest.fixture(scope="session")
def summary() -> Summary:
    """Return the summary of two UltraServers with values."""
    feed = Feed(ultraservers(2))
    feed.scatter()
    feed.describe()
    feed.tick()
    return feed.monitor.summary()
