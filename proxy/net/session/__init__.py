"""One client: its requests, its workers and its producers. Knows `relay`, `election` and `subscription`."""
