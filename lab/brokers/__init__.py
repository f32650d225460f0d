"""Real brokers of other makers, each on loopback.

They all have the same two kinds of users: everybody, and a read-only viewer.
"""
