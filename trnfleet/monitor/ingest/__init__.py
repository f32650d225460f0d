"""Ingest: envelopes checked, decoded and written into the store.

Read `ingest.py` first: `Ingest.apply` parts telemetry (`topics.py` finds its rows, `sequence.py` its order, `telemetry.py`
writes it) from all other messages, which `messages.py` handles by one table. `layout.py` makes rows of descriptors;
`rejects.py` has what is not applied.
"""
