"""The Alerts view."""
