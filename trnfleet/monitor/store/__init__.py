"""The store: columns of newest values, and what is computed from them in each pass.

Read `store.py` first, then `rollup.py`: a pass makes the roll-ups of all levels from the columns. `fields.py` names the
figures that can be shown of a node, `history.py` keeps them for charts with `rings/`, `job_history.py` and `gaps.py`,
`findings.py` looks for trouble. `retained.py`, `jobs.py` and `events.py` keep messages that are no telemetry.
"""
