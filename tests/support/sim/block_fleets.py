"""Fleets with Capacity Blocks for tests of the simulated account, and their engines."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from support.sim.fleets import shipped_fleet
from trnfleet.config import validate
from trnfleet.domain.fleet import FleetFile
from trnfleet.sim.engine import Engine, to_ns

START = datetime(2026, 1, 5, 9, tzinfo=UTC)
"""Two and a half hours before blocks end."""
END_S = 9_000.0
"""Of the first block of the demo, seconds after the start."""
DAY_S = 86_400


def demo() -> FleetFile:
    """Return the shipped demo."""
    return shipped_fleet("demo")


def engine_of(fleet: FleetFile, period_s: float = 60.0, **options: Any) -> Engine:
    """Return an engine at its fleet's start."""
    return Engine(fleet, 7, period_s, to_ns(fleet.start), **options)


def small(*blocks: dict[str, Any], jobs: tuple[dict[str, Any], ...] = (), **more: Any) -> FleetFile:
    """Return a fleet of two clusters.

    One has an UltraServer and four instances, the other two instances.
    """
    return validate(
        {
            "name": "small",
            "start": START,
            "clusters": [
                {
                    "name": "uc1",
                    "ultraservers": [{"count": 1}],
                    "instances": [
                        {"type": "trn2.48xlarge", "count": 3},
                        {"type": "trn1.32xlarge", "count": 1},
                    ],
                },
                {
                    "name": "uc2",
                    "zone": "us-east-2a",
                    "instances": [
                        {"type": "trn2.48xlarge", "count": 1},
                        {"type": "trn1n.32xlarge", "count": 1},
                    ],
                },
            ],
            "blocks": list(blocks),
            "jobs": list(jobs),
            **more,
        },
        FleetFile,
        "small.toml",
    )


TRAINING = {"kind": "training", "name": "train", "on": ["uc1/us-0001"], "startup_s": 60.0}
ULTRASERVER = {"on": ["uc1/us-0001"], "days": 7, "ends_after_days": 0}
