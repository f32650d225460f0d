"""Widgets that know no fleet: `line_view.py` is the base of all that is repainted live, `cursor_list.py` of every list, `bar.py` of still lines."""
