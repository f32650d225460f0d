"""Files that services read and write: recordings, lines, documents, alert rules and their tests."""
