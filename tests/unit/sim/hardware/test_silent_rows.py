from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from trnfleet.domain.metrics import BY_NAME, Scope
from trnfleet.sim.hardware.silent_rows import SilentRows

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from trnfleet.sim.engine import Engine


@pytest.fixture
def engine(make_engine: Callable[..., Engine]) -> Engine:
    """Return an engine of three instances with values in every column.

    One with one chip is between two with sixteen.
    """
    kinds = [
        {"type": "trn2.48xlarge", "count": 1, "first": 1},
        {"type": "trn2.3xlarge", "count": 1, "first": 2},
        {"type": "trn2.48xlarge", "count": 1, "first": 3},
    ]
    made = make_engine(clusters=[{"name": "c", "instances": kinds}])
    for name, column in made.columns.items():
        column[:] = np.arange(column.size).reshape(column.shape) % min(BY_NAME[name].top, 250)
    return made


def flags(count: int, *silent: int) -> NDArray[np.bool_]:
    result = np.zeros(count, np.bool_)
    result[list(silent)] = True
    return result


def copy(columns: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name: column.copy() for name, column in columns.items()}


def rows_of(engine: Engine, name: str, instance: int) -> slice:
    if BY_NAME[name].scope is Scope.INSTANCE:
        return slice(instance, instance + 1)
    return slice(
        int(engine.layout.chip_start[instance]), int(engine.layout.chip_start[instance + 1])
    )


@pytest.mark.parametrize("silent", [0, 1, 2])
def test_silent_rows_say_not_available_and_no_other_does(engine: Engine, silent: int) -> None:
    """A silent instance and its chips have the top code in all lanes.

    This applies to every metric. Other rows are unchanged.
    """
    before = copy(engine.columns)
    SilentRows(engine.layout, engine.columns).hide(flags(3, silent), range(3))
    for name, column in engine.columns.items():
        hidden = rows_of(engine, name, silent)
        assert (column[hidden] == BY_NAME[name].top).all(), name
        others = np.ones(len(column), np.bool_)
        others[hidden] = False
        assert np.array_equal(column[others], before[name][others]), name


def test_what_is_hidden_comes_back_and_goes_on(engine: Engine) -> None:
    """Hidden values are restored between two outages; counters continue."""
    silence = SilentRows(engine.layout, engine.columns)
    before = copy(engine.columns)
    for passed in range(1, 4):
        silence.hide(flags(3, 0, 2), range(3))
        silence.restore()
        assert engine.columns["mem_ecc_corrected"][0] == before["mem_ecc_corrected"][0] + passed - 1
        engine.columns["mem_ecc_corrected"][0] += 1
    assert engine.columns["mem_ecc_corrected"][0] == before["mem_ecc_corrected"][0] + 3
    engine.columns["mem_ecc_corrected"][0] -= 3
    assert all(np.array_equal(engine.columns[name], before[name]) for name in before)


def test_lifting_twice_takes_nothing_back(engine: Engine) -> None:
    """Values are restored once, and not written over later ones."""
    silence = SilentRows(engine.layout, engine.columns)
    silence.hide(flags(3, 0), range(3))
    silence.restore()
    engine.columns["exec_errors"][0] = 77
    silence.restore()
    assert engine.columns["exec_errors"][0] == 77


def test_another_shards_instances_are_none_of_ours(engine: Engine) -> None:
    """Only own rows are hidden; an empty shard hides none."""
    before = copy(engine.columns)
    silence = SilentRows(engine.layout, engine.columns)
    silence.hide(flags(3, 0, 2), range(1, 2))
    silence.hide(flags(3, 0, 2), range(3, 3))
    assert all(np.array_equal(engine.columns[name], before[name]) for name in before)
    silence.hide(flags(3, 0, 2), range(2, 3))
    assert (engine.columns["exec_errors"][17:] == BY_NAME["exec_errors"].top).all()
    assert np.array_equal(engine.columns["exec_errors"][:17], before["exec_errors"][:17])
