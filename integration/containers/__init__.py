"""Broker and gateway in containers, over testcontainers: what is deployed, and not only what runs."""
