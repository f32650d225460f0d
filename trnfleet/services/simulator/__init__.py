"""The simulator as a service.

It has parameters, engine, publishing to a broker or into a recording, client, and the app's
history.
"""
