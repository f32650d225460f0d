"""The simulated fleet: telemetry and events from a fleet file, a scenario and a seed.

Read `engine.Engine.step` first: it is one tick. `faults.timeline` cuts the tick where something
begins or ends. For each part, faults and then `reservations.account` carry out what is due,
`jobs.workloads` advances the jobs, and `hardware.thermal` the temperatures and power limits. Then
`hardware` writes the columns, and `faults.effects` marks chips and adds to counters.
`publish.service` drives the engine and sends its output through a port; `publish.telemetry` writes
it to stdout.

Folders call downwards only: publish, engine, reservations, faults, hardware, jobs, and below them
the modules here. All randomness comes from `rng`, keyed by names and ticks and never by order: any
sharding, chunking or length of ticks gives the same fleet.
"""
