"""Many reports as columns: from JSON, from Parquet."""
