"""Ingest: envelopes are checked, decoded and written into the store.

Read `ingest.py` first: `Ingest.apply` separates telemetry (`topics.py` finds its rows,
`sequence.py` its order, `telemetry.py` writes it) from all other messages, handled by a table in
`messages.py`. `layout.py` makes rows of descriptors. `rejects.py` has the messages not applied.
"""
