"""Descriptors that are read by their form: the same as the model reads, and what the model refuses is refused in its words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.monitor.feed import with_columns

from trnfleet.errors import WireError
from trnfleet.monitor.sources import descriptors
from trnfleet.monitor.sources.descriptor_forms import (
    LEARN_EVERY,
    LONGEST_BYTES,
    MOST_FORMS,
    DescriptorForms,
)
from trnfleet.monitor.sources.descriptors import CompactDescriptor
from trnfleet.wire.limits import Limits

NAMES = st.text("abcXYZ019-_", min_size=1, max_size=64)


def message(number: int = 0, **changes: Any) -> dict[str, Any]:
    """Return a host's descriptor, as an agent writes it."""
    path = f"uc1/us-{number:04}/trn2u-{number:04}-0"
    return {
        "v": 1, "path": path, "publisher": f"host-{number}", "boot": f"{number:016x}", "revision": number % 3, "period_s": 1.0,
        "clock": {"epoch": "2026-01-05T00:00:00Z", "speed": 1.0}, "replay": False, "origin": "neuron",
        "instances": [
            {"path": path, "type": "trn2u.48xlarge", "ec2_id": f"i-{number:017x}", "lnc": 2, "versions": {"driver": "100 %d"}}
        ],
        "column_set": "standard/1",
    } | changes  # fmt: skip  # one line a part


def written(data: dict[str, Any], *, is_wide: bool = False) -> bytes:
    """Return a message's bytes, as compact as ours or as others write it."""
    return json.dumps(data, separators=None if is_wide else (",", ":")).encode()


def host(names: tuple[str, str, str, str, str], **changes: Any) -> dict[str, Any]:
    """Return a host's descriptor with names: cluster, UltraServer, instance, publisher and boot."""
    data = message(**changes)
    data["path"] = data["instances"][0]["path"] = "/".join(names[:3])
    return data | {"publisher": names[3], "boot": names[4]}


@pytest.fixture(autouse=True)
def forms(monkeypatch: pytest.MonkeyPatch) -> DescriptorForms[CompactDescriptor]:
    """Give the test forms of its own."""
    own: DescriptorForms[CompactDescriptor] = DescriptorForms()
    monkeypatch.setattr(descriptors, "_FORMS", own)
    return own


def read_by_model(payload: bytes) -> CompactDescriptor | str:
    """Return what becomes of a descriptor where no form is known."""
    known, descriptors._FORMS = descriptors._FORMS, DescriptorForms()
    try:
        return read(payload)
    finally:
        descriptors._FORMS = known


def read(payload: bytes) -> CompactDescriptor | str:
    """Return what becomes of a descriptor: as it is kept, or why it is refused."""
    try:
        return CompactDescriptor.of(payload)
    except WireError as error:
        return str(error)


def learn(*payloads: bytes) -> DescriptorForms[CompactDescriptor]:
    """Read descriptors until the form of each is known."""
    for payload in payloads:
        for _ in range(LEARN_EVERY):
            CompactDescriptor.of(payload)
    return descriptors._FORMS


WAYS = {
    "by name": message(),
    "one by one": with_columns(written(message())),
    "no EC2 id": message(
        instances=[{"path": message()["path"], "type": "trn2.48xlarge"}],
        origin="simulated",
        revision=7,
    ),
    "under a lease": message(forwarded={"cell": "cell-a", "relay": "relay-1", "boot": "b00t"}),
}


@pytest.mark.parametrize("is_wide", [False, True])
@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=20)
@given(
    names=st.tuples(NAMES, NAMES, NAMES, NAMES, NAMES),
    revision=st.integers(0, 2**53),
    epoch=st.datetimes().map(lambda each: each.isoformat() + "+01:00"),
    ec2_id=st.text("abc-019", max_size=256),
)
def test_a_form_reads_what_the_model_reads(
    way: str,
    is_wide: bool,
    names: tuple[str, str, str, str, str],
    revision: int,
    epoch: str,
    ec2_id: str,
) -> None:
    """Whatever a host's names are, it is kept as the model has it, or refused as by the model."""
    descriptors._FORMS = DescriptorForms()
    forms = learn(written(WAYS[way], is_wide=is_wide))
    data = json.loads(json.dumps(WAYS[way]))
    data["path"] = data["instances"][0]["path"] = "/".join(names[:3])
    data |= {"publisher": names[3], "boot": names[4], "revision": revision}
    data["clock"]["epoch"] = epoch
    if "ec2_id" in data["instances"][0]:
        data["instances"][0]["ec2_id"] = ec2_id
    payload = written(data, is_wide=is_wide)
    kept = read(payload)
    assert kept == read_by_model(payload)
    if not isinstance(kept, str) and revision < 10**15:
        assert forms.find(payload) is not None


@given(at=st.integers(0, 400), insert=st.binary(max_size=3), cut=st.integers(0, 3))
def test_a_damaged_descriptor_is_read_as_by_the_model(at: int, insert: bytes, cut: int) -> None:
    """Wherever its bytes are changed, what becomes of a descriptor is what the model makes of it, with the same words."""
    descriptors._FORMS = DescriptorForms()
    learn(written(message()))
    payload = written(message(5))
    damaged = payload[:at] + insert + payload[at + cut :]
    assert read(damaged) == read_by_model(damaged)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"publisher": "a b"}, "publisher"),
        ({"boot": "x" * 65}, "boot"),
        ({"path": "uc1/us-0009"}, "not below its path"),
        ({"clock": {"epoch": "2026-02-30T00:00:00Z", "speed": 1.0}}, "epoch"),
        ({"clock": {"epoch": "2200-01-01T00:00:00Z", "speed": 1.0}}, "epoch"),
        ({"period_s": 0}, "period_s"),
        ({"column_set": "standard/2"}, "column_set"),
        ({"publisher": "a", "revision": 2**60}, "revision"),
    ],
)
def test_what_a_form_does_not_fit_is_refused_by_the_model(
    change: dict[str, Any], words: str
) -> None:
    """A wrong value in an open place, and any in another, has the error that it has without forms."""
    learn(written(message()))
    payload = written(message(1) | change)
    with pytest.raises(WireError, match=words) as caught:
        CompactDescriptor.of(payload)
    assert str(caught.value) == read_by_model(payload)


@pytest.mark.parametrize(
    "payload",
    [
        # The names that count are not those that look so.
        written(message()).replace(b'"boot":', b'"boot" :').replace(b'"replay"', b'"x":{"boot":"0000000000000000"},"replay"'),
        written(message()).replace(b'"replay"', b'"boot":"0000000000000000","replay"'),
        written(message()).replace(b'"replay"', b'"x":[{"publisher":"host-0"}],"replay"'),
        written(message()).replace(b'"path"', b'"p\\u0061th"', 1),
        written(message(instances=message()["instances"] + [{"path": "uc1/us-0000/b", "type": "trn2.48xlarge"}], path="uc1/us-0000")),
    ],
    ids=["nested", "twice", "in a list", "escaped", "two instances"],
)  # fmt: skip  # one line a message
def test_no_form_is_learned_whose_places_are_not_certain(payload: bytes) -> None:
    """Where a name's place cannot be told, descriptors are the model's to read."""
    forms = learn(payload)
    assert forms.find(payload) is None
    assert read(payload) == read_by_model(payload)


def test_forms_are_few_and_those_in_use_stay() -> None:
    """A publisher of ever new forms pushes out none that fits what others send, and no more are kept than some."""
    forms = learn(written(message()))
    for number in range(3 * MOST_FORMS):
        learn(written(message(period_s=1.0 + number)))
        CompactDescriptor.of(written(message(number)))
    assert forms.find(written(message(9))) is not None
    known = [
        number
        for number in range(3 * MOST_FORMS)
        if forms.find(written(message(period_s=1.0 + number)))
    ]
    assert len(known) <= MOST_FORMS


def test_no_form_is_learned_of_a_large_descriptor() -> None:
    """What a publisher adds to make it large costs no pattern of that size, and is read as ever."""
    large, small = (written({"note": "x" * size, **message()}) for size in (LONGEST_BYTES, 1))
    assert learn(large).find(large) is None
    assert learn(small).find(small) is not None
    assert read(large) == read_by_model(large)


def test_no_more_is_read_than_the_limit() -> None:
    """A descriptor over the limit in bytes is refused although it fits a form."""
    payload = written(message())
    learn(payload)
    with pytest.raises(WireError, match="over the limit"):
        CompactDescriptor.of(payload, Limits(payload_bytes=100))
