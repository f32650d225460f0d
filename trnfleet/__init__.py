"""A terminal fleet monitor and telemetry simulator for AWS Trainium, over MQTT."""

__version__ = "0.1.0"
