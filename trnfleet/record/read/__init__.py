"""Reading of recordings: recovery, index or scan, playing, statistics."""
