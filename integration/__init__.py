"""Real parts for tests, demo and bench: Pulsar from its published artifacts, its tools, and Go's load client."""
