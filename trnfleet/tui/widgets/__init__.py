"""Widgets without knowledge of fleets.

`line_view.py` is the base of all live widgets, `cursor_list.py` of every list, `bar.py` of static
lines.
"""
