"""One noun per file."""
