"""The monitor: from envelopes to columns, roll-ups, history and alerts, without a terminal.

Read `monitor.py` first: the two tasks, the stages of a pass. Then follow a message through
`ingest/` into `store/`, with `sources/` (the publishers), `reservations/` and `alerting/` beside
it. `slices.py` has the rules for long work in the event loop. `fleet_state.py` is the interface of
the views; `replay/` puts a monitor of the past behind it.

Imports go down only: see the contract "Layers of the monitor" in pyproject.toml.
"""
