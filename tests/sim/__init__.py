"""The simulator: real gateways on a made-up network, with made-up brokers and workers; one seed decides everything."""
