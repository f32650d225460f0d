"""Findings about what an agent can read on this host."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from support.fake_host import EC2_ID, FakeHost, metadata_service
from support.kubelet import Answer, kubelet, pod
from support.paths import FIXTURES

from trnfleet.services.doctor.findings import Finding, Health
from trnfleet.services.doctor.host import examine_host

if TYPE_CHECKING:
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
    assert findings.keys() - values.keys() == {"DMI", "EFA", "job mapping", "pods"}


async def test_sources_of_jobs_are_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is there, missing, or not readable."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "jobs"
    # Relative, because a socket's path has 107 bytes at most.
    socket = Path("var/lib/kubelet/pod-resources/kubelet.sock")
    socket.parent.mkdir(parents=True)

    async def look() -> dict[str, tuple[Health, str]]:
        return {
            finding.name: (finding.health, finding.value)
            async for finding in examine_host(Path(), "none", folder)
            if finding.name in {"job mapping", "pods"}
        }

    assert await look() == {
        "job mapping": (Health.WARNING, f"{folder}: there is no such folder"),
        "pods": (Health.WARNING, f"{socket}: there is no kubelet"),
    }
    folder.mkdir()
    (folder / "3").write_text("812\n")
    with kubelet(socket, Answer(pod("llama-0", {"aws.amazon.com/neuron": [3]}))):
        assert await look() == {
            "job mapping": (Health.OK, f"{folder}: 1 job"),
            "pods": (Health.OK, f"{socket}: 1 pod with Neuron devices"),
        }
    (folder / "999").write_text("812\n")
    (health, why) = (await look())["job mapping"]
    assert health is Health.WARNING
    assert why == f"{folder}/999: this host has no device 999"
    assert (await look())["pods"][1].endswith(
        "a hostPath volume with var/lib/kubelet/pod-resources"
    )


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
