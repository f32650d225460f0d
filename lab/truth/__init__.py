"""`make truth`: reports comparing simulated telemetry with itself and published figures."""
