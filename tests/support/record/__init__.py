"""Recordings, in memory and as files."""
