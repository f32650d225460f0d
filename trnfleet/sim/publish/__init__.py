"""Publishing: descriptors, telemetry, jobs and events to a broker; commands from it.

Read `service.Simulation.run` first: step the engine, then send changed descriptors, telemetry,
events, reservations and jobs. `partition` cuts the fleet into topics, `state` builds retained
messages and counts boots, `telemetry` the samples and the messages of one shard, `commands` checks
requests, `faulty_publisher` delays and loses messages in transit. Boot ids of a live run come from
`secrets`; everything else follows from the engine's seed.
"""
