"""IO and the state machines beside it: client sessions, relay, upstream subscriptions, lookup."""
