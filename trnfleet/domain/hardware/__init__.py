"""Hardware catalogue: chips, instance and UltraServer types, topologies, racks and power."""
