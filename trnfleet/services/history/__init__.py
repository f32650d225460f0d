"""The writer of history: a monitor's minutes as Parquet files, from a broker or recordings."""
