"""Reports that compare the simulator's telemetry with itself and with published figures: `make truth`."""
