"""Settings of TLS, and secrets in files."""
