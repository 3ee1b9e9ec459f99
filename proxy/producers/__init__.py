"""Producers that wait to become a topic's only one (PIP-440): who is next, and who is asked for at the broker. Pure."""
