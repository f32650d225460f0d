"""Identity of a host in its documents: type, EC2 id, LNC, versions and period."""

from __future__ import annotations

from typing import Any

import pytest
from support.neuron import feed, trn2

from trnfleet.bridge.neuron.fields import read_period
from trnfleet.bridge.neuron.host_reader import DEFAULT_PERIOD_S, HostReader
from trnfleet.errors import ConfigError, WireError


def test_who_the_host_is() -> None:
    """Type, EC2 id, LNC and versions are the host's own.

    Their revision rises with a change.
    """
    reader = HostReader()
    feed(reader, trn2(0), trn2(1))

    assert reader.kind.name == "trn2.48xlarge"
    assert (reader.ec2_id, reader.lnc, reader.revision) == ("i-0f1e2d3c4b5a69788", 2, 0)
    assert reader.versions == {
        "device": "trainium2",
        "device_version": "v4",
        "neuroncore_version": "v3d",
    }

    changed = trn2()
    changed["neuron_hardware_info"] |= {
        "neuroncore_per_device_count": 8,
        "logical_neuroncore_config": 1,
    }
    feed(reader, changed)
    assert (reader.lnc, reader.revision) == (1, 1)


@pytest.mark.parametrize(
    ("told", "hardware", "expected"),
    [
        ("trn2n.48xlarge", {}, "trn2u.48xlarge"),
        ("", {}, "trn2.48xlarge"),
        ("", {"neuron_device_count": 1}, "trn2.3xlarge"),
        ("", {"neuron_device_type": "trainium", "neuron_device_count": 16}, "trn1.32xlarge"),
    ],
)
def test_the_type_by_a_former_name_or_by_its_chips(
    told: str, hardware: dict[str, Any], expected: str
) -> None:
    """Where the metadata service is closed to a host, its chips tell what it is."""
    document = trn2()
    document["instance_info"]["instance_type"] = told
    document["neuron_hardware_info"] |= hardware
    reader = HostReader()
    feed(reader, document)

    assert reader.kind.name == expected


def test_an_unknown_type_is_refused_with_the_nearest() -> None:
    """A type missing in the hardware catalogue is refused with the nearest ones."""
    document = trn2()
    document["instance_info"]["instance_type"] = "trn2.48xlrage"
    with pytest.raises(ConfigError, match=r"'trn2.48xlrage': did you mean 'trn2.48xlarge'"):
        feed(HostReader(), document)

    document["instance_info"]["instance_type"] = ""
    document["neuron_hardware_info"]["neuron_device_type"] = "inferentia9"
    with pytest.raises(
        ConfigError, match="'inferentia9', a generation that trnfleet does not know: it knows"
    ):
        feed(HostReader(), document)

    document["neuron_hardware_info"] |= {
        "neuron_device_type": "trainium2",
        "neuron_device_count": 5,
    }
    with pytest.raises(ConfigError, match="no instance type has 5 chips of the type 'trainium2'"):
        feed(HostReader(), document)


def test_another_hosts_document_is_refused() -> None:
    """Merged files of two hosts do not become one host; earlier values stay."""
    reader = HostReader()
    feed(reader, trn2())
    for key, value in (("instance_id", "i-0"), ("instance_type", "trn1.2xlarge")):
        other = trn2(2)
        other["instance_info"][key] = value
        with pytest.raises(WireError, match="of another instance"):
            feed(reader, other)

    assert feed(reader)["exec_completed"][0] == 10


def test_the_period_is_that_of_most_groups() -> None:
    """The period is that of most groups, else the last, or the default.

    One group has its own period, and a first one is longer.
    """
    document = trn2()
    document["system_data"]["memory_info"]["period"] = 5.35
    reader = HostReader()
    assert reader.period_s == DEFAULT_PERIOD_S
    feed(reader, document)
    assert reader.period_s == pytest.approx(1.0003, abs=0.001)
    feed(reader, {"neuron_runtime_data": []})
    assert reader.period_s == pytest.approx(1.0003, abs=0.001)
    assert read_period(b'{"neuron_runtime_data": []}') is None


def test_an_ultraserver_is_forgotten_with_its_host() -> None:
    """Without ids another name is another host; with one it is a new name tag."""
    document = trn2()
    info = document["instance_info"] = {
        "instance_type": "trn2.48xlarge",
        "instance_name": "x",
        "ultraserver_id": "us-7",
    }
    for ec2_id, left in (("", ""), ("i-1", "us-7")):
        reader = HostReader()
        feed(reader, {**document, "instance_info": info | {"instance_id": ec2_id}})
        del (other := info | {"instance_id": ec2_id})["ultraserver_id"]
        feed(reader, {**document, "instance_info": other})
        assert reader.ultraserver == "us-7"
        feed(reader, {**document, "instance_info": other | {"instance_name": "y"}})
        assert reader.ultraserver == left
