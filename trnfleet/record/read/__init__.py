"""Reading recordings: recovery, index or scan, playing, and what a recording holds."""
