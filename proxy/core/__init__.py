"""The core: a subscription's state as plain values; no IO, no clock, no randomness."""
