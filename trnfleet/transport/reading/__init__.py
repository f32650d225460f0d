"""The connection that reads in MQTT 5 over TCP and TLS: the `mqtt5` codec on a socket in the event loop."""
