"""The login at a broker: credentials, secrets in files, and settings of TLS."""
