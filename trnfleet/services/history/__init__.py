"""The writer of history: minutes of a monitor into Parquet files, from a broker or from recordings."""
