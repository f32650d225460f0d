"""Faults: their model, and the table of all."""
