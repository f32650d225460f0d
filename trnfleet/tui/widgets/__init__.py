"""Widgets that know nothing of fleets."""
