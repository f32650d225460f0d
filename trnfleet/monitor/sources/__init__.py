"""Sources: the publishers of a fleet, their descriptors, and their clocks.

Read `descriptors.py` first: every other module is about publishers named by a descriptor.
"""
