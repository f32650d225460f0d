"""Counters of a host's EFA adapters, as the kernel has them since its driver was loaded."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from trnfleet.bridge.neuron.values import EFA

if TYPE_CHECKING:
    from pathlib import Path

_COUNTERS = {
    "tx_bytes": "efa_tx_bytes_per_s",
    "rx_bytes": "efa_rx_bytes_per_s",
    "retrans_pkts": "efa_retransmits",
    **{name.removeprefix("efa_"): name for name in EFA if name != "efa_retransmits"},
}
"""Metric of each counter, by the name of its file."""
EFA_METRICS = tuple(_COUNTERS.values())
"""Metrics that the adapters can have."""


class EfaCounters:
    """Sums over all adapters and their rates."""

    def __init__(self, root: Path) -> None:
        """Read nothing yet.

        Args:
            root: The host's root directory.
        """
        self._folder = root / "sys/class/infiniband"
        self._last: dict[Path, int] = {}
        self._last_s = 0.0

    def adapters(self) -> list[str]:
        """Return the names of the adapters with counters."""
        return sorted({path.parts[-4] for path in self._folder.glob("*/ports/*/hw_counters")})

    def read(self, now_s: float) -> dict[str, float]:
        """Return the known metrics; rates only from the second reading on.

        Args:
            now_s: Monotonic seconds.

        Raises:
            OSError: a counter cannot be read.
        """
        counts = {
            path: _count(path)
            for folder in sorted(self._folder.glob("*/ports/*/hw_counters"))
            for path in (folder / file for file in _COUNTERS)
            if path.exists()
        }
        elapsed_s = now_s - self._last_s
        values: dict[str, float] = {}
        for file, name in _COUNTERS.items():
            paths = [path for path in counts if path.name == file]
            if not paths:
                continue
            if not name.endswith("_per_s"):
                values[name] = sum(counts[path] for path in paths)
            # An adapter that is new, or began again, would add all that it ever counted.
            elif elapsed_s > 0 and all(counts[path] >= self._last.get(path, inf) for path in paths):
                values[name] = sum(counts[path] - self._last[path] for path in paths) / elapsed_s
        self._last = counts
        self._last_s = now_s
        return values


def _count(path: Path) -> int:
    text = path.read_text(encoding="ascii", errors="replace").strip()
    if not (text.isascii() and text.isdecimal() and len(text) < 21):
        raise OSError(f"{path}: must be a count")
    return int(text)
