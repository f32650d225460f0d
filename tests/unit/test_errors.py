from __future__ import annotations

import pytest

from trnfleet.errors import BrokerError, ConfigError, TrnfleetError, WireError, nearest


@pytest.mark.parametrize("kind", [ConfigError, WireError, BrokerError])
def test_every_error_is_caught_as_one_of_ours(kind: type[TrnfleetError]) -> None:
    """The base class catches every error, with its message unchanged."""
    with pytest.raises(TrnfleetError, match=r"^demo\.toml: key 'name' is missing$"):
        raise kind("demo.toml: key 'name' is missing")


def test_a_fault_in_the_program_is_not_one_of_ours() -> None:
    """A bug's exception is not explained in one line."""
    assert not issubclass(ValueError, TrnfleetError)
    assert TrnfleetError.__bases__ == (Exception,)


@pytest.mark.parametrize(
    ("name", "choices", "clause"),
    [
        ("dmeo", ["demo", "lab"], "did you mean 'demo'?"),
        ("power", ["power_w", "temperature_c"], "did you mean 'power_w'?"),
        ("demo", ["demo"], "did you mean 'demo'?"),
        ("zzz", ["lab", "demo"], "choose from demo, lab"),
        ("", ["lab", "demo"], "choose from demo, lab"),
        ("demo", [], "there are none"),
    ],
)
def test_nearest_names_a_choice(name: str, choices: list[str], clause: str) -> None:
    """A near choice is named, otherwise all in order.

    An empty list is reported so.
    """
    assert nearest(name, choices) == clause


def test_nearest_takes_any_iterable() -> None:
    """Choices may be a table's keys, or a generator, read once."""
    assert nearest("simulat", {"monitor": 1, "simulate": 2}) == "did you mean 'simulate'?"
    assert nearest("x", (name for name in ("b", "a"))) == "choose from a, b"
