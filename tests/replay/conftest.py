"""What tests of playbacks share."""

from __future__ import annotations

import pytest
from support.monitor.playback_bench import played


@pytest.fixture(scope="session")
def _played_before() -> None:
    """Play the run before any test has a loop."""
    played()
