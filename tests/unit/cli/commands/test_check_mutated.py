"""Files of every kind with one value replaced by any other.

`check` names the error, and never fails.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.paths import ROOT

from trnfleet.cli.commands.check import _check
from trnfleet.errors import TrnfleetError


def shipped(kind: str, name: str) -> dict[str, Any]:
    """Return the content of a file that ships."""
    return tomllib.loads((ROOT / "config" / kind / f"{name}.toml").read_text())


DOCUMENTS: dict[str, dict[str, Any]] = {
    "fleet": shipped("fleets", "lab"),
    "scenario": {
        "title": "t",
        "fleet": "lab",
        "faults": [
            {"fault": "runtime_crash", "target": "lab/standalone/trn2-0001/chip00", "at": "40s"}
        ],
    },
    "rules": {"rules": shipped("alerts", "hardware")["rules"][:4]},
    "tests": {
        "interval": "1s",
        "tests": [
            {
                "name": "t",
                "instances": [{"address": "uc1/us-0001/trn2u-0-0..trn2u-0-3"}],
                "series": [
                    {"figure": "power_w", "target": "uc1/us-0001", "values": "300x10 stale"}
                ],
                "expect": [{"at": "10s", "rule": "ultraserver-silent"}],
            }
        ],
    },
    "settings": {
        "common": {"broker": "mqtt://127.0.0.1:1883", "name": "demo", "log-level": "info"},
        "simulate": {"seed": 7, "period": "1s", "speed": 2.0, "scenario": "job-crash"},
        "watch": {"rules": ["a.toml"]},
        "record": {"split": "1GiB", "keep": "1h"},
        "monitor": {"past": "1GiB", "bell": True, "pue": 1.1},
    },
}
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["", "1e999", "1s", "-1", "\x00", "a/b/c", "{}", "inf", dt.date(2026, 1, 1)]),
    st.sampled_from([dt.datetime(2026, 1, 1, tzinfo=dt.UTC), dt.time(1)]),
    st.recursive(
        st.just({}),
        lambda inner: (
            st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
        ),
        max_leaves=3,
    ),
)


def toml(value: Any) -> str:
    """Return a value as TOML writes it in one line."""
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{json.dumps(key)} = {toml(each)}" for key, each in value.items())
            + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, str):
        return json.dumps(value).replace("\\ud", "?").replace("\x7f", "?")
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value)


def places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the ways to everything in a document."""
    parts = (
        list(value.items())
        if isinstance(value, dict)
        else list(enumerate(value))
        if isinstance(value, list)
        else []
    )
    return [way, *(deeper for key, each in parts for deeper in places(each, (*way, key)))]


def replaced(value: Any, way: tuple[Any, ...], by: Any) -> Any:
    """Return a copy of a document with one value replaced, or removed for None."""
    if not way:
        return by
    copy = dict(value) if isinstance(value, dict) else list(value)
    if len(way) == 1 and by is None:
        del copy[way[0]]
    else:
        copy[way[0]] = replaced(value[way[0]], way[1:], by)
    return copy


@pytest.mark.parametrize("kind", DOCUMENTS)
@settings(max_examples=8, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_any_value_is_valid_or_named(kind: str, data: st.DataObject) -> None:
    """A wrong value of any type ends in an error that names the file.

    No other exception escapes from any reader.
    """
    document = DOCUMENTS[kind]
    way = data.draw(st.sampled_from(places(document)[1:]))
    changed = replaced(document, way, data.draw(VALUES))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.toml"
        path.write_text(
            "\n".join(f"{json.dumps(key)} = {toml(each)}" for key, each in changed.items())
        )
        with contextlib.suppress(TrnfleetError):
            _check(path)


def test_a_series_without_values_is_one_of_which_nothing_comes(tmp_path: Path) -> None:
    """An empty list of values is no failure: at no time is there a value."""
    series = [{**DOCUMENTS["tests"]["tests"][0]["series"][0], "values": []}]
    test = {**DOCUMENTS["tests"]["tests"][0], "series": series}
    file = tmp_path / "tests.toml"
    file.write_text(f'interval = "1s"\ntests = {toml([test])}\n')
    with contextlib.suppress(TrnfleetError):
        assert _check(file)[1] == []


def test_a_setting_of_a_wrong_type_is_named(tmp_path: Path) -> None:
    """A table, a list or a date is refused in place of one value.

    One value or a list of tables is refused in place of several.
    """
    file = tmp_path / "settings.toml"
    for line, said in (
        ("seed = {}", "seed = {}: a table, not a number or text"),
        ("seed = [1]", "seed = [1]: a list, not a number or text"),
        ("seed = 2026-01-01", "a date or time, not a number or text: put it in quotes"),
    ):
        file.write_text(f"[simulate]\n{line}\n")
        with pytest.raises(TrnfleetError) as found:
            _check(file)
        assert said in str(found.value)
