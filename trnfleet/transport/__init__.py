"""Envelopes over MQTT and in memory: the only importer of the MQTT client and of the embedded broker."""
