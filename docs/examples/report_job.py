"""Report a training loop as a job: python report_job.py NAME [HOST[:PORT]]."""

import json
import re
import sys
import time
from datetime import UTC, datetime
from typing import Any, Self

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

ROOT = "trnfleet/v1/lab"


class Reporter:
    """A job's retained message. Use it in one process of the job, such as rank 0.

    `with` says how the loop ends; the last will says that it is lost.
    """

    def __init__(self, job: str, host: str, port: int, **facts: Any) -> None:
        name = re.sub(r"[^A-Za-z0-9_-]", "-", job)[:64]
        self.topic = f"{ROOT}/job/{name}"
        # Without addresses in "on", the claims of hosts to a job of this name say where it runs.
        self.message: dict[str, Any] = {"v": 1, "job": name, "display_name": job, "on": [], **facts}
        self.client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
        self.client.will_set(self.topic, self.report("lost"), 1, retain=True)
        self.report("starting")
        self.client.on_connect = self.send  # after a reconnect, too: the will is out then
        self.client.connect_async(host, port, keepalive=15)  # the loop runs without a broker, too
        self.client.loop_start()

    def report(self, state: str, **figures: float) -> str:
        now = datetime.now(UTC).isoformat()
        self.message = self.message | {"state": state, "ts": now, **figures}
        self.send()
        return json.dumps(self.message)

    def send(self, *_: object) -> None:
        if self.client.is_connected():
            self.client.publish(self.topic, json.dumps(self.message), 1, retain=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.report("failed" if kind else "finished")
        self.client.disconnect()
        self.client.loop_stop()


if __name__ == "__main__":
    import numpy as np

    PEAK = 16 * 667e12  # FLOP/s of the job's chips, here of 16 Trainium2 in BF16
    SIZE, BATCH = 512, 256
    host, _, port = (sys.argv[2:] or ["127.0.0.1"])[0].partition(":")
    rng = np.random.default_rng(1)
    target = rng.normal(size=SIZE)
    weights = np.zeros(SIZE)
    began = time.monotonic()
    worked_s = 0.0
    with Reporter(sys.argv[1], host, int(port or 1883), kind="training", model="linear") as job:
        for step in range(1, 10_001):
            step_began = time.monotonic()
            batch = rng.normal(size=(BATCH, SIZE))
            error = batch @ (weights - target)
            weights -= 0.1 * batch.T @ error / BATCH
            time.sleep(0.1)
            step_s = time.monotonic() - step_began
            worked_s += step_s
            job.report(
                "running",
                steps_completed=step,
                step_time_s=step_s,
                tokens_per_s=BATCH / step_s,
                mfu=4 * BATCH * SIZE / step_s / PEAK,
                goodput=worked_s / (time.monotonic() - began),
                loss=float(np.mean(error**2)),
            )
            if step % 100 == 0:
                job.report("checkpointing")
                time.sleep(0.5)  # write the weights here
