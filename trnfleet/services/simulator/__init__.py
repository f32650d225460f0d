"""The simulator as a service: parameters, engine, publishing to a broker or into a recording, its client, its history in the app."""
