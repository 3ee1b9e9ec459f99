"""Runs broker and gateway in containers, as they are deployed, with testcontainers."""
