"""The Hierarchy view."""
