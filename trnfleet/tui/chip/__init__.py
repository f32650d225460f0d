"""The Chip view."""
