"""The Hierarchy view.

`index.py` maps rows to nodes, `rows.py` reads values, `columns.py` divides the width, `table.py` is
the widget.
"""
