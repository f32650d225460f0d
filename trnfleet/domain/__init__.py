"""The domain: facts and rules of fleets as pure data and functions.

It reads no clock, file or socket.

`address` and `layout` name everything, `metrics` is the table of measured values, `faults` and
`models` are tables, `fleet`, `scenario` and `jobs` the models of files. `reservations` has the
rules of Capacity Blocks, `alerts` the alert rules, `hardware` the catalogue and its topologies.
"""
