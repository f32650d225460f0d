"""Ingest: envelopes checked, decoded and written into the store."""
