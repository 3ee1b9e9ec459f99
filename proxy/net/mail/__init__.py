"""Messages between replicas, on topics of the broker. Knows `broker`."""
