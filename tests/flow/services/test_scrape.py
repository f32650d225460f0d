"""`trnfleet scrape` as users run it, with real servers of exporters and a real Mosquitto."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest
from support.exporter import answer, exporter_page, serve
from support.fake_host import EC2_ID, FakeHost
from support.processes.programs import Program, run
from support.processes.waiting import eventually, running, take_until

from trnfleet.transport.mqtt import MqttSource

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.processes.mosquitto import MosquittoProcess

    from trnfleet.wire.ports import Envelope


async def status_of(mosquitto: MosquittoProcess) -> dict[str, Any]:
    ended = await asyncio.to_thread(
        run, "status", "--json", "--wait", "20s", "--broker", str(mosquitto.url)
    )
    told: dict[str, Any] = json.loads(ended.stdout)
    return told


@pytest.mark.broker
async def test_scraped_hosts_are_live_until_the_scraper_dies(
    mosquitto: MosquittoProcess, tmp_path: Path
) -> None:
    """A list of hosts is a fleet; a silent one is named, and the last will says the end."""
    pages = {f"/{host}": answer(exporter_page(host, 1, runtimes=1)) for host in range(2)}
    async with await serve(lambda path: pages.get(path, b"")) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        targets = tmp_path / "hosts.txt"
        targets.write_text(f"{url}/0\n{url}/1 address=uc1/us-7/second\n{url}/2\n")
        arguments = (
            *("scrape", "--name", "prod", "--broker", str(mosquitto.url), "--interval", "1s"),
            *("--targets", str(targets), "--client-id", "scrape-x"),
        )
        with Program(tmp_path, *arguments) as scraper:
            await eventually(lambda: "scrape_silent" in scraper.output)
            told = await status_of(mosquitto)
            assert (told["instances"], told["live_chips"]) == (2, 32)
            assert scraper.end() == 0
            assert "3 hosts: 2 live, 1 silent (" in scraper.output
            assert "/2: the connection ended without an answer); " in scraper.output
        with Program(tmp_path, *arguments) as scraper:
            await eventually(lambda: "scrape_silent" in scraper.output)
            scraper.end(signal.SIGKILL)
        assert (await status_of(mosquitto))["live_chips"] == 0
        cleared = run("forget", "--name", "prod", "--yes", "--broker", str(mosquitto.url))
        assert "cleared 3 retained messages" in cleared.stdout + cleared.stderr


@pytest.mark.broker
async def test_an_agent_wins_over_the_scrape_of_its_host(
    mosquitto: MosquittoProcess, tmp_path: Path
) -> None:
    """The scrape leaves its host to the agent, says so, and takes over when the agent dies."""
    host = FakeHost(tmp_path)
    address = f"uc1/standalone/{EC2_ID}"
    page = answer(exporter_page(0, 1, runtimes=1))
    events = MqttSource(mosquitto.url, [("trnfleet/v1/prod/event/#", 1)])
    common = ("--name", "prod", "--broker", str(mosquitto.url))
    own = ("--path", address, "--host-root", str(host.root), "--imds", "none", "--period", "1s")

    def names(wanted: str) -> Callable[[list[Envelope]], bool]:
        return lambda seen: any(json.loads(event.payload)["name"] == wanted for event in seen)

    async with running(events.run()), await serve(lambda _: page) as server:
        await events.wait_connected(10)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/0"
        target = tmp_path / "hosts.txt"
        target.write_text(f"{url} address={address}\n")
        scrape = ("scrape", *common, "--interval", "1s", "--targets", str(target))
        with Program(tmp_path, *scrape) as scraper:
            path = f"{host.programs}{os.pathsep}{os.environ['PATH']}"
            queue = ("--queue", str(tmp_path / "queue"))
            with Program(tmp_path, "agent", *common, *own, *queue, PATH=path) as agent:
                seen = await take_until(events, names("scrape_agent"))
                told = json.loads(seen[-1].payload)
                assert (told["path"], told["severity"]) == (address, "info")
                agent.end(signal.SIGKILL)
            await take_until(events, names("scrape_live"))
            assert (await status_of(mosquitto))["live_chips"] == 16
            assert scraper.end() == 0


async def test_pages_are_printed_without_a_broker() -> None:
    """As JSON, once; the status says whether any host could be read."""
    page = answer(exporter_page(5, 1, runtimes=1))
    async with await serve(lambda path: page if path == "/5" else b"") as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        ended = await asyncio.to_thread(
            run, "scrape", "--name", "prod", "--once", "--stdout", f"{url}/5"
        )
        assert ended.returncode == 0, ended.stderr
        described, own, *chips = map(json.loads, ended.stdout.splitlines())
        assert described["instances"][0]["type"] == "trn2.48xlarge"
        assert own["vcpu_util_pct"] == 62.5
        assert [chip["chip"] for chip in chips] == list(range(16))
        failed = await asyncio.to_thread(
            run, "scrape", "--name", "prod", "--once", "--stdout", f"{url}/6"
        )
        assert failed.returncode == 1
        assert "no host could be read" in failed.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--name", "prod", "a"), "give --broker URL or --stdout"),
        (("--name", "prod", "--stdout"), "no targets: name hosts, or give --targets FILE"),
        (("--name", "prod", "--stdout", "ftp://x"), "target 'ftp://x': not HOST"),
        (("--stdout", "a"), "--name"),
    ],
)
def test_wrong_use_is_told_in_one_line(arguments: tuple[str, ...], said: str) -> None:
    ended = run("scrape", *arguments)
    assert ended.returncode == 2
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr
