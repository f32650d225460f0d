"""A real Alertmanager for the suite: on loopback, grouping by instance at once."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from support.processes.mosquitto import free_port

if TYPE_CHECKING:
    from pathlib import Path

MISSING = (
    "ALERTMANAGER MISSING: install the prometheus-alertmanager package; the tests against a real"
    " one did not run"
)
_NAMES = ("prometheus-alertmanager", "alertmanager")
_CONFIGURATION = """\
route:
  receiver: nobody
  group_by: [instance]
  group_wait: 100ms
  group_interval: 1s
receivers:
  - name: nobody
"""
_FORWARDING = """\
route:
  receiver: webhook
  group_by: [alertname, target]
  group_wait: 100ms
  group_interval: 1s
receivers:
  - name: webhook
    webhook_configs:
      - url: {url}
        send_resolved: true
"""


def alertmanager_program() -> str | None:
    """Return the program, under whichever name a distribution gives it."""
    return next((found for name in _NAMES if (found := shutil.which(name))), None)


class AlertmanagerProcess:
    """One Alertmanager on a free loopback port, the same after restarts."""

    def __init__(self, folder: Path, webhook: str | None = None) -> None:
        """Write the configuration.

        `webhook` receives every firing or resolved alert.
        """
        program = alertmanager_program()
        if program is None:
            raise FileNotFoundError(MISSING)
        self._program = program
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        (folder / "alertmanager.yml").write_text(
            _CONFIGURATION if webhook is None else _FORWARDING.format(url=webhook), encoding="utf-8"
        )

    def start(self, *, forgets: bool = False) -> None:
        """Start and wait until it is ready; `forgets` gives it an empty storage."""
        storage = self._folder / "alertmanager-data"
        if forgets:
            shutil.rmtree(storage, ignore_errors=True)
        self._process = subprocess.Popen(
            [
                self._program,
                f"--config.file={self._folder / 'alertmanager.yml'}",
                f"--storage.path={storage}",
                f"--web.listen-address=127.0.0.1:{self.port}",
                "--cluster.listen-address=",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        until = time.monotonic() + 10
        while time.monotonic() < until:
            try:
                with urllib.request.urlopen(f"{self.url}/-/ready", timeout=1):  # noqa: S310  our own process
                    return
            except (urllib.error.URLError, OSError):
                assert self._process.poll() is None, (
                    f"alertmanager ended with {self._process.returncode}"
                )
                time.sleep(0.05)
        raise TimeoutError(f"alertmanager is not ready on port {self.port}")

    def kill(self) -> None:
        """Kill it with -9; nothing happens if it does not run."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(timeout=5)
            self._process = None

    def alerts(self) -> list[dict[str, Any]]:
        """Return the alerts that it knows to fire."""
        return self._get("/api/v2/alerts")

    def groups(self) -> list[dict[str, Any]]:
        """Return its groups of alerts."""
        return self._get("/api/v2/alerts/groups")

    def silences(self) -> list[dict[str, Any]]:
        """Return the silences that have not expired."""
        return [
            each for each in self._get("/api/v2/silences") if each["status"]["state"] != "expired"
        ]

    def silence(self, owner: str, **labels: str) -> str:
        """Make a silence for an hour, and return its id."""
        now = datetime.now(UTC)
        content = {
            "matchers": [
                {"name": name, "value": value, "isRegex": False} for name, value in labels.items()
            ],
            "startsAt": now.isoformat(),
            "endsAt": (now + timedelta(hours=1)).isoformat(),
            "createdBy": owner,
            "comment": "made there",
        }
        request = urllib.request.Request(  # noqa: S310  our own process
            f"{self.url}/api/v2/silences",
            json.dumps(content).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310  our own process
            return str(json.load(answer)["silenceID"])

    def expire(self, silence_id: str) -> None:
        """End a silence."""
        request = urllib.request.Request(f"{self.url}/api/v2/silence/{silence_id}", method="DELETE")  # noqa: S310  our own process
        with urllib.request.urlopen(request, timeout=5):  # noqa: S310  our own process
            pass

    def _get(self, path: str) -> list[dict[str, Any]]:
        with urllib.request.urlopen(self.url + path, timeout=5) as answer:  # noqa: S310  our own process
            found: list[dict[str, Any]] = json.load(answer)
            return found
