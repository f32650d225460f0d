"""Lines of an engine's ticks, as `simulate --stdout` writes them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from trnfleet.sim.publish.telemetry import Include, stdout_ticks

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from trnfleet.sim.engine import Engine


def stdout_lines(
    engine: Engine, *, ticks: int | None = None, include: Collection[Include] = (Include.TELEMETRY,)
) -> Iterator[bytes]:
    """Yield the lines of all ticks one after the other."""
    return itertools.chain.from_iterable(stdout_ticks(engine, ticks=ticks, include=include))
