from __future__ import annotations

from support.tui.fake_playback import START_NS

from trnfleet.tui.app.time_keys import default_name


def test_a_fleet_s_name_becomes_a_file_s() -> None:
    """Characters unsafe in file names are left out."""
    assert default_name("prod/../x y", START_NS) == "trnfleet-prod-..-x-y-20260105T000000Z.mcap"
