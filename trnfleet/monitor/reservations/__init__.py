"""Reservations: the table of reserved capacity, and their instances and use over time.

Read `table.py` first: `put` stores messages, and `compute` joins them with the store once a pass.
"""
