"""Recordings in MCAP: written while the fleet runs, readable after a crash.

`format` knows bytes and limits, `read` opens and plays files, `write` makes them. To follow a
message, begin with write.recorder (the event loop's side), write.writer (chunks, keyframes, splits)
and read.recording (all files as one).
"""
