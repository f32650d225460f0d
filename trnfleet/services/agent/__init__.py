"""The agent: telemetry of one real host.

It joins neuron-monitor, the driver's tree, kernel messages, EFA and the instance metadata service.
"""
