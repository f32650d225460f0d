"""The past behind the app: its folder, its metadata, and its playback."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from trnfleet.clock import NS_PER_S, ManualClock
from trnfleet.domain.site import Site
from trnfleet.errors import ConfigError
from trnfleet.monitor.replay.past_monitor import PastSource
from trnfleet.monitor.store.history import History
from trnfleet.record.read.recording import Recording
from trnfleet.services import viewing
from trnfleet.services.live_monitor import monitor_fleet
from trnfleet.services.session import BrokerSession
from trnfleet.transport.url import parse_url
from trnfleet.wire.ports import Envelope

if TYPE_CHECKING:
    from pathlib import Path

    from trnfleet.record.write.live import LiveBuffer

BEGIN_NS = 1_767_571_200 * NS_PER_S
URL = parse_url("mqtt://ops@127.0.0.1:1883")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give every test a cache folder of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def make(clock: ManualClock, disk_bytes: int = 64 * 2**20) -> LiveBuffer | None:
    """Return a buffer for the demo."""
    return viewing.make_buffer(BrokerSession(URL, clock=clock), "demo", disk_bytes=disk_bytes)


def test_no_disk_keeps_nothing_and_too_little_is_refused(cache: Path) -> None:
    assert make(ManualClock(), 0) is None
    with pytest.raises(
        ConfigError, match=r"--past: 1 MiB is too little.*at least 4 MiB, or 0 for none"
    ):
        make(ManualClock(), 2**20)
    assert make(ManualClock(), viewing.LEAST_BYTES) is not None
    assert [path.name for path in cache.rglob("*")] == ["trnfleet"]


def test_the_past_is_kept_in_the_cache_and_is_gone_at_the_end(cache: Path) -> None:
    clock = ManualClock(BEGIN_NS, 70.0)
    buffer = make(clock)
    assert buffer is not None
    assert (buffer.window_s, buffer.problem) == (0.0, "")
    assert buffer.to_ns(71.5) == BEGIN_NS + 3 * NS_PER_S // 2
    buffer.start()
    try:
        (folder,) = (cache / "trnfleet" / "past").iterdir()
        assert folder.name.startswith("demo-")
        assert folder.stat().st_mode & 0o077 == 0
        buffer.take(
            [Envelope("trnfleet/v1/demo/event/-", b"{}", received_s=at_s) for at_s in (70.0, 74.0)]
        )
        assert buffer.save(cache / "saved.mcap") == 2
        assert buffer.window_s == 4.0
    finally:
        buffer.close()
    assert list((cache / "trnfleet" / "past").iterdir()) == []
    recording = Recording.open([cache / "saved.mcap"])
    try:
        assert recording.fleets == ("demo",)
        assert recording.abouts[0].broker == "127.0.0.1:1883"
    finally:
        recording.close()
    assert b"ops" not in (cache / "saved.mcap").read_bytes()


def test_a_cache_that_cannot_be_made_is_a_problem_and_no_failure(cache: Path) -> None:
    (cache / "trnfleet").mkdir()
    (cache / "trnfleet" / "past").write_text("in the way")
    buffer = make(ManualClock(BEGIN_NS, 70.0))
    assert buffer is not None
    buffer.start()
    try:
        assert buffer.problem
        assert buffer.window_s == 0.0
    finally:
        buffer.close()


def test_without_a_cache_folder_it_is_below_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert viewing.past_folder() == tmp_path / ".cache/trnfleet/past"


def test_monitors_of_the_past_are_of_the_same_fleet_and_keep_the_samples_they_are_given() -> None:
    make_monitor = viewing.monitor_maker("demo", root="r", site=Site(pue=1.3), rules=())
    history = History()
    clock = ManualClock()
    monitor = make_monitor(PastSource("the past"), clock, history)
    assert (monitor.fleet_name, monitor.site.pue, monitor.clock) == ("demo", 1.3, clock)
    assert monitor.history is history
    assert monitor.link.broker == "the past"


def test_the_playback_goes_back_by_the_buffers_own_time_and_pictures_the_same_site(
    cache: Path,
) -> None:
    """The playback reads the present's recording.

    Its monitors have the live one's figures.
    """
    clock = ManualClock(BEGIN_NS, 70.0)
    buffer = make(clock)
    assert buffer is not None
    live = monitor_fleet(BrokerSession(URL, clock=clock), "demo", site=Site(pue=1.3), tap=buffer)
    playback = viewing.play_back_buffer(live, buffer, clock=clock, root="trnfleet", rules=())
    assert (playback.is_recording, playback.end_ns, playback.window_s) == (True, BEGIN_NS, 0.0)
    assert playback.state.at is live.monitor
    assert buffer.gives_way == live.monitor.is_joining
    assert playback.monitors.make().monitor.site.pue == 1.3
    (cache / "trnfleet").mkdir(exist_ok=True)
    (cache / "trnfleet" / "past").write_text("in the way")
    buffer.start()
    assert not playback.is_recording
    assert playback.recording_problem == buffer.problem
    buffer.close()
