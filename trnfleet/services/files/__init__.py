"""Files of services: recordings, lines, documents, alert rules and their tests."""
