"""History: months of a fleet in Parquet files, written and read by DuckDB."""
