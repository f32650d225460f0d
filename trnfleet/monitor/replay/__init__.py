"""Replay: a monitor of the past, played from a recording beside the live one.

Read `playback.py` first, with a diagram of the states. `controls.py` is the interface for views.
`seeker.py` moves monitors of the past (`past_monitor.py`) to a position. `marks.py` is the index of
a recording, with the snapshots (`packed_snapshot.py`) to start from.
"""
