"""Events."""

from __future__ import annotations

EVENT_EXAMPLE = (
    "id: 17\n"
    "event: worker_joined\n"
    'data: {"number":17,"kind":"worker_joined","at":812.4,"topic":"persistent://public/default/orders",'
    '"subscription":"billing","facts":{"worker":"w3","address":"10.0.0.7:41022","moves_count":1,'
    '"moves":[{"start":1,"end":700,"source":"w1","target":"w3"}]}}\n\n'
)
