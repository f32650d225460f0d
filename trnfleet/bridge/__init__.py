"""Real accounts and hosts: EC2's reservations and neuron-monitor's documents as the messages that the simulator publishes, too."""
