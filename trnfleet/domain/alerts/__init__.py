"""Alerts: rules and their conditions, the states of an alert, silences and acknowledgements.

Pure: `now` is an argument.
"""
