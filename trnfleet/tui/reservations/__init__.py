"""The Reservations view.

`table.py` and `timeline.py` list the same reservations, `details.py` describes the one under the
cursor.
"""
