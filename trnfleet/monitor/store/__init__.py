"""The store: columns of newest values, and results computed from them in each pass.

Read `store.py` first, then `rollup.py`: a pass computes the roll-ups of all levels from the
columns. `fields.py` names the figures of a node, `history.py` records them for charts with
`rings/`, `job_history.py` and `gaps.py`, and `findings.py` searches for faults. `retained.py`,
`jobs.py` and `events.py` store messages other than telemetry.
"""
