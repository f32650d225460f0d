"""Comparison of published hosts with the simulator that feeds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trnfleet.domain.metrics import BY_NAME, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

_EFA_SHARE = 0.3
"""Share by which a rate of `make hosts` may differ: the counters are written and read at other
moments."""


class HostTold(NamedTuple):
    """Published and simulated wire codes of a host by metric, at a begin and an end.

    At both the simulated values have stood still for long enough to be published.
    """

    begin: Mapping[str, NDArray[Any]]
    end: Mapping[str, NDArray[Any]]
    true_begin: Mapping[str, NDArray[Any]]
    true_end: Mapping[str, NDArray[Any]]
    has_tree: bool = True
    """Whether the driver's sysfs was read, not only an exporter's page."""

    @property
    def untold_memory(self) -> NDArray[np.bool_]:
        """Mask of the chips without a process, whose memory only the driver's sysfs has.

        An exporter lists the memory of processes. The driver's own, some 1 % of a chip, is not in
        its page, and the chip has 0.
        """
        busy = np.nan_to_num(BY_NAME["nc_util_pct"].decode(self.true_end["nc_util_pct"]))
        mask: NDArray[np.bool_] = (busy == 0).all(axis=1)
        return mask & (not self.has_tree)


def differences(
    hosts: Sequence[HostTold], efa_share: float = _EFA_SHARE
) -> dict[str, tuple[int, int]]:
    """Return how many values of each metric are known, and how many differ from the truth.

    Args:
        hosts: The hosts.
        efa_share: Share by which a rate of EFA may differ.
    """
    found: dict[str, tuple[int, int]] = {}
    for host in hosts:
        for name in host.end:
            if BY_NAME[name].is_simulated:
                known, wrong = found.get(name, (0, 0))
                one = _compare(name, host, efa_share)
                found[name] = (known + one[0], wrong + one[1])
    return found


def _compare(name: str, host: HostTold, efa_share: float) -> tuple[int, int]:
    metric = BY_NAME[name]
    told = metric.decode(host.end[name])
    truth = metric.decode(host.true_end[name])
    if metric.kind is Kind.COUNTER:
        # They begin at other moments: what is compared is the increase.
        told = told - metric.decode(host.begin[name])
        truth = truth - metric.decode(host.true_begin[name])
    is_known = ~np.isnan(told)
    if name == "hbm_used_bytes":
        is_known &= ~host.untold_memory
    is_same = np.abs(told - truth) <= _tolerance(name, truth, efa_share)
    return int(np.count_nonzero(is_known)), int(np.count_nonzero(is_known & ~is_same))


def _tolerance(name: str, truth: NDArray[np.float64], efa_share: float) -> Any:
    """Return the largest difference by the precision of the formats."""
    if name.startswith("efa_") and name.endswith("_per_s"):
        return efa_share * truth + 1.01 * BY_NAME[name].scale
    return 1.01 * BY_NAME[name].scale
