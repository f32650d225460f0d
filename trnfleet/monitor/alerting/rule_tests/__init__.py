"""Tests of rules: the series that they play, and the alerts that they expect."""
