"""The simulated account: Capacity Blocks on the fleet's instances, and their messages."""
