"""The shipped export of Neuron Observer."""

from __future__ import annotations

import re

from support.paths import CONFIG

from trnfleet.bridge.neuron.observer import DEVICE_LABELS, PLACES, SYSTEM_LABELS

FILE = CONFIG / "observer" / "exports.yaml"


def test_every_metric_is_read_and_none_is_missing() -> None:
    """Its names are those with a place, except parts of sums; nothing is aggregated."""
    text = FILE.read_text(encoding="utf-8")
    metrics, info = re.split(r"^aggregations: \[\]$", text, flags=re.MULTILINE)
    exported = set(re.findall(r"^  - (\w+)$", metrics, re.MULTILINE))
    read = {name.partition("_")[2] for name in PLACES if not name.startswith(("vcpu_", "core_dev"))}
    assert exported == read - {"mem_ecc_uncorrected"}
    labels = set(re.findall(r"^    - (\w+)$", info, re.MULTILINE))
    assert labels == {*SYSTEM_LABELS, *DEVICE_LABELS} - {"instance_id"}
