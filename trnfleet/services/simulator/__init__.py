"""The simulator as a service: parameters, engine, publishing to a broker or into a recording, and its client."""
