"""The Events view."""
