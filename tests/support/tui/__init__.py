"""The app under test."""
