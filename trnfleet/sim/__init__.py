"""The simulated fleet: physics, jobs and faults make telemetry, which `publishing` sends through a port."""
