"""Playback: its keys, the seek bar and the banner over the past."""
