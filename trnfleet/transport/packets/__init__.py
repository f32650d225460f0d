"""Contents of MQTT packets, in paho's types."""
