"""Tests of rules: the series to play and the expected alerts."""
