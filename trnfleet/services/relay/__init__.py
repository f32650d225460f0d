"""The relay: roll-ups of a cell, and its state and alerts, to a top broker.

State is jobs, reservations, events and publishers.
"""
