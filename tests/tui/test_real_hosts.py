"""Views of hosts that know only some metrics: no empty chart, and no figure that claims more."""

from __future__ import annotations

import pytest
from support.monitor.feed import Feed, standalone
from support.tui.pilot import fleet_app, running

from trnfleet.bridge.neuron.host_reader import NEURON_MONITOR
from trnfleet.domain.metrics import BY_NAME
from trnfleet.wire.messages import ColumnSpec, HostMessage, JobMessage, message_envelope
from trnfleet.wire.topics import TopicClass, build_topic

SIZES = [(80, 24), (120, 40), (240, 70)]


def hosts(*, simulated: int = 0) -> Feed:
    """Return a fleet of a host that neuron-monitor describes, and simulated ones."""
    feed = Feed(standalone(1 + simulated))
    first, *others = feed.layout.instances
    if others:
        feed.describe(others)
    feed.columns_described = tuple(ColumnSpec.of(BY_NAME[name]) for name in NEURON_MONITOR)
    feed.publisher = "host"
    feed.origin = "neuron"
    feed.describe([first])
    feed.scatter()
    feed.tick()
    return feed


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("view", ["1", "2", "4"])
async def test_figures_that_no_source_knows_have_no_room(size: tuple[int, int], view: str) -> None:
    """Header, columns, panels and charts are of known figures; one line names the others."""
    feed = hosts()
    app = fleet_app(feed)
    async with running(app, size=size) as pilot:
        await pilot.press(view)
        for _ in range(3):
            await pilot.telemetry(feed)
        text = pilot.text()

    assert "n/a" not in text.replace("? n/a", ""), text
    assert "no telemetry" not in text
    for word in ("temp ", "link tx", "HBM bw", "below cap"):
        assert word not in text
    assert "HBM" in text
    if view != "2" and size[0] > 80:
        assert "not known here: power" in text


async def test_sums_of_a_mixed_fleet_say_how_many_chips_they_cover() -> None:
    """Power is of the chips that know it; a line says so."""
    feed = hosts(simulated=2)
    app = fleet_app(feed)
    async with running(app, size=(200, 55)) as pilot:
        await pilot.telemetry(feed)
        text = pilot.text()

    assert "of 32 chips" in text.splitlines()[0]
    assert "HBM bw" in text.splitlines()[1]
    assert "of 32 chips" in text.splitlines()[1]
    assert "known for 32 of 48 chips: power, temperature" in text


async def test_the_map_offers_known_metrics_only() -> None:
    """`m` passes over figures that no source knows."""
    feed = hosts()
    app = fleet_app(feed)
    titles = []
    async with running(app, size=(120, 40)) as pilot:
        for _ in range(12):
            await pilot.press("m")
            titles.append(pilot.screen()[4].split()[0])

    assert {"power", "temp", "link"}.isdisjoint(titles)
    assert "NC" in titles


async def test_power_of_the_minute_without_watts() -> None:
    """A share of the maximum is power: what is not known are the watts."""
    feed = hosts()
    feed.columns_described += (ColumnSpec.of(BY_NAME["power_util_pct"]),)
    feed.revision += 1
    feed.describe()
    app = fleet_app(feed)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.press("4")
        await pilot.telemetry(feed)
        text = pilot.text()

    assert "not known here: watts" in text
    assert "util, 1 min" in text
    assert "n/a" not in text.replace("? n/a", ""), text


@pytest.mark.parametrize("view", ["1", "2", "8"])
async def test_p_leads_to_the_sources_of_values(view: str) -> None:
    """It explains the line of what is not known, on any view, and shows the panels again there."""
    feed = hosts()
    app = fleet_app(feed)
    async with running(app, size=(120, 40)) as pilot:
        for _ in range(2):
            await pilot.press(view)
            await pilot.press("p")
            text = pilot.text()
            assert "[4 Chip]" in text
            assert "Sources" in text
            assert "neuron-monitor neuroncore_utilization" in text
            assert "from sysfs stats/power/utilization" in text
            assert "no Neuron interface has a temperature" in text
        await pilot.press("p")
        assert "neuron-monitor neuroncore_utilization" not in pilot.text()


async def test_a_reported_job_shows_its_loss_and_that_it_is_lost() -> None:
    """The reporter's figures are in its lines; its last will has none."""
    feed = hosts()
    place = feed.layout.instances[0]
    app = fleet_app(feed)
    async with running(app, size=(160, 40)) as pilot:
        ts = "2026-01-05T00:00:00Z"
        job = JobMessage(
            job="linear",
            kind="training",
            state="running",
            ts=ts,
            on=(place,),
            tokens_per_s=2_500.0,
            loss=0.125,
        )
        lost = JobMessage(job="linear", kind="training", state="lost", ts=ts, on=(place,))
        topic = build_topic(feed.fleet, TopicClass.JOB, "linear")
        for message, said in (
            (job, ("2.50k tok/s", "loss 0.125")),
            (lost, ("? linear", "└ job lost")),
        ):
            feed.monitor.apply([message_envelope(topic, message, retain=True)])
            await pilot.telemetry(feed)
            text = pilot.text()
            assert all(word in text for word in said), text


async def test_the_source_of_a_row_shows_where_there_are_several_kinds() -> None:
    """As presence or descriptor says; rows above have one word for all, or `mixed`."""
    feed = hosts(simulated=2)
    app = fleet_app(feed)
    async with running(app, size=(120, 40)) as pilot:
        await pilot.press("2")
        _, *simulated = feed.layout.instances
        rows = [line for line in pilot.screen() if "trn2-0" in line]
        assert [("host" in row, " sim " in row) for row in rows] == [(True, False)] + [
            (False, True)
        ] * 2
        assert "mixed" in next(line for line in pilot.screen() if "standalone" in line)

        # A scraper's presence has a boot of its own.
        presence = HostMessage(client="host", state="online", boot="other", source="scrape")
        topic = build_topic(feed.fleet, TopicClass.PUBLISHER, "host")
        feed.monitor.apply([message_envelope(topic, presence, retain=True)])
        await pilot.telemetry(feed)
        assert "scrape" in next(line for line in pilot.screen() if "trn2-0001" in line)
        await pilot.press("/", *"source=sim", "enter")
        text = pilot.text()
        assert "trn2-0001" not in text
        assert all(place.rpartition("/")[2] in text for place in simulated)


async def test_one_kind_of_source_has_no_column() -> None:
    feed = hosts()
    app = fleet_app(feed)
    async with running(app, size=(200, 40)) as pilot:
        await pilot.press("2")
        assert "source" not in "\n".join(pilot.screen()[:6])
