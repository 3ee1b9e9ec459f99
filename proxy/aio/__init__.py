"""What touches asyncio, sockets, TLS and the system's clock. Knows the ports of `net`, and no room of it."""
