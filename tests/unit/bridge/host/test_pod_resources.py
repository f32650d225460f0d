"""Chips of pods, from a fake kubelet's socket."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest
from support.kubelet import LIST, Answer, field, kubelet, pod

from trnfleet.bridge.host.pod_resources import Container, pod_holders, read_pod_resources
from trnfleet.bridge.neuron.fields import Doubts
from trnfleet.bridge.neuron.values import Chips
from trnfleet.domain.hardware.catalogue import INSTANCE_TYPES
from trnfleet.errors import ConfigError, WireError

if TYPE_CHECKING:
    from pathlib import Path

TRN2 = INSTANCE_TYPES["trn2.48xlarge"]
CORE = "aws.amazon.com/neuroncore"
DEVICE = "aws.amazon.com/neuron"


def chips(lnc: int = 2) -> Chips:
    return Chips.of_devices(TRN2, lnc, {number: number for number in range(16)})


def read(
    tmp_path: Path, answer: Answer, *, lnc: int = 2, limit_s: float = 5.0
) -> tuple[tuple[Container, ...], Doubts]:
    path = tmp_path / "kubelet.sock"
    doubts = Doubts()
    with kubelet(path, answer) as asked:
        containers = read_pod_resources(path, chips(lnc), doubts, limit_s=limit_s)
    assert asked == [LIST]
    return containers, doubts


@pytest.mark.parametrize(("lnc", "expected"), [(1, {0, 1}), (2, {1, 2})])
def test_cores_are_of_the_chips_of_the_present_lnc(
    tmp_path: Path, lnc: int, expected: set[int]
) -> None:
    """A trn2 chip has 8 logical cores with LNC=1, and 4 with LNC=2."""
    listed = pod("llama-0", {CORE: ["7", "8"]}, container="train")
    containers, doubts = read(tmp_path, Answer(listed), lnc=lnc)
    assert containers == (Container("ml", "llama-0", "train", frozenset(expected)),)
    assert doubts.count == 0


def test_devices_old_names_and_dra_are_read(tmp_path: Path) -> None:
    """Pods without Neuron resources do not appear; two containers of a pod are one holder."""
    listed = (
        pod("a", {DEVICE: [3]})
        + pod("a", {DEVICE + "device": [4]}, container="second")
        + pod("b", dra=["neurondevice15", "neuron-device-2"])
        + pod("web", {"vpc.amazonaws.com/efa": [0], "nvidia.com/gpu": ["GPU-1"]})
    )
    containers, doubts = read(tmp_path, Answer(listed))
    assert doubts.count == 0
    held = {(holder.name, holder.source): set(holder.chips) for holder in pod_holders(containers)}
    assert held == {("ml/a", "pod-resources"): {3, 4}, ("ml/b", "pod-resources"): {2, 15}}


def test_an_answer_larger_than_a_window_is_read(tmp_path: Path) -> None:
    """110 pods with all their cores are over 64 KiB."""
    listed = b"".join(pod(f"pod-{number}", {CORE: range(64)}) for number in range(110))
    assert len(listed) > 65_536
    containers, _ = read(tmp_path, Answer(listed))
    assert len(containers) == 110


def test_ids_without_a_chip_are_named(tmp_path: Path) -> None:
    """They hide neither the pod's other chips nor other pods."""
    listed = pod("a", {CORE: [0, 64, "x", "9" * 5_000]}) + pod("b", dra=["neuron-node-0"])
    containers, doubts = read(tmp_path, Answer(listed))
    assert [(each.pod, set(each.chips)) for each in containers] == [("a", {0})]
    assert doubts.count == 4
    assert doubts.first == f"ml/a: this host has no chip of {CORE} '64'"


@pytest.mark.parametrize(
    "answer",
    [
        Answer(status="12", message="unknown service"),
        Answer(pod("a", {CORE: [0]})[:-1]),
        Answer(field(1, b"\x0b")),
        Answer(field(1, field(1, "a") + field(3, field(2, field(1, CORE) + field(2, b"\xff"))))),
    ],
)
def test_errors_and_damaged_answers_are_told(tmp_path: Path, answer: Answer) -> None:
    """Each message names the socket."""
    with pytest.raises(WireError, match=r"kubelet\.sock: .*(unknown service|not a list of pods)"):
        read(tmp_path, answer)


def test_a_kubelet_that_does_not_answer_ends_at_the_limit(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"did not answer within 0\.1 s"):
        read(tmp_path, Answer(is_mute=True), limit_s=0.1)


def test_a_socket_that_cannot_be_reached_says_what_to_do(tmp_path: Path) -> None:
    """It may be of another program. Without one there is no kubelet, and no pod."""
    path = tmp_path / "kubelet.sock"
    needs = (
        rf"kubelet\.sock: .*; reading it needs root, and in a pod a hostPath volume with {tmp_path}"
    )
    assert read_pod_resources(path, chips(), Doubts(), limit_s=1.0) == ()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        with pytest.raises(ConfigError, match=needs):
            read_pod_resources(path, chips(), Doubts(), limit_s=1.0)
