"""Readers of a Linux host: identity, kernel messages, network adapters, and who has its chips."""
