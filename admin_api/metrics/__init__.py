"""The gateway's numbers in Prometheus's formats: which there are (`families`), and how they are written."""
