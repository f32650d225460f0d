"""Shared parts of whole-program benchmarks: pre-encoded fleets, and an app's screen."""
