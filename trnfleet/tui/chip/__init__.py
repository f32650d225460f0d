"""The Chip view.

`reading.py` reads a chip from the monitor, `panels.py` draws it, `view.py` arranges the panels.
"""
