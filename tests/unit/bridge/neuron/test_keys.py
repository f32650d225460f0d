"""The table of documented keys matches the reader: each key is changed in turn."""

from __future__ import annotations

import copy
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from support.paths import FIXTURES

from trnfleet.bridge.neuron.documents import DocumentWriter, Host
from trnfleet.bridge.neuron.host_reader import HostReader
from trnfleet.bridge.neuron.keys import KEYS, Key, Use
from trnfleet.domain.hardware.catalogue import INSTANCE_TYPES
from trnfleet.domain.metrics import METRICS
from trnfleet.errors import ConfigError, WireError

if TYPE_CHECKING:
    from collections.abc import Iterator

SAMPLE = FIXTURES / "neuron-monitor" / "trn2.48xlarge-indented.json"


def whole_document() -> dict[str, Any]:
    """Return a document with every documented key."""
    document: dict[str, Any] = json.JSONDecoder().raw_decode(SAMPLE.read_text())[0]
    document["instance_info"] |= {"instance_name": "node-1", "ultraserver_id": "us-1"}
    report = document["neuron_runtime_data"][0]["report"]
    report["execution_stats"]["error_summary"]["generic"] = 5
    for facts in report["neuroncore_counters"]["neuroncores_in_use"].values():
        facts["effective_flops"] = facts["flops"]
    for number, group in enumerate(report.values()):
        group["period"] = 1.01 + number / 100  # so that each may be the median
    return document


def places(
    value: Any, path: str = "", keys: tuple[Any, ...] = ()
) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the path, as the table writes it, and the keys of every leaf."""
    if isinstance(value, dict) and value:
        for key, each in value.items():
            yield from places(each, f"{path}.{named(path, key)}".lstrip("."), (*keys, key))
    elif isinstance(value, list) and value:
        for number, each in enumerate(value):
            yield from places(each, f"{path}[]", (*keys, number))
    elif value not in (None, [], {}):
        yield path, keys


def named(path: str, key: str) -> str:
    if path.endswith("usage_data"):
        return "<cpu>"
    if path.endswith("subgraphs"):
        return "<subgraph>"
    if path.endswith("neurondevices_k8s_info"):
        return "<device>"
    return re.sub(r"\d+$", "<core>", key) if re.fullmatch(r"\d+|nc_v3\.\d+", key) else key


def outcome(document: dict[str, Any]) -> Any:
    """Return all values read of a document, or the error."""
    reader = HostReader()
    try:
        reader.read(json.dumps(document).encode())
    except (WireError, ConfigError) as error:
        return str(error)
    columns = {name: codes.tobytes() for name, codes in reader.columns.items()}
    identity = (
        reader.kind.name,
        reader.ec2_id,
        reader.host,
        reader.ultraserver,
        reader.lnc,
        reader.period_s,
        reader.tagged,
    )
    return columns, identity, reader.versions


def others(value: Any) -> list[Any]:
    """Return possible replacements of a value."""
    if isinstance(value, str):
        return ["another", ""]
    return [value * 3 + 7, value + 2**30, 0, 1, 0.25]


def without(document: dict[str, Any], path: str) -> None:
    """Remove a path from a document; `*` in it is any key."""
    pattern = re.escape(path).replace(r"\*", r"[^.]*") + r"(\..*)?"
    depth = path.count(".") + path.count("[]")
    for found, keys in list(places(document)):
        if re.fullmatch(pattern, found):
            place: Any = document
            for key in keys[:depth]:
                place = place[key]
            place.pop(keys[depth], None)


DOCUMENT = whole_document()


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.path)
def test_a_key_is_read_or_dropped_as_the_table_says(key: Key) -> None:
    """Changing a read or derived key has an effect, changing a dropped one has none."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    document = copy.deepcopy(DOCUMENT)
    if key.instead_of:
        for path in key._replace(path=key.instead_of).paths:
            without(document, path)
    for path, keys in places(document):
        found.setdefault(path, []).append(keys)
    before = outcome(document)
    for path in key.paths:
        differences = 0
        for *parents, last in found[path]:
            place: Any = document
            for each in parents:
                place = place[each]
            whole = place[last]
            for value in others(whole):
                place[last] = value
                differences += outcome(document) != before
            place[last] = whole
        assert bool(differences) == (key.use is not Use.DROPPED), path


def test_every_key_is_in_the_table() -> None:
    """The table has all documented and all written keys."""
    told = {path for key in KEYS for path in key.paths}
    assert {path for path, _ in places(DOCUMENT)} == told

    kind = INSTANCE_TYPES["trn2u.48xlarge"]
    columns = {metric.name: metric.blank(16 if metric.scope == "chip" else 1) for metric in METRICS}
    for name, codes in columns.items():
        codes[...] = 0 if name.startswith("links") else 9
    written = json.loads(
        DocumentWriter(Host("uc1/us-0001/a", kind, 2, "i-1", "us-east-2b")).write(columns, 1.0)
    )
    writable = {path for key in KEYS if key.writing for path in key.paths}
    absent = {path for path in writable if "device_latency" in path}
    assert {path for path, _ in places(written)} == writable - absent
