"""The scraper with real servers of exporters, without a broker."""

from __future__ import annotations

import json
import os
import threading
from typing import TYPE_CHECKING

import msgspec
import pytest
from support.exporter import answer, exporter_page, serve
from support.monitor.feed import SilentSource
from support.neuron import feed, trn2
from support.processes.waiting import eventually, running

from trnfleet.bridge.neuron.host_reader import HostReader
from trnfleet.bridge.neuron.telemetry import HostTelemetry
from trnfleet.clock import ManualClock, SystemClock
from trnfleet.errors import ConfigError
from trnfleet.logs import Logger
from trnfleet.monitor.monitor import Monitor
from trnfleet.services.scrape.scraper import (
    AGENT_STILL_S,
    AT_ONCE,
    ScrapedHost,
    Scraper,
    ScrapeRequest,
)
from trnfleet.services.scrape.targets import parse_target
from trnfleet.wire.messages import (
    Descriptor,
    EventMessage,
    HostMessage,
    PublisherMessage,
    decode_message,
    message_envelope,
)
from trnfleet.wire.ports import LinkStatus, PublishResult
from trnfleet.wire.topics import TopicClass, build_topic, parse_topic

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable
    from pathlib import Path
    from typing import Any

    from trnfleet.wire.ports import Envelope

HOST = "uc1/standalone/i-{:017x}"
NO_DEVICES = exporter_page(3, 1, runtimes=0).replace('device_count="16"', 'device_count="0"')


class Collected:
    """Published messages; the port `Publisher`."""

    def __init__(self) -> None:
        self.status = LinkStatus()
        self.messages: list[Envelope] = []

    def on_connect(self, announce: Callable[[], Iterable[Envelope]]) -> None:
        """Do nothing."""

    async def publish(self, batch: Iterable[Envelope]) -> PublishResult:
        self.messages += batch
        return PublishResult()

    def take(self, topic_class: TopicClass) -> list[tuple[str, bytes]]:
        """Return path and payload of the messages of a class so far, and remove them."""
        topics = [(message, parse_topic(message.topic)) for message in self.messages]
        chosen = [
            (topic.path, message.payload)
            for message, topic in topics
            if topic.topic_class is topic_class
        ]
        self.messages = [
            message for message, topic in topics if topic.topic_class is not topic_class
        ]
        return chosen

    def events(self) -> list[tuple[str, str, str]]:
        """Return path, name and text of the events so far, and remove them."""
        told = [decode_message(payload, EventMessage) for _, payload in self.take(TopicClass.EVENT)]
        return [(event.path, event.name, event.text.partition(": ")[2]) for event in told]


class Exporters:
    """Exporters on one port, each with its path."""

    def __init__(self) -> None:
        self.told: dict[str, bytes | None] = {}
        """The answer by path."""
        self.port = 0
        self.asked: Callable[[str], object] = str
        """Receives the path of each request."""

    def answer(self, path: str) -> bytes | None:
        """Return the answer to a request."""
        self.asked(path)
        return self.told.get(path, b"HTTP/1.1 404 Not Found\r\n\r\n")

    def url(self, name: str, page: str | bytes | None = None) -> str:
        """Return the URL of an exporter, and set its page."""
        if page is not None:
            self.told[f"/{name}"] = answer(page)
        return f"http://127.0.0.1:{self.port}/{name}"


@pytest.fixture
async def exporters() -> AsyncIterator[Exporters]:
    made = Exporters()
    async with await serve(made.answer) as server:
        made.port = server.sockets[0].getsockname()[1]
        yield made


def scraper_of(*urls: str, clock: Any = None, **more: Any) -> Scraper:
    targets = tuple(map(parse_target, urls))
    request = ScrapeRequest("prod", "trnfleet", targets, more.pop("interval_s", 15.0), **more)
    return Scraper(request, clock or ManualClock(wall_ns=1_767_571_200_000_000_000))


async def test_hosts_are_described_by_one_publisher(exporters: Exporters) -> None:
    """A descriptor each, and a frame each time; the presence is the scraper's."""
    scraper = scraper_of(
        *(exporters.url(name, exporter_page(number, 1)) for number, name in enumerate("ab")),
        client_id="scrape-here",
    )
    out = Collected()
    for _ in range(2):
        await scraper.scrape_all(out)
    described = [decode_message(payload, Descriptor) for _, payload in out.take(TopicClass.NODE)]
    assert sorted(each.path for each in described) == [HOST.format(0), HOST.format(1)]
    assert {each.publisher for each in described} == {"scrape-here"}
    assert {each.period_s for each in described} == {15.0}
    assert len(out.take(TopicClass.TELEMETRY)) == 4
    assert out.messages == []
    out.messages += scraper.announce()
    (presence,) = out.take(TopicClass.PUBLISHER)
    assert decode_message(presence[1], PublisherMessage).state == "online"
    assert len(out.take(TopicClass.NODE)) == 2
    assert scraper.summary() == "2 hosts: 2 live; 4 scrapes, 0 failed"


@pytest.mark.parametrize(
    ("page", "name", "reason"),
    [
        (None, "scrape_silent", "HTTP 404"),
        ("", "scrape_unusable", "the page has no metrics of neuron-monitor-prometheus"),
        ("<html></html>\n", "scrape_unusable", "the page has no metrics of"),
        (b"\xff\xfe\n", "scrape_unusable", "the page has no metrics of"),
        (NO_DEVICES, "scrape_no_chips", "the host sees no Neuron device"),
        (NO_DEVICES.replace("trn2.48xlarge", ""), "scrape_no_chips", "the host sees no Neuron"),
        (exporter_page(2).replace("trn2.48x", "trn9.48x"), "scrape_unusable", "trn9"),
        (exporter_page(2) + exporter_page(4), "scrape_unusable", "the page has several hosts"),
        (exporter_page(1), "scrape_unusable", "is the same host, uc1/standalone/i-000"),
    ],
)
async def test_other_answers_are_told_apart(
    exporters: Exporters, page: str | bytes | None, name: str, reason: str
) -> None:
    """Once by an event, and in the summary; the other host goes on."""
    scraper = scraper_of(exporters.url("a", exporter_page(1)))
    out = Collected()
    await scraper.scrape_all(out)
    scraper = scraper_of(exporters.url("a"), exporters.url("b", page))
    await scraper.scrape_all(out)
    for _ in range(2):
        await scraper.scrape_all(out)
    ((_, told, why),) = out.events()
    assert told == name
    assert reason in why
    assert "2 hosts: 1 live, 1 " in scraper.summary()
    assert f"{exporters.port}/" in scraper.summary()


async def test_a_host_without_chips_stays_live(exporters: Exporters) -> None:
    """Its chips are unknown, its own figures are known, and it comes back."""
    scraper = scraper_of(exporters.url("a", exporter_page(3, 1)))
    out = Collected()
    await scraper.scrape_all(out)
    exporters.url("a", NO_DEVICES)
    await scraper.scrape_all(out)
    assert out.events() == [(HOST.format(3), "scrape_no_chips", "the host sees no Neuron device")]
    assert len(out.take(TopicClass.TELEMETRY)) == 2
    exporters.url("a", exporter_page(3, 2))
    await scraper.scrape_all(out)
    assert out.events() == [(HOST.format(3), "scrape_live", "answers again")]


async def test_a_silent_host_says_so_once_and_comes_back(exporters: Exporters) -> None:
    """Without telemetry, which makes it stale; counters go on over the gap."""
    scraper = scraper_of(exporters.url("a", exporter_page(0, 1)))
    out = Collected()
    await scraper.scrape_all(out)
    exporters.told["/a"] = b"HTTP/1.1 503 Busy\r\n\r\n"
    out.take(TopicClass.TELEMETRY)
    for _ in range(2):
        await scraper.scrape_all(out)
    assert out.take(TopicClass.TELEMETRY) == []
    assert out.events() == [(HOST.format(0), "scrape_silent", "HTTP 503")]
    exporters.url("a", exporter_page(0, 3))
    await scraper.scrape_all(out)
    assert len(out.take(TopicClass.TELEMETRY)) == 1
    assert out.events() == [(HOST.format(0), "scrape_live", "answers again")]
    assert scraper.summary() == "1 host: 1 live; 4 scrapes, 2 failed"


async def test_another_instance_of_an_address_replaces_the_first(exporters: Exporters) -> None:
    """The first one's state is cleared; the other has its own boot and counters."""
    scraper = scraper_of(exporters.url("a", exporter_page(1, 1)))
    out = Collected()
    await scraper.scrape_all(out)
    (first,) = out.take(TopicClass.NODE)
    exporters.url("a", exporter_page(2, 1))
    await scraper.scrape_all(out)
    cleared, second = out.take(TopicClass.NODE)
    assert cleared == (HOST.format(1), b"")
    assert second[0] == HOST.format(2)
    assert json.loads(first[1])["boot"] != json.loads(second[1])["boot"]
    assert out.events() == []


async def test_damaged_lines_are_counted(exporters: Exporters) -> None:
    page = exporter_page(0, 1).replace("} 0.125\n", "} half\n", 1) + "7x 1\n"
    scraper = scraper_of(exporters.url("a", page))
    await scraper.scrape_all(Collected())
    assert scraper.summary() == "1 host: 1 live; 1 scrape, 0 failed, 2 unusable lines"


async def test_targets_join_and_leave_with_their_file(
    exporters: Exporters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that left has its state cleared; a broken file changes nothing."""
    file = tmp_path / "hosts.txt"
    warned: list[str] = []
    monkeypatch.setattr(Logger, "warning", lambda _log, event, **_: warned.append(event))

    def write(*lines: str) -> None:
        other = tmp_path / "new"
        other.write_text("".join(f"{line}\n" for line in lines))
        os.replace(other, file)  # noqa: PTH105  as an editor does

    urls = [exporters.url(name, exporter_page(number, 1)) for number, name in enumerate("abc")]
    write(*urls[:2])
    scraper = scraper_of(clock=SystemClock(), file=file, interval_s=1.0)
    out = Collected()

    def described() -> dict[str, bool]:
        nodes = [(parse_topic(message.topic), bool(message.payload)) for message in out.messages]
        return {topic.path: there for topic, there in nodes if topic.topic_class is TopicClass.NODE}

    first, second, third = map(HOST.format, range(3))
    async with running(scraper.run(out)):
        await eventually(lambda: described() == {first: True, second: True})
        write(urls[0], urls[2])
        await eventually(lambda: described() == {first: True, second: False, third: True})
        write(urls[0], "c d=e")
        await eventually(lambda: "targets_not_read" in warned)
        write(f"{urls[0]} address=uc1/standalone/x")
        await eventually(
            lambda: (
                described() == {first: False, second: False, third: False, "uc1/standalone/x": True}
            )
        )
    *_, (_, presence) = out.take(TopicClass.PUBLISHER)
    assert json.loads(presence)["state"] == "offline"


async def test_many_silent_hosts_do_not_delay_others(
    exporters: Exporters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hosts that were silent before wait for each other only."""
    monkeypatch.setattr("trnfleet.services.scrape.scraper.LONGEST_LIMIT_S", 1_000.0)
    names = [f"silent-{number}" for number in range(AT_ONCE)]
    live = exporters.url("live", exporter_page(0, 1))
    scraper = scraper_of(*map(exporters.url, names), live, interval_s=10_000.0)
    await scraper.scrape_all(Collected())
    exporters.told |= {f"/{name}": None for name in names}
    out = Collected()
    async with running(scraper.scrape_all(out)):
        await eventually(lambda: out.messages)


async def test_an_agent_of_the_same_host_wins(exporters: Exporters) -> None:
    """Even if it begins later; it is named, and the scrape goes on when the agent is offline."""
    clock = ManualClock(wall_ns=1_767_571_200_000_000_000, monotonic_s=100.0)
    url = exporters.url("a", exporter_page(0, 1, runtimes=1))
    scraper = scraper_of(url, clock=clock, client_id="scrape-here")
    monitor = Monitor(SilentSource(), "prod", clock=clock)
    out = Collected()
    reader = HostReader()
    feed(reader, trn2())
    agent = HostTelemetry(reader, "prod", HOST.format(0), boot="agent", period_s=5.0)
    node = TopicClass.NODE.value
    described: list[tuple[int, str]] = []
    out.messages += scraper.announce()
    for second in range(150):
        if 20 < second < 100 and second % 5 == 0:
            out.messages += agent.envelopes(clock.wall_ns())
        if second == 100:
            out.messages.append(agent.presence("offline"))
        scraper.note_agents(out.messages)
        if second % 15 == 0:
            await scraper.scrape_all(out)
        described += [
            (second, json.loads(message.payload)["publisher"])
            for message in out.messages
            if f"/{node}/" in message.topic
        ]
        monitor.apply(
            [message._replace(received_s=clock.monotonic_s()) for message in out.messages]
        )
        assert not (40 < second < 100) or monitor.summary().live_chips == 16
        told = [message for message in out.messages if "/event/" in message.topic]
        out.messages = told if second < 149 else out.messages
        await clock.advance(1.0)
        monitor.compute()
    assert described == [(0, "scrape-here"), (25, agent.publisher), (105, "scrape-here")]
    assert monitor.summary().contested == {}
    assert monitor.summary().live_chips == 16
    assert out.events() == [
        (HOST.format(0), "scrape_agent", f"{agent.publisher} is online and publishes this host"),
        (HOST.format(0), "scrape_live", "its agent is offline"),
    ]


async def test_an_agent_without_a_last_will_is_gone_after_a_while(exporters: Exporters) -> None:
    """Its address says whose host it is: the client id may be of its start, before it had an id."""
    clock = ManualClock(wall_ns=1_767_571_200_000_000_000)
    scraper = scraper_of(exporters.url("a", exporter_page(0, 1, runtimes=1)), clock=clock)
    presence = HostMessage(client="neuron-trn-box", state="online", boot="x", path=HOST.format(0))
    topic = build_topic("prod", TopicClass.PUBLISHER, presence.client)
    out = Collected()
    elsewhere = msgspec.structs.replace(presence, path=HOST.format(1))
    for told in (elsewhere, presence):
        scraper.note_agents([message_envelope(topic, told, retain=True)])
    await scraper.scrape_all(out)
    assert out.take(TopicClass.NODE) == []
    assert scraper.summary() == "1 host: 1 with an agent; 0 scrapes, 0 failed"
    await clock.advance(AGENT_STILL_S)
    await scraper.scrape_all(out)
    assert len(out.take(TopicClass.NODE)) == 1


OBSERVED = (
    'neuron_system_info{{instance_type="trn2.48xlarge",instance_name="{0}"{1}}} 1\n'
    'neuron_core_utilization{{neuron_device_index="0",neuroncore="0"}} {2}\n'
)


async def test_percent_of_observer_is_an_event_once(exporters: Exporters) -> None:
    """The first value above 1.5 of any host is for all hosts of the scraper."""
    scraper = scraper_of(
        *(exporters.url(name, OBSERVED.format(name, "", "0.5")) for name in "ab"),
    )
    out = Collected()

    async def shown() -> dict[str, float]:
        out.messages.clear()
        await scraper.scrape_all(out)
        return {
            parse_topic(message.topic).path.split("/")[2]: json.loads(message.payload)[
                "nc_util_pct"
            ][0]
            for message in out.messages
            if message.topic.endswith("/chip00")
        }

    scraper._encoding = "json"
    assert await shown() == {"a": 50, "b": 50}
    exporters.url("b", OBSERVED.format("b", "", "63"))
    await shown()
    assert out.events() == [
        (
            "",
            "utilization_is_percent",
            f"63 on line 2 of {exporters.url('b')}",
        )
    ]
    assert await shown() == {"a": 0.5, "b": 63}
    assert out.events() == []


async def test_a_host_moves_into_its_ultraserver(exporters: Exporters) -> None:
    """When its page names it, and out of it when another host's page does not."""
    scraper = scraper_of(exporters.url("a"))
    out = Collected()
    paths = []
    for name, ultraserver in (("x", ""), ("x", ',ultraserver_id="us-7"'), ("y", "")):
        exporters.url("a", OBSERVED.format(name, ultraserver, "0.5"))
        await scraper.scrape_all(out)
        paths += [(path, bool(payload)) for path, payload in out.take(TopicClass.NODE)]
    assert paths == [
        ("uc1/standalone/x", True),
        ("uc1/standalone/x", False),
        ("uc1/us-7/x", True),
        ("uc1/us-7/x", False),
        ("uc1/standalone/y", True),
    ]


async def test_a_long_page_is_parsed_beside_the_event_loop(
    exporters: Exporters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop goes on, for other hosts and for the broker's keepalive."""
    monkeypatch.setattr("trnfleet.services.scrape.scraper.LONG_BYTES", 60_000)
    begun = threading.Event()
    released = threading.Event()
    read = ScrapedHost.read

    def read_when_released(host: ScrapedHost, page: bytes) -> bool:
        begun.set()
        assert released.wait(30)
        return read(host, page)

    monkeypatch.setattr(ScrapedHost, "read", read_when_released)
    scraper = scraper_of(exporters.url("a", exporter_page(0, 1)))
    async with running(scraper.scrape_all(Collected())):
        await eventually(begun.is_set)
        released.set()
        await eventually(lambda: scraper.summary() == "1 host: 1 live; 1 scrape, 0 failed")


async def test_few_long_pages_are_read_at_once(
    exporters: Exporters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are bounded in memory, and wait for each other only."""
    monkeypatch.setattr("trnfleet.services.scrape.scraper.LONG_BYTES", 60_000)
    monkeypatch.setattr("trnfleet.services.scrape.scraper.LONG_AT_ONCE", 1)
    short = exporters.url("short", exporter_page(99, 1, runtimes=1))
    names = [f"long-{number}" for number in range(3)]
    pages = {name: exporter_page(number, 1) for number, name in enumerate(names)}
    scraper = scraper_of(*(exporters.url(name, page) for name, page in pages.items()), short)
    await scraper.scrape_all(Collected())
    assert scraper.summary() == "4 hosts: 4 live; 4 scrapes, 0 failed"
    exporters.told |= {f"/{name}": None for name in names}
    asked: list[str] = []
    exporters.asked = asked.append
    out = Collected()
    async with running(scraper.scrape_all(out)):
        await eventually(lambda: out.messages and len(asked) == 2)
    assert "/short" in asked


def test_no_target_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no targets: name hosts, or give --targets FILE"):
        scraper_of()
    with pytest.raises(ConfigError, match="none: No such file"):
        scraper_of(file=tmp_path / "none")
    with pytest.raises(ConfigError, match="--target-token-file"):
        scraper_of("a", token_file=str(tmp_path / "none"))
    with pytest.raises(ConfigError, match="--target-ca"):
        scraper_of("https://a", ca=str(tmp_path / "none"))
