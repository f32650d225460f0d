"""Parts of the simulator, driven by tests."""
