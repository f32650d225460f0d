"""Publish one trn2.48xlarge host with 16 chips as JSON: python publisher.py [HOST[:PORT]]."""

import json
import secrets
import sys
import time
from datetime import UTC, datetime

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

ROOT, CLIENT, PATH, PERIOD_S = "trnfleet/v1/lab", "lab-agent-1", "uc1/standalone/trn2-0001", 1.0
BOOT, EPOCH = (
    secrets.token_hex(8),
    datetime.now(UTC).isoformat(),
)  # new at every start of the publisher
CLUSTER, ULTRASERVER, INSTANCE = PATH.split("/")
PRESENCE = {"v": 1, "client": CLIENT, "boot": BOOT}
DESCRIPTOR = {
    "v": 1, "path": PATH, "publisher": CLIENT, "boot": BOOT, "revision": 0, "origin": "neuron",
    "period_s": PERIOD_S, "clock": {"epoch": EPOCH, "speed": 1.0},
    "instances": [{"path": PATH, "type": "trn2.48xlarge", "ec2_id": "i-0123456789abcdef0", "lnc": 2}],  # noqa: E501
    "columns": [],  # JSON names its values itself; CBOR frames need their columns here
}  # fmt: skip


def announce(client: mqtt.Client, *_: object) -> None:
    """Publish the retained state: after every connect, and again every minute."""
    client.publish(
        f"{ROOT}/publisher/{CLIENT}", json.dumps(PRESENCE | {"state": "online"}), 1, retain=True
    )
    client.publish(f"{ROOT}/node/{PATH}", json.dumps(DESCRIPTOR), 1, retain=True)


client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=CLIENT, protocol=mqtt.MQTTv5)
client.will_set(
    f"{ROOT}/publisher/{CLIENT}", json.dumps(PRESENCE | {"state": "offline"}), 1, retain=True
)
client.on_connect = announce
host, _, port = (sys.argv[1:] or ["127.0.0.1"])[0].partition(":")
client.connect(host, int(port or 1883))
client.loop_start()
seq = 0  # every topic counts for itself; here all of them tick together
while True:
    identity = {"v": 1, "ts": datetime.now(UTC).isoformat(), "boot": BOOT, "seq": seq,
                "cluster": CLUSTER, "ultraserver": ULTRASERVER, "instance": INSTANCE, "job": None}  # fmt: skip  # noqa: E501
    client.publish(f"{ROOT}/telemetry/{PATH}", json.dumps(identity | {"vcpu_util_pct": 12.5}))
    for chip in range(16):
        values = {
            "chip": chip,
            "nc_util_pct": [87.5] * 8,
            "hbm_used_bytes": 75 * 10**9,
            "exec_errors": 0,
        }
        client.publish(f"{ROOT}/telemetry/{PATH}/chip{chip:02d}", json.dumps(identity | values))
    seq += 1
    if seq % 60 == 0:
        announce(client)
    time.sleep(PERIOD_S)
