"""Real parts for tests, the demo and the bench: Pulsar from its published artifacts, its tools, Go's load client."""
