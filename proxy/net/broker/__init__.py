"""Connections to brokers, and what is asked on them. Knows the pure rooms and the ports of `net`."""
