"""The Alerts view.

`query.py` makes the rows of a tab, `lists.py` draws them, `details.py` draws the item under the
cursor, `actions.py` writes.
"""
