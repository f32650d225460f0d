"""The Reservations view: table, timeline and details."""
