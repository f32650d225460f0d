"""Publishing: descriptors, telemetry, job state and events to a broker, and commands from it.

Read `service.Simulation.run` first: step the engine, then send changed descriptors, telemetry, events, reservations and
jobs. `partition` cuts the fleet into topics, `state` makes retained messages and counts boots, `telemetry` the samples and
the messages of one shard, `commands` checks requests, `faulty_publisher` delays and loses messages on their way. Boot ids
of a live run come from `secrets`; all else follows from the engine's seed.
"""
