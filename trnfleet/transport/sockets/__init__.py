"""Sockets to a broker: TCP, TLS and websockets, and why one could not be opened."""
