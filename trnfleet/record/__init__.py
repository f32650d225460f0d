"""Recordings: writing them while the fleet runs, and reading them whatever became of the file."""
