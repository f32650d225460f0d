"""The bridge over a real Mosquitto with a fake EC2 account, and the command's messages."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pytest
from support.processes.programs import run

from trnfleet.clock import SystemClock
from trnfleet.services.bridge import BridgeRequest, Ec2Bridge
from trnfleet.services.session import BrokerSession
from trnfleet.wire.eventbridge import MOST_BYTES

if TYPE_CHECKING:
    from pathlib import Path

    from support.processes.mosquitto import MosquittoProcess

NOW = datetime.now(UTC)


class Account:
    """An EC2 client with one Capacity Block and one of two instances running."""

    def describe_capacity_blocks(self, **_: Any) -> dict[str, Any]:
        block = {
            "CapacityBlockId": "cb-1",
            "AvailabilityZone": "us-east-2b",
            "CapacityReservationIds": ["cr-1"],
            "StartDate": NOW - timedelta(days=1),
            "EndDate": NOW + timedelta(days=1),
            "CreateDate": NOW - timedelta(days=2),
            "State": "active",
        }
        return {"CapacityBlocks": [block]}

    def describe_capacity_reservations(self, **_: Any) -> dict[str, Any]:
        part = {
            "CapacityReservationId": "cr-1",
            "InstanceType": "trn2.48xlarge",
            "TotalInstanceCount": 2,
            "AvailableInstanceCount": 1,
            "State": "active",
            "ReservationType": "capacity-block",
        }
        return {"CapacityReservations": [part]}

    def describe_capacity_block_status(self, **_: Any) -> dict[str, Any]:
        return {"CapacityBlockStatuses": []}

    def describe_capacity_block_extension_history(self, **_: Any) -> dict[str, Any]:
        return {"CapacityBlockExtensions": []}

    def describe_instances(self, **_: Any) -> dict[str, Any]:
        running = {"InstanceId": "i-1", "CapacityReservationId": "cr-1"}
        return {"Reservations": [{"Instances": [running]}]}


@pytest.mark.broker
async def test_a_real_account_s_block_is_there_for_everyone(mosquitto: MosquittoProcess) -> None:
    """What the bridge published is retained, and `reserve list` tells it like a simulated one."""
    bridge = Ec2Bridge(BridgeRequest("prod", "trnfleet", 60.0, once=True), Account())
    await bridge.publish(BrokerSession(mosquitto.url), print)
    listed = run("reserve", "list", "--json", "--broker", str(mosquitto.url), "--name", "prod")
    assert listed.returncode == 0, listed.stderr
    (found,) = json.loads(listed.stdout)
    assert (found["id"], found["state"], found["origin"]) == ("cb-1", "active", "ec2")
    assert (found["instances"], found["launched"], found["ec2_ids"]) == (2, 1, ["i-1"])


async def test_simulated_events_are_read_as_real_ones(tmp_path: Path) -> None:
    """The bridge reads simulated EventBridge events with their ids, times and details."""
    events = tmp_path / "events.ndjson"
    wanted = run("simulate", "--stdout", "--events", "--period", "60s", "--duration", "150m").stdout
    events.write_text(wanted + "x" * (2 * MOST_BYTES) + "\n\n" + wanted.splitlines()[0])
    output = BytesIO()
    bridge = Ec2Bridge(
        BridgeRequest("prod", "trnfleet", 60.0, once=True, events=str(events)), Account()
    )
    await bridge.write(output, SystemClock())
    read = [each for each in map(json.loads, output.getvalue().splitlines()) if "severity" in each]
    given = [json.loads(line) for line in wanted.splitlines()]
    assert len(given) == 5
    again = [*given, given[0]]
    assert [(each["id"], each["detail_type"], each["detail"]) for each in read] == [
        (each["id"], each["detail-type"], each["detail"]) for each in again
    ]
    assert [f"{each['ts'][:19]}Z" for each in read] == [each["time"] for each in again]


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("--name", "prod"), 2, "give --broker URL or --stdout"),
        (("--stdout",), 2, "--name"),
        (
            ("--name", "prod", "--stdout", "--events", "/nonexistent"),
            2,
            "--events /nonexistent: No such file",
        ),
        (("--name", "prod", "--stdout", "--events", "/"), 2, "--events /: Is a directory"),
        (("--name", "prod", "--stdout", "--once", "--aws-profile", "nobody"), 1, "nobody"),
        (("--name", "prod", "--stdout", "--once"), 1, "no region; give --region"),
        (
            ("--name", "prod", "--stdout", "--once", "--region", "us-east-2"),
            1,
            "no credentials; log in",
        ),
    ],
)
def test_what_is_missing_is_told_in_one_line(
    arguments: tuple[str, ...], status: int, said: str
) -> None:
    """Wrong use or an unreadable file has status 2, an unreachable account 1.

    Each has one line with the remedy.
    """
    ended = run(
        "bridge",
        *arguments,
        AWS_CONFIG_FILE="/nonexistent",
        AWS_SHARED_CREDENTIALS_FILE="/nonexistent",
        AWS_EC2_METADATA_DISABLED="true",
    )
    assert ended.returncode == status
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr
