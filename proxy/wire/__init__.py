"""Pulsar's binary protocol as values: bytes in, bytes out, no IO.

`frames` cuts a stream into frames and reads their command, `messages` reads and writes MESSAGE frames on the hot path,
`commands` writes the commands a gateway sends itself, `metadata` reads what stands before a payload, `batch` and
`codecs` what is inside one. `errors` has one class for each of them. Nothing here knows the gateway, a socket, a clock
or a log.
"""
