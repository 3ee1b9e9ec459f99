"""Load with an audit: numbered messages, workers that record what they got, and a judge that sees only their records.

`producer` sends numbered messages and knows what the broker confirmed; `worker` is one OS process with the official
client, its record survives a SIGKILL; `audit` compares both. None of them asks the gateway anything, so a gateway
that is wrong cannot talk them into agreeing. `run` ties them together for tests, the demo and the bench.
"""
