"""The gateway: a pure core inside, IO outside."""
