"""What the gateway did, as Parquet files for reports: see `schema` for the tables and `docs/journal.md` for people."""
