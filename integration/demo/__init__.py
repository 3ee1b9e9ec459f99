"""`python -m integration.demo`: a real Pulsar, the gateway in front, workers that come and go, and an audit.

Written for someone who has never seen Keyline: every line on the screen is a sentence, every word of the trade is
explained where it first appears. `make demo` calls it.
"""
