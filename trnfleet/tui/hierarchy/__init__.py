"""The Hierarchy view: `index.py` knows which row is which node, `rows.py` reads values, `columns.py` divides the width, `table.py` is the widget."""
