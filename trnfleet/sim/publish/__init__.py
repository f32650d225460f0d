"""Publishing: descriptors, telemetry, job state and events to a broker, and commands from it."""
