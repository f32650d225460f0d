"""Names with dots, slashes and spaces: from messages to the screen and to a real Alertmanager."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING

import paho.mqtt.client as mqtt
import pytest
from flow.alerts.test_watch import alertmanager  # noqa: F401  a fixture
from paho.mqtt.enums import CallbackAPIVersion
from support.monitor.feed import Feed, standalone
from support.processes.programs import Program, run
from support.processes.terminal import Terminal

from trnfleet.clock import SystemClock, format_rfc3339

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.processes.alertmanager import AlertmanagerProcess
    from support.processes.mosquitto import MosquittoProcess

pytestmark = pytest.mark.broker

HOST = "uc1/standalone/trn2-0003"
NODE = "ip-10-0-1-7.ec2.internal"
SEGMENT = "ns-llama3-1-8b"
JOB = "ns/llama3.1 8b"
ALERT = f"uc1/standalone/{NODE}/chip05"


class Publisher:
    """Three hosts with a job; one host and the job have display names, and a chip is unhealthy."""

    def __init__(self, port: int) -> None:
        self._feed = Feed(standalone(3))
        self._feed.scatter()
        self._feed.epoch = format_rfc3339(SystemClock().wall_ns())
        self._feed.jobs = {SEGMENT: (HOST,)}
        self._feed.display_names = {SEGMENT: JOB, HOST: NODE}
        self._feed.set("health", 1, 2 * 16 + 5)
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv311)
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for each in self._feed.announcements():
            self._client.publish(each.topic, each.payload, 1, retain=True)
        while not self._ended.wait(0.5):
            for each in self._feed.telemetry(ts_ns=SystemClock().wall_ns()):
                self._client.publish(each.topic, each.payload)

    def end(self) -> None:
        self._ended.set()
        self._thread.join()
        self._client.disconnect()
        self._client.loop_stop()


@pytest.fixture
def broker(mosquitto: MosquittoProcess) -> Iterator[tuple[str, ...]]:
    publisher = Publisher(mosquitto.port)
    yield "--broker", f"mqtt://127.0.0.1:{mosquitto.port}", "--name", "demo"
    publisher.end()


def test_display_names_from_messages_to_screen_and_alertmanager(
    broker: tuple[str, ...],
    alertmanager: AlertmanagerProcess,  # noqa: F811
    tmp_path: Path,
) -> None:
    """Texts have display names, labels and JSON's `job` have segments, and each is found by name.

    Row 22 of the findings is this kind: dots and slashes in names from Kubernetes.
    """
    with Program(tmp_path, "watch", *broker, "--alertmanager", alertmanager.url):
        until = time.monotonic() + 40
        while not (alerts := alertmanager.alerts()):
            assert time.monotonic() < until
            time.sleep(0.1)
        (alert,) = [each for each in alerts if each["labels"]["alertname"] == "unhealthy"]
        assert alert["labels"]["target"] == HOST
        assert alert["labels"]["job"] == SEGMENT
        assert ALERT in alert["annotations"]["summary"]
        with Terminal("monitor", *broker, columns=160, rows=48) as terminal:
            terminal.wait_for(JOB, f"{NODE}/chip05")
            terminal.send(f":job {JOB}\r")
            terminal.wait_for(f"fleet > uc1 > standalone > {NODE}")
            terminal.send("2/10-0-1-7\r")
            terminal.wait_until(
                lambda lines: (
                    any(NODE in line for line in lines)
                    and not any("trn2-0001" in line for line in lines)
                )
            )
            terminal.send("8")
            terminal.wait_for(ALERT)
            terminal.send("/llama3.1\r")
            terminal.wait_for(ALERT)
        status = json.loads(run("status", *broker, "--json").stdout)
        (job,) = status["job_list"]
        assert (job["job"], job["display_name"]) == (SEGMENT, JOB)
        assert ALERT in run("status", *broker).stdout
