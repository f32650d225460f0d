"""A fake Trainium host: neuron-monitor, neuron-ls, the metadata service and a tree of sysfs."""

from __future__ import annotations

import contextlib
import http.server
import json
import stat
import sys
import threading
from typing import TYPE_CHECKING, Any

from support.neuron import trn2
from support.sysfs import write_tree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

EC2_ID = "i-0f1e2d3c4b5a69788"
SERVER = "0123456789abcdef"
_MONITOR = """\
#!{python}
import json, os, sys, time
configuration = json.load(open(sys.argv[sys.argv.index("-c") + 1]))
open({pid!r}, "w").write(str(os.getpid()))
document = open({document!r}).read().strip()
while True:
    if os.path.exists({stop!r}):
        sys.exit("the driver is gone")
    print(document, flush=True)
    time.sleep({pause!r})
"""
_LIST = """\
#!{python}
import sys
print(open({file!r}).read()) if sys.argv[1:] == ["-j"] else sys.exit("unknown flag")
"""


class FakeHost:
    """Programs and trees of a host below a folder."""

    def __init__(self, folder: Path, *, devices: int = 16, pause_s: float = 0.2) -> None:
        """Write a healthy trn2.48xlarge.

        Args:
            folder: Folder to write to.
            devices: Devices in its tree.
            pause_s: Time between two documents, whatever the configuration says.
        """
        self.root = write_tree(folder / "root", devices=devices)
        (self.root / "dev").mkdir()
        self.kmsg = self.root / "dev/kmsg"
        self.kmsg.touch()
        self.programs = folder / "programs"
        self.programs.mkdir()
        self.document = folder / "document.json"
        self.stop = folder / "stop"
        """While it is there, neuron-monitor ends."""
        self._pid = folder / "pid"
        self.write_document(trn2())
        self.install(
            "neuron-monitor",
            _MONITOR.format(
                python=sys.executable,
                pid=str(self._pid),
                document=str(self.document),
                stop=str(self.stop),
                pause=pause_s,
            ),
        )

    @property
    def pid(self) -> int:
        """Process id of the newest neuron-monitor."""
        return int(self._pid.read_text())

    def write_document(self, document: dict[str, Any]) -> None:
        """Choose what neuron-monitor writes from its next start on."""
        self.document.write_text(json.dumps(document))

    def install(self, name: str, text: str) -> None:
        """Write a program."""
        path = self.programs / name
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def list_devices(self, file: Path) -> None:
        """Install a neuron-ls of an older release, which prints a file."""
        self.install("neuron-ls", _LIST.format(python=sys.executable, file=str(file)))

    def device(self, number: int) -> Path:
        """Return the folder of a device."""
        return self.root / f"sys/devices/virtual/neuron_device/neuron{number}"

    def join(self, server: str = SERVER, node: str = "2", mode: str = "1,2,4") -> None:
        """Elect the host into an UltraServer."""
        folder = self.root / "sys/class/neuron_device"
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in (
            ("server_id_4", server),
            ("node_id_4", node),
            ("ultraserver_mode", mode),
        ):
            (folder / name).write_text(f"{text}\n")


class FakeMetadata:
    """A metadata service (IMDSv2) on loopback."""

    def __init__(self) -> None:
        self.url = ""
        self.answers: dict[str, Any] = {
            "/latest/dynamic/instance-identity/document": {
                "instanceId": EC2_ID,
                "instanceType": "trn2.48xlarge",
                "availabilityZone": "us-east-2b",
            }
        }
        """Answer by path; others are not found."""
        self.token = b"token"
        self.refusals = 0
        """Requests that fail next."""


@contextlib.contextmanager
def metadata_service() -> Iterator[FakeMetadata]:
    """Run a metadata service."""
    service = FakeMetadata()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            self._answer(service.token if self.path == "/latest/api/token" else None)

        def do_GET(self) -> None:
            if self.headers["X-aws-ec2-metadata-token"] != "token":
                self.send_error(401)
                return
            answer = service.answers.get(self.path)
            self._answer(None if answer is None else json.dumps(answer).encode())

        def _answer(self, body: bytes | None) -> None:
            if service.refusals:
                service.refusals -= 1
                self.send_error(503)
            elif body is None:
                self.send_error(404)
            else:
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    service.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
