"""Minutes of every chip, accumulated from the store as telemetry comes."""
