"""Pulsar's own admin API through the gateway: the broker answers, and the gateway's workers are merged in.

`paths` says what a request asks for, `proxying` asks the broker, `stepwise` reads and writes its JSON without holding
up messages, `consumers`, `merge` and `partitioned` put our part in; all but `proxying` are pure.
"""
