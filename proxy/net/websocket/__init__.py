"""Workers on WebSockets: each is a client of a session in memory, so everything holds for it that holds for any client.

`worker` is that client; `dialect_v2` and `dialect_v1` are the languages it speaks with the other side. No socket is
known here: the admin API has it, and talks to a worker through `link`.
"""
