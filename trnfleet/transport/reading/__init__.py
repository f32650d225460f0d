"""MQTT 5 reader over TCP and TLS.

The `mqtt5` codec on a socket in the event loop.
"""
