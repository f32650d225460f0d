"""Monitors, alerts and messages, made by tests."""
