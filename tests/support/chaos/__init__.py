"""Damage by chance, as a function of a seed: messages, files, brokers and faults of processes; `make chaos` runs it."""
