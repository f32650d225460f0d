"""The simulated fleet: a fleet file, a scenario and a seed in, telemetry, events and state out.

Read `engine.Engine.step` first, it is one tick. In its order: `faults.timeline` cuts the tick where something begins or
ends; for each part faults, then `reservations.account` carry out what is due, `jobs.workloads` moves the jobs on and
`hardware.thermal` the temperatures and power limits; then `hardware` writes the columns, `faults.effects` marks chips and
adds to counters. `publish.service` drives the engine and sends what it made through a port; `publish.telemetry` writes it
to stdout.

Folders call downwards only: publish, engine, reservations, faults, hardware, jobs, and below them the modules here. All
randomness comes from `rng`, keyed by names and ticks and never by order: any sharding, chunking or length of ticks gives
the same fleet.
"""
