"""Replicas that share subscriptions. Knows `subscription`, `mail` and `broker`."""
