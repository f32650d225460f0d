"""`trnfleet agent` of a fake host, at a real broker."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest
from support.fake_host import EC2_ID, FakeHost, metadata_service
from support.processes.programs import Program, run
from support.processes.waiting import running, take_until

from trnfleet.transport.mqtt import MqttSource
from trnfleet.wire.frames import Unit
from trnfleet.wire.messages import Descriptor, decode_message

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.processes.mosquitto import MosquittoProcess

    from trnfleet.wire.ports import Envelope

HOST = f"uc1/standalone/{EC2_ID}"
ROOT = "trnfleet/v1/lab"


def agent(host: FakeHost, *arguments: str) -> tuple[str, ...]:
    common = ("--name", "lab", "--host-root", str(host.root), "--period", "1s")
    return ("agent", *common, *arguments)


def path_with(host: FakeHost) -> str:
    return f"{host.programs}{os.pathsep}{os.environ['PATH']}"


def test_one_tick_is_printed(tmp_path: Path) -> None:
    """Descriptor, instance and chips, with values of neuron-monitor and of the driver's tree."""
    host = FakeHost(tmp_path)
    arguments = agent(host, "--imds", "none", "--once", "--stdout")

    ended = run(*arguments, PATH=path_with(host))

    assert ended.returncode == 0, ended.stderr
    descriptor, instance, *chips = map(json.loads, ended.stdout.splitlines())
    assert (descriptor["path"], descriptor["instances"][0]["type"]) == (HOST, "trn2.48xlarge")
    assert descriptor["instances"][0]["versions"]["driver"] == "2.30.2.0"
    assert instance["vcpu_util_pct"] > 0
    assert len(chips) == 16
    assert chips[0]["nc_util_pct"][0] > 0
    assert (chips[0]["power_util_pct"], chips[0]["health"]) == (60, 0)


def test_a_host_without_neuron_says_what_is_missing(tmp_path: Path) -> None:
    """Without an instance type or any source there is nothing to publish."""
    (tmp_path / "root").mkdir()
    arguments = ("--name", "lab", "--host-root", str(tmp_path / "root"), "--imds", "none")

    ended = run("agent", *arguments, "--once", "--stdout")

    assert ended.returncode == 1
    assert ended.stdout == ""
    assert "neuron-monitor is neither in PATH nor in" in ended.stderr
    assert "is the driver loaded?" in ended.stderr
    assert "give --instance-type; trnfleet doctor --agent names what is missing" in ended.stderr

    ended = run("agent", *arguments, "--instance-type", "trn2.48xlarge", "--once", "--stdout")
    assert "no document of neuron-monitor and no device of the driver; " in ended.stderr
    assert "give --instance-type" not in ended.stderr

    ended = run("agent", "--name", "lab", "--host-root", str(tmp_path / "none"), "--stdout")
    assert ended.stderr.strip().endswith(f"--host-root {tmp_path}/none: there is no such folder")


@pytest.mark.broker
async def test_a_host_in_trouble(tmp_path: Path, mosquitto: MosquittoProcess) -> None:
    """An ECC error, a killed neuron-monitor and a device that hangs are told; all else goes on."""
    host = FakeHost(tmp_path)
    seen: list[Envelope] = []
    read = [0]
    source = MqttSource(mosquitto.url, [(f"{ROOT}/#", 0)])

    async def until(name: str, holds: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """Return the first new message of a class that fits."""

        def fitting(batch: list[Envelope]) -> list[dict[str, Any]]:
            return [
                message
                for envelope in batch
                if envelope.topic.startswith(f"{ROOT}/{name}/") and envelope.payload
                for message in [json.loads(envelope.payload)]
                if holds(message)
            ]

        # A tick has several messages: those behind the one looked for are kept for the next.
        async with asyncio.timeout(60):
            while not fitting(seen[read[0] :]):
                seen.extend(await take_until(source, bool))
        while not (messages := fitting(seen[read[0] : read[0] + 1])):
            read[0] += 1
        read[0] += 1
        return messages[0]

    with metadata_service() as imds:
        imds.answers["/latest/meta-data/events/maintenance/scheduled"] = [
            {"EventId": "instance-event-1", "Code": "instance-retirement", "State": "active"}
        ]
        async with running(source.run()):
            arguments = agent(host, "--imds", imds.url, "--broker", str(mosquitto.url))
            with Program(tmp_path, *arguments, PATH=path_with(host)) as program:
                notice = await until("event", lambda _: True)
                assert (notice["name"], notice["path"]) == ("instance_retirement", HOST)

                (count,) = host.device(3).rglob("mem_ecc_uncorrected")
                count.write_text("2\n")
                described = [each for each in seen if each.topic == f"{ROOT}/node/{HOST}"]
                unit = Unit.of(decode_message(described[-1].payload, Descriptor))

                def errors(envelope: Envelope) -> int:
                    """Return chip 3's errors in a frame."""
                    if envelope.topic != f"{ROOT}/telemetry/{HOST}":
                        return 0
                    codes = unit.codes(unit.decode(envelope.payload))
                    return int(codes["mem_ecc_uncorrected"][3])

                async with asyncio.timeout(60):
                    while max(map(errors, seen)) < 2:
                        seen.extend(await take_until(source, bool))

                with host.kmsg.open("a") as log:
                    log.write("6,1,5,-;NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR nd-id=3 nc-id=0\n")
                error = await until("event", lambda event: event["source"] == "hardware")
                assert (error["name"], error["nrt"]) == ("hbm_uncorrectable", 1201)
                assert error["path"] == f"{HOST}/chip03"

                os.kill(host.pid, signal.SIGKILL)
                lost = await until("event", lambda event: event["name"] == "source_failed")
                assert lost["text"] == "neuron-monitor: was killed by SIGKILL"
                await until("event", lambda event: event["name"] == "source_works")

                (health,) = host.device(5).rglob("unhealthy_components")
                health.unlink()
                os.mkfifo(health)
                stuck = await until("event", lambda event: "answer" in event["name"])
                assert (stuck["name"], stuck["path"]) == ("device_not_answering", f"{HOST}/chip05")
                stuck_tree = "sysfs: neuron5 does not answer"
                presence = await until(
                    "publisher", lambda message: stuck_tree in message["problems"]
                )
                listing = presence["problems"][0]
                assert listing.startswith("neuron-ls: neuron-ls is neither in PATH nor in")
                assert await asyncio.to_thread(program.end) == 0
                await until("publisher", lambda message: message["state"] == "offline")
