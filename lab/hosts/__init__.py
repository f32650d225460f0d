"""Fake Trainium hosts, fed by a simulator: `make hosts`."""
