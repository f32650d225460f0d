"""Fake kubelet: the pod-resources service on a unix socket, over HTTP/2."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING, NamedTuple

from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

LIST = "/v1.PodResourcesLister/List"


def field(number: int, value: bytes | str | int) -> bytes:
    """Return a field of a protobuf message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + varint(number >> 7)


def pod(
    name: str,
    devices: Mapping[str, Sequence[int | str]] | None = None,
    *,
    namespace: str = "ml",
    container: str = "main",
    dra: Sequence[str] = (),
) -> bytes:
    """Return a pod of ListPodResourcesResponse with one container, and a sidecar without devices.

    Args:
        name: The pod.
        devices: Device ids by resource.
        namespace: Its namespace.
        container: Name of the container.
        dra: Devices of Neuron's DRA driver.
    """
    topology = field(3, field(1, field(1, 1)))
    listed = b"".join(
        field(2, field(1, resource) + field(2, str(identity)) + topology)
        for resource, ids in (devices or {}).items()
        for identity in ids
    )
    claims = [field(4, field(2, "neuron.aws.com") + field(3, "pool") + field(4, it)) for it in dra]
    claim = field(5, field(2, "claim") + field(3, namespace) + b"".join(claims)) if dra else b""
    main = field(1, container) + listed + field(3, 7) + claim
    return field(
        1, field(1, name) + field(2, namespace) + field(3, field(1, "sidecar")) + field(3, main)
    )


class Answer(NamedTuple):
    """The kubelet's answer to a request."""

    body: bytes = b""
    status: str = "0"
    message: str = ""
    is_mute: bool = False
    """Whether it accepts requests and answers none."""


@contextlib.contextmanager
def kubelet(path: Path, answer: Answer) -> Iterator[list[str]]:
    """Serve an answer on a socket, and yield the paths that were asked for."""
    asked: list[str] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        thread = threading.Thread(target=_serve, args=(listener, answer, asked), daemon=True)
        thread.start()
        try:
            yield asked
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(5)


def _serve(listener: socket.socket, answer: Answer, asked: list[str]) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        with client, contextlib.suppress(ConnectionError):
            _converse(client, answer, asked)


def _converse(client: socket.socket, answer: Answer, asked: list[str]) -> None:
    link = H2Connection(H2Configuration(client_side=False))
    link.initiate_connection()
    left = b""
    client.sendall(link.data_to_send())
    while received := client.recv(65_536):
        for event in link.receive_data(received):
            if isinstance(event, events.RequestReceived):
                asked += [value.decode() for key, value in event.headers if key == b":path"]
            if isinstance(event, events.StreamEnded) and not answer.is_mute:
                link.send_headers(1, [(":status", "200"), ("content-type", "application/grpc")])
                left = b"\0" + len(answer.body).to_bytes(4, "big") + answer.body
        while left:
            size = min(len(left), link.local_flow_control_window(1), link.max_outbound_frame_size)
            if not size:
                break
            link.send_data(1, left[:size])
            left = left[size:]
            if not left:
                trailers = [("grpc-status", answer.status), ("grpc-message", answer.message)]
                link.send_headers(1, trailers, end_stream=True)
        client.sendall(link.data_to_send())
