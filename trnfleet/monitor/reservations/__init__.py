"""Reservations as the monitor knows them: the table, their instances, and usage over time."""
