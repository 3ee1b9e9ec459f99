"""Metrics that Prometheus scraped, as files of the journal's table of metrics."""
