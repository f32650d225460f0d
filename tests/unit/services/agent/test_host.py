"""Messages of the host that an agent runs on."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.fake_host import EC2_ID, SERVER, FakeHost, metadata_service
from support.kubelet import Answer, pod
from support.kubelet import kubelet as serve
from support.neuron import trn2
from support.processes.waiting import eventually

from trnfleet.bridge.host.identity import HostIdentity, MetadataService
from trnfleet.bridge.neuron.stream import Document
from trnfleet.clock import SystemClock
from trnfleet.services.agent.devices import CORES_EVERY_S
from trnfleet.services.agent.host import AgentHost, HostRequest
from trnfleet.services.agent.outbox import Outbox
from trnfleet.tasks import background, in_thread
from trnfleet.wire.ports import Envelope

TELEMETRY = "trnfleet/v1/lab/telemetry/uc1/standalone/h"


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    """Return a fake host without programs."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return FakeHost(tmp_path)


async def find(fake: FakeHost, tmp_path: Path, **facts: Any) -> AgentHost:
    request = HostRequest("lab", "trnfleet", 5.0, host_root=fake.root, encoding="json", **facts)
    return await AgentHost.find(request, SystemClock(), tmp_path)


def document(host: AgentHost, data: dict[str, Any]) -> None:
    host._documents._add(Document(1, json.dumps(data).encode()))


def payloads(made: list[Envelope], topic_class: str) -> list[dict[str, Any]]:
    return [
        json.loads(envelope.payload)
        for envelope in made
        if f"/{topic_class}/" in envelope.topic and envelope.payload
    ]


async def test_a_host_without_neuron_monitor_has_the_trees_values(
    fake: FakeHost, tmp_path: Path
) -> None:
    """No column of neuron-monitor is announced before its first document."""
    host = await find(fake, tmp_path, instance_type="trn2.48xlarge", path="uc1/us-1/h")
    made = await host.tick()

    (descriptor,) = payloads(made, "node")
    names = {column["name"] for column in descriptor["columns"]}
    assert "health" in names
    assert "nc_util_pct" not in names
    assert (descriptor["path"], descriptor["period_s"]) == ("uc1/us-1/h", 5.0)
    chips = [sample for sample in payloads(made, "telemetry") if "chip" in sample]
    assert (len(chips), chips[0]["health"]) == (16, 0)

    document(host, trn2())
    (descriptor,) = payloads(await host.tick(), "node")
    assert "nc_util_pct" in {column["name"] for column in descriptor["columns"]}


async def test_an_unknown_type_is_told_and_nothing_published(
    fake: FakeHost, tmp_path: Path
) -> None:
    host = await find(fake, tmp_path)
    made = await host.tick()

    (presence,) = payloads(made, "publisher")
    assert len(made) == 1
    assert any(problem.endswith("give --instance-type") for problem in presence["problems"])

    document(host, trn2())
    (presence,) = payloads(await host.tick(), "publisher")[-1:]
    assert not any("--instance-type" in problem for problem in presence["problems"])


async def test_a_late_document_ends_no_claim(fake: FakeHost, tmp_path: Path) -> None:
    """Process tags stay through a tick without a document, and go when their source has ended."""
    host = await find(fake, tmp_path, instance_type="trn2.48xlarge")
    tagged = trn2()
    tagged["neuron_runtime_data"][0]["neuron_runtime_tag"] = "ns/train"
    document(host, tagged)
    (claims,) = payloads(await host.tick(), "claim")
    assert claims["claims"][0]["display_name"] == "ns/train"

    assert payloads(await host.tick(), "claim") == []

    host._documents.problem = "has ended"
    (claims,) = payloads(await host.tick(), "claim")
    assert claims["claims"] == []


async def test_a_host_without_an_id_waits_for_its_first_document(
    fake: FakeHost, tmp_path: Path
) -> None:
    """Not even a neuron-monitor that fails at first makes it another instance before."""
    host = await find(fake, tmp_path, instance_type="trn2.48xlarge")
    host._identity = HostIdentity()
    host._documents.problem = "has ended"
    waits = asyncio.create_task(host.wait_documents(once=False))
    await asyncio.sleep(0)
    assert not waits.done()

    document(host, trn2())
    await waits
    (descriptor,) = payloads(await host.tick(), "node")
    assert descriptor["instances"][0]["ec2_id"] == descriptor["path"].rpartition("/")[2]


async def test_a_host_moves_into_its_ultraserver(fake: FakeHost, tmp_path: Path) -> None:
    """The old descriptor is cleared; publisher and boot stay."""
    host = await find(fake, tmp_path)
    document(host, trn2())
    first = await host.tick()
    (old,) = payloads(first, "node")
    assert old["path"] == f"uc1/standalone/{EC2_ID}"

    fake.join()
    document(host, trn2())
    made = await host.tick()

    assert made[0]._replace(content_type=None) == (
        f"trnfleet/v1/lab/node/uc1/standalone/{EC2_ID}",
        b"",
        1,
        True,
        *made[0][4:],
    )
    (new,) = payloads(made, "node")
    assert new["path"] == f"uc1/{SERVER}/{EC2_ID}"
    assert (new["publisher"], new["boot"]) == (old["publisher"], old["boot"])
    assert f"/telemetry/uc1/{SERVER}/" in made[-2].topic

    fake.join(mode="2")
    (event,) = payloads(await host.tick(), "event")
    assert event["text"] == "modes of the UltraServer: 1,2,4, now 2"


async def test_the_metadata_service_names_the_host_and_its_notices(
    fake: FakeHost, tmp_path: Path
) -> None:
    """A notice is an event once, by the same id at each start, and another one ends it."""
    with metadata_service() as service:
        scheduled = "/latest/meta-data/events/maintenance/scheduled"
        service.answers[scheduled] = [
            {"EventId": "e", "Code": "instance-retirement", "State": "active"}
        ]
        again = await find(fake, tmp_path, imds=MetadataService(service.url))
        async with background(host=again.run()):
            await eventually(lambda: again._events)
            (former,) = payloads(await again.tick(), "event")
        host = await find(fake, tmp_path, imds=MetadataService(service.url))
        assert (host.publisher, host.path) == (f"neuron-{EC2_ID}", f"uc1/standalone/{EC2_ID}")
        async with background(host=host.run()):
            await eventually(lambda: host._events)
            (event,) = payloads(await host.tick(), "event")
            assert (event["name"], event["source"]) == ("instance_retirement", "ec2")
            assert event["id"] == former["id"]
            assert payloads(await host.tick(), "event") == []
        service.answers[scheduled] = []
        async with background(host=host.run()):
            await eventually(lambda: host._events)
            (event,) = payloads(await host.tick(), "event")
        assert (event["name"], event["text"]) == (
            "maintenance_over",
            "EC2 scheduled event: instance-retirement (no longer listed)",
        )


async def test_failures_of_before_are_no_events(fake: FakeHost, tmp_path: Path) -> None:
    """A file's newest document at the start is state only."""
    failed = trn2()
    stats = failed["neuron_runtime_data"][0]["report"]["execution_stats"]
    stats["execution_summary"]["timed_out"] = 2
    file = tmp_path / "documents"
    file.write_text(f"{json.dumps(failed)}\n" * 3)
    host = await find(fake, tmp_path, file=str(file))
    async with background(host=host.run()):
        await host.wait_documents(once=True)
        made = await host.tick()
        assert len(payloads(made, "node")) == 1
        assert payloads(made, "event") == []
        with file.open("a") as stream:
            stream.write(f"{json.dumps(failed)}\n")
        await eventually(lambda: host._documents.count == 2)
        assert [event["name"] for event in payloads(await host.tick(), "event")] == [
            "execution_failed"
        ]


async def test_bad_documents_are_named_and_the_next_is_read(fake: FakeHost, tmp_path: Path) -> None:
    host = await find(fake, tmp_path)
    document(host, trn2())
    await host.tick()
    document(host, {"system_data": 3, "instance_info": {"instance_type": "trn1.2xlarge"}})

    made = await host.tick()
    (presence,) = payloads(made, "publisher")
    assert (
        "documents: it is of another instance type than the first, which is a trn2.48xlarge"
        in (presence["problems"])
    )
    chips = [sample for sample in payloads(made, "telemetry") if "chip" in sample]
    assert (chips[0]["nc_util_pct"], chips[0]["health"]) == ([None] * 8, 0)

    document(host, trn2())
    made = await host.tick()
    assert [event["name"] for event in payloads(made, "event")] == ["source_works"]


async def test_a_kubelet_that_cannot_be_read_stops_nothing_else(
    fake: FakeHost, tmp_path: Path
) -> None:
    """A scheduler's jobs stay, and the problem is no event at each question."""
    kubelet = fake.root / "var/lib/kubelet/pod-resources/kubelet.sock"
    kubelet.parent.mkdir(parents=True)
    kubelet.write_text("not a socket")
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    (jobs / "0").write_text("812")
    host = await find(fake, tmp_path, instance_type="trn2.48xlarge", job_mapping=jobs)
    for _ in range(3):
        made = await host.tick()
        assert [holder.name for holder in host._telemetry.holders] == ["812"]
        assert payloads(made, "event") == []
        assert any(name.startswith(f"{kubelet}: ") for name in host._problems.values())


async def test_pods_are_forgotten_without_the_kubelet(
    fake: FakeHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(fake.root)
    # Relative, because a socket's path has 107 bytes at most.
    fake.root = Path()
    kubelet = Path("var/lib/kubelet/pod-resources/kubelet.sock")
    kubelet.parent.mkdir(parents=True)
    host = await find(fake, tmp_path, instance_type="trn2.48xlarge")
    with serve(kubelet, Answer(pod("llama-0", {"aws.amazon.com/neuron": [3]}))):
        await host.tick()
        assert [holder.name for holder in host._telemetry.holders] == ["ml/llama-0"]
    await in_thread(kubelet.unlink)
    host._pods_s -= CORES_EVERY_S
    await host.tick()
    assert host._telemetry.holders == ()


async def test_a_host_is_online_with_its_first_tick(fake: FakeHost, tmp_path: Path) -> None:
    """Else it would be online and silent, which is an alert, until its first document."""
    host = await find(fake, tmp_path, instance_type="trn2.48xlarge")
    assert list(host.announce()) == []
    made = await host.tick()
    assert [message["state"] for message in payloads(made, "publisher")][-1] == "online"
    assert len(list(host.announce())) == 2


async def test_presence_names_the_ticks_that_come_late(fake: FakeHost, tmp_path: Path) -> None:
    """Readers must not call lost what waits, so it is announced before the first live tick."""
    host = await find(fake, tmp_path, instance_type="trn2.48xlarge")
    outbox = Outbox(None)
    host.first_waiting = outbox.first_tick
    outbox.put([Envelope(TELEMETRY, b'{"boot": "former", "seq": 7}')], 0)
    for tick in range(4):
        made = await host.tick()
        outbox.put(made if tick else [], 0)
    (presence,) = payloads([*host.announce()], "publisher")
    assert presence["backlog"] == [1, 3]
    # It stays when the queue is empty, for readers that come back later.
    outbox.done(outbox.oldest(1_000))
    assert payloads([*host.announce()], "publisher") == [presence]


async def test_what_the_queue_dropped_is_told(fake: FakeHost, tmp_path: Path) -> None:
    host = await find(fake, tmp_path, instance_type="trn2.48xlarge")
    host.tell_dropped = lambda: Counter(telemetry=60, event=1)
    (event,) = payloads(await host.tick(), "event")
    assert (event["name"], event["severity"]) == ("messages_lost", "warning")
    assert event["text"] == (
        "61 messages dropped, which waited for the broker too long, were too many, or were refused:"
        " event 1, telemetry 60"
    )


async def test_lost_kernel_messages_are_told(fake: FakeHost, tmp_path: Path) -> None:
    """A gap in the ring's numbers is an event with their number."""
    host = await find(fake, tmp_path, instance_type="trn2.48xlarge")
    async with background(host=host.run()):
        await eventually(lambda: host._ring)
        fake.kmsg.write_text("6,4,1,-;one\n6,7,2,-;two\n")
        made = await host.tick()
    (event,) = payloads(made, "event")
    assert (event["name"], event["text"]) == (
        "messages_lost",
        "2 messages of the host not read in time",
    )
    (presence,) = payloads(made, "publisher")[-1:]
    assert presence["versions"]["driver"] == "2.30.2.0"


def test_an_agent_imports_no_heavy_package() -> None:
    """It has 52 MB of memory without them."""
    text = (
        "import sys\n"
        "import trnfleet.cli.commands.agent, trnfleet.services.agent.run\n"
        "heavy = {'textual', 'httpx', 'structlog', 'websockets', 'duckdb', 'rich', 'zstandard'}\n"
        "print(sorted(heavy & sys.modules.keys()))\n"
    )
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"
