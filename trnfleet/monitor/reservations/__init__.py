"""Reservations: the table of reserved capacity, the instances of each, and their use over time.

Read `table.py` first: messages come in by `put`, and `compute` joins them with the store once a pass.
"""
