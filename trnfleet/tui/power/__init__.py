"""The Power view."""
