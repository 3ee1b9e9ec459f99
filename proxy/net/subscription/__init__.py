"""One subscription at a broker, shared by its workers. Knows `broker`."""
