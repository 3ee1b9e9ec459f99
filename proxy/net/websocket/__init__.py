"""Workers on WebSockets: each is a client of an in-memory session, with the guarantees of any client.

`worker` is that client; `dialect_v2` and `dialect_v1` are its protocols with the WebSocket's client. This package knows
no socket: the admin API has it, and uses a worker through `link`.
"""
