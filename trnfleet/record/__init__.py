"""Recordings in MCAP: written while the fleet runs, readable after a crash.

`format` knows bytes and limits, `read` opens and plays files, `write` makes them. Who looks for the way of a message begins
with write.recorder (the event loop's side), write.writer (chunks, keyframes, splits) and read.recording (all files as one).
"""
