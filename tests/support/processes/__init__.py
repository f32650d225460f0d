"""Real processes: the program under test, Mosquitto, Alertmanager and pseudo-terminals."""
