from __future__ import annotations

import pytest

from trnfleet.errors import BrokerError, ConfigError
from trnfleet.services.discovery import choose_fleet


def test_the_only_fleet_or_the_only_live_one_is_chosen() -> None:
    assert choose_fleet({"a": False}, "b:1") == "a"
    assert choose_fleet({"a": False, "b": True}, "b:1") == "b"
    with pytest.raises(BrokerError, match="b:1 has no fleet yet"):
        choose_fleet({}, "b:1")
    with pytest.raises(
        ConfigError,
        match=(
            r"b:1 has several fleets: name those to read with --name, or read all with"
            r" --all-fleets; .*a, b"
        ),
    ):
        choose_fleet({"a": True, "b": True}, "b:1")
