"""Real brokers of other makers, each on loopback with the same two kinds of users: everybody, and a viewer that may only read."""
