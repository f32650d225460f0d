"""Sources: the publishers of a fleet, what they describe, and their clocks.

Read `descriptors.py` first: everything else is about a publisher that a descriptor names.
"""
