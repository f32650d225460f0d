"""Faults: what one is, and the table of all."""
