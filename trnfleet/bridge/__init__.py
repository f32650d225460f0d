"""Real accounts and hosts: what EC2 tells of reserved capacity becomes the same messages that the simulator publishes."""
