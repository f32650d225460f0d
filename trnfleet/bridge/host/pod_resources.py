"""Chips of pods, as the kubelet's pod-resources socket lists them.

gRPC without its library: one request over HTTP/2, and the fields that are needed of the answer.
"""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.bridge.neuron.stream import MOST_DOCUMENT_BYTES
from trnfleet.bridge.neuron.telemetry import Holder
from trnfleet.clock import SystemClock
from trnfleet.errors import ConfigError, WireError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trnfleet.bridge.neuron.fields import Doubts
    from trnfleet.bridge.neuron.values import Chips

SOCKET = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
"""The kubelet's socket, readable by root."""
METHOD = "/v1.PodResourcesLister/List"
_CORES = "aws.amazon.com/neuroncore"
_DEVICES = ("aws.amazon.com/neuron", "aws.amazon.com/neurondevice")
"""Resources of the Neuron device plugin; the last is deprecated."""
_DRIVER = "neuron.aws.com"
"""Neuron's driver for dynamic resource allocation (DRA)."""
_NUMBER = re.compile(r"\d{1,6}", re.ASCII)
_DEVICE = re.compile(r"neuron-?device-?(\d{1,6})", re.ASCII)
"""A device's name in DRA: `neurondevice3` (published) or `neuron-device-3` (seen on EKS)."""


class Container(NamedTuple):
    """A container with Neuron cores or devices."""

    namespace: str
    pod: str
    name: str
    chips: frozenset[int]


def pod_holders(containers: Iterable[Container]) -> tuple[Holder, ...]:
    """Return the pods of containers as holders of their chips."""
    pods: dict[str, set[int]] = {}
    for container in containers:
        pods.setdefault(f"{container.namespace}/{container.pod}", set()).update(container.chips)
    return tuple(Holder(name, frozenset(chips), "pod-resources") for name, chips in pods.items())


def read_pod_resources(
    path: Path, chips: Chips, doubts: Doubts, *, limit_s: float
) -> tuple[Container, ...]:
    """Return the containers of a host with Neuron cores or devices; none without a kubelet.

    Args:
        path: The kubelet's socket.
        chips: Where the host's cores and devices are, at its present LNC.
        doubts: Receives ids without a chip.
        limit_s: Longest time for all.

    Raises:
        ConfigError: the socket cannot be reached; the message says what to do.
        WireError: the answer is an error or not a list of pods.
    """
    try:
        if not path.exists():
            return ()
        answer = _call(path, METHOD, limit_s)
    except TimeoutError as error:
        raise ConfigError(f"{path}: the kubelet did not answer within {limit_s:g} s") from error
    except OSError as error:
        raise ConfigError(
            f"{path}: {error.strerror or error}; reading it needs root, and in a pod a hostPath"
            f" volume with {path.parent}"
        ) from error
    try:
        return tuple(_containers(answer, chips, doubts))
    except (IndexError, TypeError, UnicodeDecodeError) as error:
        raise WireError(f"{path}: the answer is not a list of pods") from error


def _call(path: Path, method: str, limit_s: float) -> bytes:
    """Return the answer to an empty request."""
    # Only hosts of Kubernetes need it.
    from h2 import events  # noqa: PLC0415
    from h2.config import H2Configuration  # noqa: PLC0415
    from h2.connection import H2Connection  # noqa: PLC0415
    from h2.exceptions import ProtocolError  # noqa: PLC0415

    clock = SystemClock()
    deadline_s = clock.monotonic_s() + limit_s
    link = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
    headers: dict[str, str] = {}
    body = b""
    with socket.socket(socket.AF_UNIX) as kubelet:
        kubelet.settimeout(limit_s)
        kubelet.connect(str(path))
        link.initiate_connection()
        link.send_headers(
            1,
            [
                (":method", "POST"),
                (":scheme", "http"),
                (":path", method),
                (":authority", "localhost"),
                ("content-type", "application/grpc"),
                ("te", "trailers"),
            ],
        )
        # Not compressed, 0 bytes.
        link.send_data(1, bytes(5), end_stream=True)
        is_over = False
        while not is_over:
            kubelet.sendall(link.data_to_send())
            kubelet.settimeout(max(0.001, deadline_s - clock.monotonic_s()))
            received = kubelet.recv(65_536)
            try:
                happened = link.receive_data(received) if received else []
            except ProtocolError as error:
                raise WireError(f"{path}: not an HTTP/2 server: {error}") from error
            for event in happened:
                if isinstance(event, events.ResponseReceived | events.TrailersReceived):
                    headers |= dict(event.headers)  # type: ignore[arg-type]  # text by its encoding
                elif isinstance(event, events.DataReceived):
                    body += event.data
                    link.acknowledge_received_data(event.flow_controlled_length, 1)
            is_over = (
                not received
                or len(body) > MOST_DOCUMENT_BYTES
                or any(
                    isinstance(
                        event,
                        events.StreamEnded | events.StreamReset | events.ConnectionTerminated,
                    )
                    for event in happened
                )
            )
    if headers.get("grpc-status") != "0" or len(body) != 5 + int.from_bytes(body[1:5], "big"):
        why = headers.get("grpc-message") or f"status {headers.get(':status', 'missing')}"
        raise WireError(f"{path}: {method} is refused or cut off: {why[:200]}")
    return body[5:]


def _containers(answer: bytes, chips: Chips, doubts: Doubts) -> Iterator[Container]:
    """Yield the containers of a ListPodResourcesResponse; numbers are those of its fields."""
    for pod in _parts(answer, 1):
        name = _text(pod, 1)
        namespace = _text(pod, 2)
        for container in _parts(pod, 3):
            held: set[int] = set()
            for resource, identity in _identities(container):
                number = int(identity) if _NUMBER.fullmatch(identity) else -1
                places = [chips.devices[number]] if number in chips.devices else []
                if resource == _CORES:
                    places = chips.of_all([number])
                held.update(places)
                if not places:
                    doubts.add(
                        f"{namespace}/{name}: this host has no chip of {resource} {identity[:64]!r}"
                    )
            if held:
                yield Container(namespace, name, _text(container, 1), frozenset(held))


def _identities(container: bytes) -> Iterator[tuple[str, str]]:
    """Yield the Neuron resources of a container: name, and id of a core or device."""
    for devices in _parts(container, 2):
        resource = _text(devices, 1)
        if resource in {_CORES, *_DEVICES}:
            for identity in _parts(devices, 2):
                yield resource, identity.decode()
    for claim in _parts(container, 5):
        for device in _parts(claim, 4):
            if _text(device, 2) == _DRIVER:
                name = _text(device, 4)
                match = _DEVICE.fullmatch(name)
                yield _DRIVER, match[1] if match else name


def _text(message: bytes, field: int) -> str:
    return next(_parts(message, field), b"").decode()


def _parts(message: bytes, field: int) -> Iterator[bytes]:
    """Yield the values of a field of texts or messages in protobuf."""
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        size = {1: 8, 5: 4}.get(key & 7, 0)
        if key & 7 == 0:
            _, place = _varint(message, place)
        elif key & 7 == 2:
            size, place = _varint(message, place)
        elif not size:
            raise TypeError("a kind of field that the kubelet does not write")
        if place + size > len(message):
            raise IndexError("cut off")
        if key == field << 3 | 2:
            yield message[place : place + size]
        place += size


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """Return a number and the place behind it."""
    number = 0
    for shift in range(0, 64, 7):
        byte = message[place]
        place += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, place
    raise IndexError("a number of over 64 bits")
