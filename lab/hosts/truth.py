"""Comparison of published hosts with the simulator that feeds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trnfleet.domain.metrics import BY_NAME, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

_EFA_SHARE = 0.3
"""Share by which a rate may differ: the counters are written and read at other moments."""


class HostTold(NamedTuple):
    """Published and simulated wire codes of a host by metric, at a begin and an end.

    Of the simulator's there are several ticks: a host is a tick or two late.
    """

    begin: Mapping[str, NDArray[Any]]
    end: Mapping[str, NDArray[Any]]
    true_begins: Sequence[Mapping[str, NDArray[Any]]]
    true_ends: Sequence[Mapping[str, NDArray[Any]]]


def differences(hosts: Sequence[HostTold]) -> dict[str, tuple[int, int]]:
    """Return how many values of each metric are known, and how many differ from the truth."""
    found: dict[str, tuple[int, int]] = {}
    for host in hosts:
        for name in host.end:
            if BY_NAME[name].is_simulated:
                known, wrong = found.get(name, (0, 0))
                one = _compare(name, host)
                found[name] = (known + one[0], wrong + one[1])
    return found


def _compare(name: str, host: HostTold) -> tuple[int, int]:
    metric = BY_NAME[name]
    told = metric.decode(host.end[name])
    truths = [metric.decode(each[name]) for each in host.true_ends]
    if metric.kind is Kind.COUNTER:
        # They begin at other moments: what is compared is the increase.
        told = told - metric.decode(host.begin[name])
        begins = [metric.decode(each[name]) for each in host.true_begins]
        truths = [end - begin for end in truths for begin in begins]
    is_known = ~np.isnan(told)
    is_same = np.zeros(told.shape, np.bool_)
    for truth in truths:
        is_same |= np.abs(told - truth) <= _tolerance(name, truth)
    return int(np.count_nonzero(is_known)), int(np.count_nonzero(is_known & ~is_same))


def _tolerance(name: str, truth: NDArray[np.float64]) -> Any:
    """Return the largest difference by the precision of the formats."""
    if name.startswith("efa_") and name.endswith("_per_s"):
        return _EFA_SHARE * truth + 1e8
    return 1.01 * BY_NAME[name].scale
