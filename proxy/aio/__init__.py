"""Implementations on asyncio, sockets, TLS and the system's clock. Of `net` it uses only the ports."""
