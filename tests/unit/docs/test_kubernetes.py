"""Manifests of Kubernetes, checked without a cluster."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import yaml
from support.paths import CONFIG

from trnfleet.cli.command_table import load_command

FILES = sorted((CONFIG / "kubernetes").glob("*.yaml"))
COMMANDS = ("agent", "relay", "watch")


def manifest(name: str) -> dict[str, Any]:
    text = (CONFIG / "kubernetes" / f"{name}.yaml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def test_every_field_is_one_of_kubernetes() -> None:
    """An unknown field, or a wrong type, ends with status 1."""
    command = (sys.executable, "-m", "kubernetes_validate", "--strict", *map(str, FILES))
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert [file.stem for file in FILES] == ["agent", "common", "relay", "watch"]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_pod_runs_a_command_with_its_variables(name: str) -> None:
    """What is mounted has a volume, and images are named without a registry."""
    pod = manifest(name)["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert container.get("args", ["agent"]) == [name]
    assert "/" not in container["image"]
    named = {variable["name"] for variable in container["env"]} - {"TRNFLEET_MQTT_PASSWORD"}
    assert named <= {param.envvar for param in load_command(name).params}
    mounted = [mount["name"] for mount in container["volumeMounts"]]
    assert sorted(mounted) == sorted(volume["name"] for volume in pod["volumes"])


def test_an_agent_changes_nothing_of_its_host_but_its_queue() -> None:
    pod = manifest("agent")["spec"]["template"]["spec"]
    [container] = pod["containers"]
    writable = {
        mount["name"] for mount in container["volumeMounts"] if not mount.get("readOnly", False)
    }
    assert writable == {"queue", "tmp"}
    assert pod["hostNetwork"] is True
    unit = (CONFIG / "systemd" / "trnfleet-agent@.service").read_text(encoding="utf-8")
    assert f"MemoryMax={container['resources']['limits']['memory'].removesuffix('i')}\n" in unit
    assert f"CPUQuota={int(container['resources']['limits']['cpu'])}00%\n" in unit


@pytest.mark.parametrize("name", ["relay", "watch"])
def test_other_pods_are_unprivileged(name: str) -> None:
    pod = manifest(name)["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert "hostNetwork" not in pod
