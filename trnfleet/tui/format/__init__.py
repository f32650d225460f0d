"""Formatting: values as text, pure functions."""
