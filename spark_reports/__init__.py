"""PySpark reports over the delivery journal."""
