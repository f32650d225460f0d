"""Envelopes over MQTT and in memory.

The only importer of the MQTT client and of the embedded broker.
"""
