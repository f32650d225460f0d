"""Sources: descriptors, publishers and their clocks."""
