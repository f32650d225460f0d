"""Replay: a monitor of the past, played from a recording beside the live one.

Read `playback.py` first, with a diagram of the states; `controls.py` is what views see of it. `seeker.py` takes monitors of the past
(`past_monitor.py`) to a place; `marks.py` is the index of a recording, with the snapshots (`packed_snapshot.py`) from which that begins.
"""
