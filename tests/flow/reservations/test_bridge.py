"""The bridge over a real Mosquitto with a fake EC2 account, and the command's messages."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pytest
from support.fake_host import EC2_ID, FakeHost
from support.neuron import trn2
from support.processes.programs import Program, run
from support.processes.waiting import running

from trnfleet.clock import SystemClock
from trnfleet.services.bridge import BridgeRequest, Ec2Bridge
from trnfleet.services.session import BrokerSession
from trnfleet.wire.eventbridge import MOST_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.processes.mosquitto import MosquittoProcess

NOW = datetime.now(UTC)


class Account:
    """An EC2 client with one Capacity Block of two instances, and the instances in it."""

    def __init__(self, *running: str) -> None:
        self.running = running or ("i-1",)

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
            "AvailableInstanceCount": 2 - len(self.running),
            "State": "active",
            "ReservationType": "capacity-block",
        }
        return {"CapacityReservations": [part]}

    def describe_capacity_block_status(self, **_: Any) -> dict[str, Any]:
        return {"CapacityBlockStatuses": []}

    def describe_capacity_block_extension_history(self, **_: Any) -> dict[str, Any]:
        return {"CapacityBlockExtensions": []}

    def describe_instances(self, **_: Any) -> dict[str, Any]:
        instances = [
            {"InstanceId": ec2_id, "CapacityReservationId": "cr-1"} for ec2_id in self.running
        ]
        return {"Reservations": [{"Instances": instances}]}


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


@pytest.mark.broker
async def test_a_block_is_as_its_hosts_say(tmp_path: Path, mosquitto: MosquittoProcess) -> None:
    """An agent's telemetry decides what a real block uses and wastes, and marks it with errors.

    The other instance has no agent: it is named, and neither used nor idle.
    """
    host = FakeHost(tmp_path)
    account = Account(EC2_ID, "i-0123456789abcdef0")
    prices = {"trn2.48xlarge": Decimal(30)}
    request = BridgeRequest("prod", "trnfleet", 0.5, prices=prices)

    async def block_until(holds: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """Return the block once it is as wanted."""
        at = ("--broker", str(mosquitto.url), "--name", "prod")
        async with asyncio.timeout(120):
            while True:
                asked = ("status", "--reservations", "--json", *at)
                printed = (await asyncio.to_thread(run, *asked)).stdout
                for found in json.loads(printed or "[]"):
                    if holds(found):
                        return dict(found)

    arguments = ("--host-root", str(host.root), "--imds", "none", "--period", "1s")
    path = f"{host.programs}{os.pathsep}{os.environ['PATH']}"
    async with running(Ec2Bridge(request, account).publish(BrokerSession(mosquitto.url), print)):
        agent = ("agent", "--name", "prod", "--broker", str(mosquitto.url), *arguments)
        with Program(tmp_path, *agent, PATH=path) as program:
            busy = await block_until(lambda found: found["used"])
            assert busy["on"] == [f"uc1/standalone/{EC2_ID}"]
            assert (busy["used"], busy["unknown"], busy["not_launched"]) == (1, 1, 0)
            assert busy["no_telemetry"] == ["i-0123456789abcdef0"]
            assert (busy["fee_per_h"], busy["idle_per_h"]) == ("60.0000", "0.0000")
            assert not busy["problems"]

            account.running = (EC2_ID,)
            free = await block_until(lambda found: found["not_launched"])
            assert (free["used"], free["unknown"], free["idle_per_h"]) == (1, 0, "30.0000")

            document = trn2()
            document["neuron_runtime_data"] = []
            host.write_document(document)
            os.kill(host.pid, signal.SIGKILL)
            idle = await block_until(lambda found: found["is_idle"])
            assert (idle["used"], idle["idle_per_h"]) == (0, "60.0000")

            (count,) = host.device(3).rglob("mem_ecc_uncorrected")
            count.write_text("2\n")
            await block_until(lambda found: found["problems"])

            # Another instance at the same place is no instance of the block.
            account.running = ("i-0123456789abcdef0",)
            replaced = await block_until(lambda found: not found["on"])
            assert (replaced["used"], replaced["no_telemetry"]) == (0, ["i-0123456789abcdef0"])
            assert await asyncio.to_thread(program.end) == 0


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
        (("--name", "prod", "--price", "trn2.48xlarge"), 2, "not a price such as trn2.48xlarge="),
        (("--name", "prod", "--price", "trn2.49xlarge=1"), 2, "not an instance type"),
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
