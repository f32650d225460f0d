"""Hardware: the catalogue of chips, instance and UltraServer types, their topologies, racks and power."""
