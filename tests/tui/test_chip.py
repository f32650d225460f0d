from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pytest
from support.monitor.feed import Feed, standalone, ultraservers
from support.tui.pilot import ViewHost

from trnfleet.clock import NS_PER_S
from trnfleet.tui.chip.reading import COUNTERS, CounterRates, neighbour
from trnfleet.tui.chip.view import ChipView
from trnfleet.tui.state.context import UiContext
from trnfleet.wire.messages import Descriptor, decode_message, encode_message
from trnfleet.wire.ports import Envelope
from trnfleet.wire.topics import TopicClass, build_topic

if TYPE_CHECKING:
    from textual.app import ComposeResult

CHIP = "uc1/us-0001/trn2u-0001-0/chip05"
SIZES = [(80, 24), (120, 40), (240, 70)]


class Host(ViewHost):
    """An app that is nothing but the view."""

    def __init__(self, feed: Feed) -> None:
        super().__init__()
        self.feed = feed

    def compose(self) -> ComposeResult:
        self.view = ChipView(UiContext.of(self.feed.monitor, self.feed.clock))
        yield self.view

    def on_mount(self) -> None:
        self.view.show_place(CHIP)
        self.view.take_focus()

    def shown(self) -> str:
        """Return the screen's text."""
        self.view.tick()
        board = self.view.board
        lines = range(board.scrollable_content_region.height)
        return "\n".join(board.render_line(y).text.rstrip() for y in lines)


def fed() -> Feed:
    feed = Feed(ultraservers(2) + standalone(2) + standalone(1, "trn1.2xlarge"))
    feed.jobs = {"llama": ("uc1/us-0001",)}
    feed.describe()
    feed.scatter()
    feed.tick()
    return feed


def row_of(feed: Feed, path: str) -> int:
    node = feed.monitor.store.layout.find(path)
    assert node is not None
    return node.number


@pytest.mark.parametrize(("width", "height"), SIZES)
async def test_everything_of_a_chip_is_there(width: int, height: int) -> None:
    """At every size, values are the store's, and links name their other end."""
    feed = fed()
    chip = row_of(feed, CHIP)
    feed.set("nc_util_pct", np.arange(10.0, 90.0, 10.0), chip)
    feed.set("power_w", 412.0, chip)
    feed.set("temperature_c", 93.5, chip)
    feed.set("hbm_used_bytes", 48 * 2**30, chip)
    feed.set("links_up", 0b111011, chip)
    feed.set("health", 0b1000001, chip)
    feed.set("mem_ecc_uncorrected", 2, chip)
    feed.tick()
    app = Host(feed)
    async with app.run_test(size=(width, height)) as pilot:
        await pilot.pause()
        text = app.shown()
        for part in (
            CHIP,
            "● live",
            "trn2u.48xlarge",
            "job llama",
            "simulated",
            "LNC=2",
            "10.0",
            "80.0",
            "412 W",
            "▲93.5 °C",
            "48.0 GiB",
            "50.0 %",
            "5/6 up",
            "✖ down",
            "chip01",
            "chip09",
            "chip04",
            "chip06",
            "trn2u-0001-3",
            "trn2u-0001-1",
            "✖ HBM, link to EFA",
            "✖2",
        ):
            assert part in text, part
        assert all(len(line) <= width for line in text.splitlines())


async def test_a_figure_has_one_value_between_two_samples() -> None:
    """Chart titles show the same values as the panels.

    A message may arrive after the last sample. A stale chip has no present values.
    """
    feed = fed()
    feed.set("power_w", 400.0)
    feed.set("nc_util_pct", 80.0)
    for _ in range(3):
        feed.tick()
        await feed.advance(1.0)
    app = Host(feed)
    async with app.run_test(size=(200, 55)) as pilot:
        await pilot.pause()
        feed.set("power_w", 430.0)
        feed.set("nc_util_pct", 97.0)
        feed.monitor.apply(feed.telemetry())
        app.view.tick()
        text = app.shown()
        assert re.search(r"power +430 W now ─", text)
        assert re.search(r"NC util +97\.0 % now ─", text)
        assert "400 W" not in text
        await feed.advance(30.0)
        app.view.tick()
        assert re.search(r"power +n/a now ─", app.shown())


async def test_what_is_not_known_is_not_zero() -> None:
    """Values unknown to the source are n/a.

    An instance without Z links shows that; Trainium1 has two cores.
    """
    feed = fed()
    path = "uc1/standalone/trn2-0001/chip02"
    for name in (
        "power_w",
        "temperature_c",
        "hbm_read_bytes_per_s",
        "mem_ecc_corrected",
        "nc_util_pct",
    ):
        feed.set(name, np.nan, row_of(feed, path))
    feed.columns["health"][row_of(feed, path)] = 0xFFFF
    feed.columns["links_up"][row_of(feed, path)] = 0xFF
    feed.tick()
    app = Host(feed)
    async with app.run_test(size=(120, 40)) as pilot:
        app.view.show_place(path)
        await pilot.pause()
        text = app.shown()
        assert text.count("n/a") >= 8 + 5
        assert "health n/a" in text
        assert text.count("no link") == 2
        app.view.show_place("uc1/standalone/trn1-0001/chip00")
        text = app.shown()
        assert "Trainium1" in text
        assert "nc1" in text
        assert "nc2" not in text
        assert text.count("no link") == 6


async def test_stale_is_dim_and_tells_its_age() -> None:
    """Values of a silent chip remain, dimmed, with their age."""
    feed = fed()
    app = Host(feed)
    async with app.run_test(size=(80, 24)) as pilot:
        await feed.advance(12.0)
        await pilot.pause()
        text = app.shown()
        assert "◌ stale 12 s" in text
        assert "● live" not in text
        lines = [app.view.board.render_line(y) for y in range(2, 15)]
        values = [
            segment
            for line in lines
            for segment in line
            if any(char.isdigit() for char in segment.text)
        ]
        assert values
        assert all(
            each.style is not None and (each.style.dim or each.style.color) for each in values
        )
        assert not any(each.style is not None and each.style.bold for each in values)


async def test_late_telemetry_is_said_to_be_late() -> None:
    """Values with a source time an hour ago are live and marked late.

    Another chip's values are not marked.
    """
    feed = Feed(ultraservers(1))
    feed.origin = "neuron"
    feed.describe()
    feed.scatter()
    late = "uc1/us-0001/trn2u-0001-0"
    on_time = "uc1/us-0001/trn2u-0001-1"
    for _ in range(3):
        await feed.clock.advance(1.0)
        feed.monitor.apply(feed.telemetry([late], ts_ns=feed.clock.wall_ns() - 3_600 * NS_PER_S))
        feed.monitor.apply(feed.telemetry([on_time]))
        feed.monitor.compute()
    app = Host(feed)
    async with app.run_test(size=(80, 24)):
        assert "● live, 1 h late" in app.shown()
        app.view.show_place(f"{on_time}/chip03")
        assert "late" not in app.shown()


async def test_keys_walk_over_chips_and_show_provenance() -> None:
    """Right and left step round the chips.

    `p` shows provenance, on a real host too.
    """
    feed = fed()
    app = Host(feed)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("right", "n", "left")
        assert app.view.place.endswith("chip06")
        assert app.view.place in app.shown()
        app.view.show_place("uc1/us-0002/trn2u-0002-3/chip15/nc4")
        await pilot.press("n")
        assert app.view.place == "uc1/standalone/trn1-0001/chip00"
        app.view.show_place(CHIP)
        app.view.show_sources(toggles=True)
        assert "simulated" in app.shown()
        envelope = feed.announcements(["uc1/us-0001/trn2u-0001-0"])[1]
        whole = decode_message(envelope.payload, Descriptor)
        some = msgspec.structs.replace(whole, origin="neuron", columns=whole.columns[:11])
        feed.monitor.apply([envelope._replace(payload=encode_message(some))])
        feed.monitor.compute()
        text = app.shown()
        for part in ("a real host", "measured", "modelled", "unavailable", "not sent"):
            assert part in text
        feed.monitor.apply(feed.announcements())
        feed.monitor.compute()
        await pilot.resize_terminal(200, 55)
        app.view.show_sources(toggles=True)
        text = app.shown()
        assert re.search(r"Sources ─+ simulated; on a real host:", text)
        assert re.search(r"vcpu_util_pct +neuron-monitor vcpu_usage", text)
        assert re.search(r"temperature_c +simulated or third-party only", text)
        shown = text.partition("Sources")[2]
        assert "…" in shown
        assert not re.search(r"\w…", shown)
        app.view.show_place("uc9/us-1/i-1/chip00")
        assert "uc9/us-1/i-1/chip00 is not known" in app.shown()


async def test_counters_have_rates_and_charts_their_history() -> None:
    """Rates are per source time.

    A chip on screen has its history recorded.
    """
    feed = fed()
    app = Host(feed)
    async with app.run_test(size=(120, 40)) as pilot:
        for _ in range(10):
            await feed.advance(1.0)
            feed.columns["exec_completed"] += np.uint64(7)
            feed.tick()
            app.view.tick()
        await pilot.pause()
        text = app.shown()
        assert "7.0/s" in text
        assert any(dots in text for dots in "⣀⠤⠒⠉")
        assert " now ─" in text


def test_rates_restart() -> None:
    """No rate after a single sample, for another chip, or after a counter fell."""
    rates = CounterRates()
    assert np.isnan(rates.add("a", 1_000_000_000, np.full(len(COUNTERS), 5.0))["exec_errors"])
    assert rates.add("a", 3_000_000_000, np.full(len(COUNTERS), 9.0))["exec_errors"] == 2.0
    assert rates.add("a", 3_000_000_000, np.full(len(COUNTERS), 9.0))["exec_errors"] == 2.0
    assert np.isnan(rates.add("a", 4_000_000_000, np.zeros(len(COUNTERS)))["exec_errors"])
    assert np.isnan(rates.add("b", 5_000_000_000, np.full(len(COUNTERS), 9.0))["exec_errors"])


def test_a_replaced_instances_counters_restart() -> None:
    """After a fall to 0, rates count from there.

    None is negative, and none spans the replacement.
    """
    rates = CounterRates()
    for second in range(1, 10):
        rates.add("a", second * 1_000_000_000, np.full(len(COUNTERS), 1_000.0 + 5 * second))
    assert np.isnan(rates.add("a", 10_000_000_000, np.full(len(COUNTERS), 2.0))["exec_completed"])
    assert rates.add("a", 11_000_000_000, np.full(len(COUNTERS), 9.0))["exec_completed"] == 7.0
    # Far more than before the fall: still only what came after it.
    assert (
        rates.add("a", 12_000_000_000, np.full(len(COUNTERS), 4_002.0))["exec_completed"] == 2_000.0
    )


async def test_charts_say_that_they_go_by_the_wall_clock() -> None:
    """In a sped-up fleet a chart's span is labelled as wall time; otherwise not."""
    for speed, said in ((1.0, False), (3_600.0, True)):
        feed = Feed(ultraservers(2))
        feed.speed = speed
        feed.scatter()
        feed.describe()
        feed.tick()
        app = Host(feed)
        async with app.run_test(size=(240, 70)) as pilot:
            await pilot.pause()
            assert (" min wall" in app.shown()) is said
            assert " min" in app.shown()


async def test_the_ec2_id_and_job_follow() -> None:
    """A replaced instance shows its new EC2 id, and a stopped job its state."""
    feed = Feed(ultraservers(2))
    feed.jobs = {"llama": ("uc1/us-0001",)}
    feed.scatter()
    feed.describe()
    feed.tick()
    app = Host(feed)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        assert f"i-{0:017x}" in app.shown()
        assert "job llama  " in app.shown()
        feed.generation = 3
        feed.revision = 1
        feed.states = {"llama": "hung"}
        feed.describe()
        assert f"i-{3:017x}" in app.shown()
        assert "job llama (hung)" in app.shown()


async def test_a_layout_of_the_same_instances_is_another_one() -> None:
    """A host may be described again while its chip is on screen.

    This happens before alerts are read again.
    """
    feed = fed()
    app = Host(feed)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        assert "chip05" in app.shown()
        before = feed.monitor.store.layout
        instance = CHIP.rpartition("/")[0]
        feed.monitor.apply([Envelope(build_topic("demo", TopicClass.NODE, instance), b"")])
        feed.describe([instance])
        layout = feed.monitor.store.layout
        assert layout is not before
        assert layout.instances == before.instances
        assert "chip05" in app.shown()


def test_neighbours_are_mutual() -> None:
    """The chip at the other end of a link sees the same link in reverse.

    For the torus and the Z ring.
    """
    feed = fed()
    layout = feed.monitor.store.layout
    opposite = {0: 1, 1: 0, 2: 3, 3: 2, 4: 5, 5: 4}
    linked = 0
    for chip in range(layout.chips):
        for lane, back in opposite.items():
            other = neighbour(layout, chip, lane)
            if other is not None:
                linked += 1
                assert neighbour(layout, other, back) == chip
    assert linked == 2 * (2 * 192 + 2 * 32)


async def test_unknown_lnc_is_not_claimed() -> None:
    """Without published core pairs, the view shows LNC=n/a."""
    feed = fed()
    envelope = feed.announcements(["uc1/us-0001/trn2u-0001-0"])[1]
    old = decode_message(envelope.payload, Descriptor)
    spec = msgspec.structs.replace(old.instances[0], lnc=None)
    silent = msgspec.structs.replace(old, instances=(spec,))
    feed.monitor.apply([envelope._replace(payload=encode_message(silent))])
    feed.monitor.compute()
    app = Host(feed)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        assert "LNC=n/a" in app.shown()
        assert "logical" not in app.shown()


async def test_a_job_without_a_live_chip_is_the_last_known() -> None:
    """It shows an age, and a state in need of help."""
    feed = fed()
    host = Host(feed)
    async with host.run_test(size=(120, 40)):
        assert "job llama  " in host.shown()
        await feed.advance(12.0)
        feed.monitor.compute()
        assert "job llama (last known 12 s ago)  " in host.shown()
        message = feed.monitor.ingest.jobs["llama"]
        feed.monitor.ingest.job_table.by_key["llama"] = msgspec.structs.replace(
            message, state="failed"
        )
        assert "job llama (failed, last known 12 s ago)  " in host.shown()
