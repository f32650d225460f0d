"""The relay: a cell's roll-ups, jobs, reservations, alerts, events and publishers to a top broker."""
