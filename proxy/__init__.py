"""The gateway: a pure core inside, IO outside."""

__version__ = "0.1.0"
