"""Real accounts and hosts as the messages a simulator publishes.

Sources are EC2's reservations and neuron-monitor's documents.
"""
