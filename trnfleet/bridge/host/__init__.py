"""Readers of a Linux host: which jobs have which chips."""
