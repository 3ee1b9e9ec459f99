"""What passes between a client and its broker unchanged. Knows `broker`."""
