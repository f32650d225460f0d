"""Findings about what an agent can read on this host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.fake_host import EC2_ID, FakeHost, metadata_service
from support.paths import FIXTURES

from trnfleet.services.doctor.findings import Finding, Health
from trnfleet.services.doctor.host import examine_host

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


async def test_a_whole_host_has_no_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = FakeHost(tmp_path)
    host.list_devices(FIXTURES / "neuron-monitor/neuron-ls.trn2.48xlarge.json")
    monkeypatch.setenv("PATH", str(host.programs))
    with metadata_service() as imds:
        findings = {finding.name: finding async for finding in examine_host(host.root, imds.url)}

    values = {
        name: finding.value for name, finding in findings.items() if finding.health is Health.OK
    }
    assert values["neuron-monitor"].endswith("neuron-monitor: trn2.48xlarge, 16 devices")
    assert values["sysfs"].startswith("16 devices of the Neuron driver 2.30.2.0")
    assert values["neuron-ls"].endswith("neuron-ls: 16 devices")
    assert values["metadata service"] == f"{EC2_ID} trn2.48xlarge us-east-2b"
    assert values["kernel log"] == str(host.kmsg)
    assert findings.keys() - values.keys() == {"DMI", "EFA"}


async def test_each_missing_source_is_named_with_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    findings: list[Finding] = [finding async for finding in examine_host(tmp_path, "none")]

    problems = [finding.name for finding in findings if finding.health is Health.PROBLEM]
    assert problems == ["neuron-monitor", "sysfs"]
    assert all(finding.advice for finding in findings if finding.health is not Health.OK)


async def test_a_neuron_monitor_that_sees_no_device_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = FakeHost(tmp_path)
    host.write_document({"system_data": {}, "neuron_hardware_info": {"error": "no driver"}})
    monkeypatch.setenv("PATH", str(host.programs))
    findings = {finding.name: finding async for finding in examine_host(host.root, "none")}
    assert findings["neuron-monitor"].value.endswith("runs, and sees no device: no driver")

    host.stop.touch()
    findings = {finding.name: finding async for finding in examine_host(host.root, "none")}
    assert findings["neuron-monitor"].value == "the driver is gone"
