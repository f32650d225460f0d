"""Alerts: rules as data, the life of an alert, grouping, silences and acknowledgements. Pure: `now` is an argument."""
