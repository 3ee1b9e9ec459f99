"""OpenTelemetry: the way of sampled messages through the gateway, as traces."""
