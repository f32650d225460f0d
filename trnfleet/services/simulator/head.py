"""Name, PUE and caps of a simulator's fleet for its app, without a fleet file's models.

The models would cost 1.2 MiB and 0.04 s of the start for a few values. A user's own file is
validated anyway, so that its errors are reported before the app begins.
"""

from __future__ import annotations

from typing import NamedTuple

from trnfleet.config import find_file, load_toml, shipped_folder
from trnfleet.domain.site import PUE


class FleetHead(NamedTuple):
    """The beginning of a fleet's file."""

    name: str
    pue: float
    power_caps: tuple[tuple[str, float], ...]
    """Watts by place."""


def shipped_head(fleet: str) -> FleetHead | None:
    """Return the head of a shipped fleet.

    None for a user's own file.

    All shipped fleets are valid.

    Args:
        fleet: Name or file.

    Raises:
        ConfigError: there is no such fleet.
    """
    file = find_file("fleets", fleet)
    if file.parent != shipped_folder("fleets"):
        return None
    data = load_toml(file)
    return FleetHead(
        str(data["name"]), float(data.get("pue", PUE)), (*data.get("power_caps_w", {}).items(),)
    )
