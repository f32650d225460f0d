"""Files of messages: recordings, lines and documents, read and written by several services."""
