"""HTTP beside the gateway: health, and read-only views of what it does."""
