-- The questions of policy_audit.py, in what DuckDB and Spark understand alike. In braces: tables, and numbers.
WITH held AS (
    SELECT d.topic, d.subscription, d.life, key_digest, ledger, entry, batch_index, consumer, attempt, sent_ns,
           min(gateway) AS gateway,
           min(slot) AS slot,
           min(wall_ns - at_ns) AS ahead_ns,
           max(CASE WHEN event = 'sent' OR wall_ns - (at_ns - sent_ns) < {around_since_ns} THEN 1 ELSE 0 END) AS was_sent,
           min(CASE WHEN event = 'sent' THEN why END) AS went,
           min(CASE WHEN event <> 'sent' THEN at_ns END) AS ended_ns,
           min(CASE WHEN event = 'acked' THEN at_ns END) AS acked_ns,
           min(CASE WHEN event = 'returned' THEN at_ns END) AS returned_ns,
           min(CASE WHEN event = 'returned' THEN why END) AS came,
           max(CASE WHEN why = 'in_transaction' THEN 1 ELSE 0 END) AS in_transaction
    FROM {deliveries} d
    JOIN {runs} r ON d.topic = r.topic AND d.subscription = r.subscription AND d.life = r.life
    WHERE wall_ns >= {around_since_ns} AND wall_ns < {around_until_ns}
    GROUP BY d.topic, d.subscription, d.life, key_digest, ledger, entry, batch_index, consumer, attempt, sent_ns
),
held_in_turn AS (
    SELECT held.*,
           concat_ws(':', ledger, entry, batch_index) AS message,
           coalesce(went IN ('first_chunk', 'chunk'), false) AS is_chunk,
           lead(sent_ns) OVER (
               PARTITION BY topic, subscription, life, key_digest, ledger, entry, batch_index ORDER BY sent_ns, attempt
           ) AS next_ns
    FROM held
),
sent AS (SELECT * FROM held_in_turn WHERE was_sent = 1),
-- What a worker has of a key: one more where something is sent, one less where that ends. Ends of a moment come first.
points AS (
    SELECT topic, subscription, life, key_digest, ledger, entry, batch_index, sent_ns, went, gateway, slot, ahead_ns,
           message, consumer, sent_ns AS point_ns, 1 AS more
    FROM sent WHERE coalesce(went, '') <> 'chunk'
    UNION ALL
    SELECT topic, subscription, life, key_digest, ledger, entry, batch_index, sent_ns, went, gateway, slot, ahead_ns,
           message, consumer, ended_ns AS point_ns, -1 AS more
    FROM sent WHERE coalesce(went, '') <> 'chunk' AND ended_ns IS NOT NULL
),
counted AS (
    SELECT points.*,
           sum(more) OVER (
               PARTITION BY topic, subscription, life, key_digest
               ORDER BY point_ns, more, ledger, entry, batch_index ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
           ) AS at_worker,
           sum(more) OVER (
               PARTITION BY topic, subscription, life, key_digest, point_ns, more
               ORDER BY ledger, entry, batch_index ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
           ) AS sent_with_it
    FROM points
),
crowded AS (
    SELECT 'window' AS violation, c.*, c.sent_ns AS told_ns,
           CAST(NULL AS VARCHAR(10)) AS other, CAST(NULL AS VARCHAR(10)) AS other_consumer,
           concat('the worker has ', at_worker, ' messages of its key with it, and key_window is ', key_window) AS detail
    FROM counted c
    JOIN {policies} p ON c.topic = p.topic AND c.subscription = p.subscription AND c.life = p.life
         AND c.sent_ns >= p.since_ns AND c.sent_ns < p.until_ns
    WHERE more = 1 AND key_window > 0 AND at_worker > key_window
          AND NOT (coalesce(went, '') = 'whole' AND at_worker = sent_with_it)
),
waited AS (
    SELECT s.topic, s.subscription, s.life, s.key_digest, s.ledger, s.entry, s.batch_index, s.message, s.consumer,
           returned_ns, next_ns, key_window,
           CASE WHEN came = 'asked_for' AND retry_delay_ns > 0 THEN least(until_ns, returned_ns + CAST(
               least(retry_max_ns, retry_delay_ns * power(retry_multiplier, least(attempt - 1, 64))) AS BIGINT
           )) ELSE returned_ns END AS due_ns
    FROM sent s
    JOIN {policies} p ON s.topic = p.topic AND s.subscription = p.subscription AND s.life = p.life
         AND returned_ns >= p.since_ns AND returned_ns < p.until_ns
    WHERE coalesce(came, '') <> 'given_up' AND (key_window > 0 OR retry_delay_ns > 0)
),
-- What was sent of the key while something of it waited: before the end of its pause, or behind it in the topic.
met AS (
    SELECT s.*, w.message AS other, w.consumer AS other_consumer, s.sent_ns AS told_ns, w.returned_ns AS since_ns,
           w.due_ns, s.sent_ns < w.due_ns - 1000 AS is_early,
           key_window > 0 AND s.sent_ns < coalesce(w.next_ns, {never_ns}) AND NOT s.is_chunk AND (
               s.ledger > w.ledger OR s.ledger = w.ledger AND s.entry > w.entry
               OR s.ledger = w.ledger AND s.entry = w.entry AND s.batch_index > w.batch_index
           ) AS is_ahead
    FROM waited w
    JOIN sent s ON s.topic = w.topic AND s.subscription = w.subscription AND s.life = w.life
         AND s.key_digest = w.key_digest AND s.sent_ns > w.returned_ns
         AND (s.sent_ns < w.due_ns OR s.sent_ns < coalesce(w.next_ns, {never_ns}))
),
hasty AS (
    SELECT met.*, row_number() OVER (
               PARTITION BY topic, subscription, life, key_digest, ledger, entry, batch_index, sent_ns, is_early
               ORDER BY due_ns DESC, other
           ) AS number
    FROM met
    WHERE (is_early OR is_ahead) AND NOT EXISTS (
        SELECT 1 FROM {marks} m
        WHERE m.topic = met.topic AND m.subscription = met.subscription AND m.life = met.life
              AND m.mark_ns >= met.since_ns AND m.mark_ns <= met.sent_ns
    )
),
kept_away AS (
    SELECT s.*, s.sent_ns AS told_ns FROM sent s
    JOIN {parked} p ON s.topic = p.topic AND s.subscription = p.subscription AND s.life = p.life AND s.slot = p.slot
         AND s.sent_ns > p.since_ns AND s.sent_ns < p.until_ns
),
-- Up to here no worker has asked for more time, nor acknowledged in a transaction, which no lease takes away.
unextended AS (
    SELECT topic, subscription, life, at_ns AS looked_ns FROM (
        SELECT topic, subscription, life, at_ns,
               min(CASE WHEN value > 0 THEN at_ns END) OVER (PARTITION BY topic, subscription, life) AS used_ns
        FROM {metrics} WHERE name IN (
            'keyline_subscription_ack_lease_extensions_total', 'keyline_subscription_in_transaction_messages'
        )
    ) looks WHERE at_ns < coalesce(used_ns, {never_ns})
),
kept_long AS (
    SELECT s.*, p.ack_lease_ns, p.until_ns,
           s.sent_ns + p.ack_lease_ns + CAST(p.ack_lease_ns * 0.05 AS BIGINT) + {late_ns} AS told_ns
    FROM sent s
    JOIN {policies} p ON s.topic = p.topic AND s.subscription = p.subscription AND s.life = p.life
         AND s.sent_ns >= p.since_ns AND s.sent_ns < p.until_ns
    WHERE p.ack_lease_ns > 0 AND NOT s.is_chunk AND s.in_transaction = 0
),
lost AS (
    SELECT s.*, l.lost_ns, l.ack_lease_ns, s.ledger = l.ledger AND s.entry = l.entry AS is_named
    FROM sent s
    JOIN {losses} l ON s.topic = l.topic AND s.subscription = l.subscription AND s.life = l.life
         AND s.consumer = l.consumer AND s.sent_ns <= l.lost_ns
),
lost_early AS (
    SELECT lost.*, row_number() OVER (
               PARTITION BY topic, subscription, life, consumer, lost_ns ORDER BY sent_ns, batch_index
           ) AS number
    FROM lost WHERE is_named AND coalesce(ended_ns, {never_ns}) >= lost_ns
),
-- When one of its name came again, and when one left, since it is kept out.
outsiders AS (
    SELECT k.topic, k.subscription, k.life, k.consumer, k.why, k.since_ns, k.until_ns,
           min(CASE WHEN kind = 'worker_joined' AND at_ns > since_ns THEN at_ns END) AS came_ns,
           min(CASE WHEN kind = 'worker_left' THEN at_ns END) AS left_ns
    FROM {kept_out} k
    LEFT JOIN {events} e ON e.topic = k.topic AND e.subscription = k.subscription AND e.life = k.life
         AND e.consumer = k.consumer AND e.kind IN ('worker_joined', 'worker_left') AND e.at_ns >= k.since_ns
    GROUP BY k.topic, k.subscription, k.life, k.consumer, k.why, k.since_ns, k.until_ns
),
let_in AS (
    SELECT s.*, o.why, s.sent_ns AS told_ns FROM sent s
    JOIN outsiders o ON s.topic = o.topic AND s.subscription = o.subscription AND s.life = o.life
         AND s.consumer = o.consumer AND s.sent_ns > o.since_ns AND s.sent_ns < o.until_ns
    WHERE o.why = 'excluded' OR s.sent_ns >= coalesce(o.came_ns, {never_ns})
          OR s.sent_ns > o.since_ns + {late_ns} AND s.sent_ns < coalesce(o.left_ns, {never_ns})
),
found AS (
    SELECT violation, gateway, life, topic, subscription, key_digest, slot, message, consumer, told_ns, ahead_ns,
           other, other_consumer, detail
    FROM crowded
    UNION ALL
    SELECT CASE WHEN is_early THEN 'too_early' ELSE 'overtaking' END, gateway, life, topic, subscription, key_digest,
           slot, message, consumer, told_ns, ahead_ns, other, other_consumer,
           CASE WHEN is_early THEN 'sent before the retry delay of a message of its key was over'
                ELSE 'sent while an earlier message of its key, which had come back, waited' END
    FROM hasty WHERE number = 1
    UNION ALL
    SELECT 'not_parked', gateway, life, topic, subscription, key_digest, slot, message, consumer, told_ns, ahead_ns,
           CAST(NULL AS VARCHAR(10)), CAST(NULL AS VARCHAR(10)), 'sent while its key was parked'
    FROM kept_away
    UNION ALL
    SELECT why, gateway, life, topic, subscription, key_digest, slot, message, consumer, told_ns, ahead_ns,
           CAST(NULL AS VARCHAR(10)), CAST(NULL AS VARCHAR(10)),
           CASE WHEN why = 'excluded' THEN 'sent to a worker that an operator had excluded'
                ELSE 'sent to a worker in quarantine' END
    FROM let_in
    UNION ALL
    SELECT 'lease', gateway, life, topic, subscription, key_digest, slot, message, consumer, told_ns, ahead_ns,
           CAST(NULL AS VARCHAR(10)), CAST(NULL AS VARCHAR(10)),
           'held for longer than ack_lease_ms, and the worker kept its keys'
    FROM kept_long k
    WHERE coalesce(ended_ns, {never_ns}) > told_ns AND EXISTS (
        SELECT 1 FROM unextended u
        WHERE u.topic = k.topic AND u.subscription = k.subscription AND u.life = k.life
              AND u.looked_ns >= k.told_ns AND u.looked_ns < k.until_ns
              AND u.looked_ns <= coalesce(k.ended_ns, {never_ns}) - {late_ns}
    )
    UNION ALL
    SELECT 'lease', gateway, life, topic, subscription, key_digest, slot, message, consumer, lost_ns, ahead_ns,
           CAST(NULL AS VARCHAR(10)), CAST(NULL AS VARCHAR(10)),
           'its worker lost its ack lease before it had held it for so long'
    FROM lost_early WHERE number = 1 AND sent_ns > lost_ns - ack_lease_ns
    UNION ALL
    SELECT 'lease', gateway, life, topic, subscription, key_digest, slot, message, consumer, acked_ns, ahead_ns,
           CAST(NULL AS VARCHAR(10)), CAST(NULL AS VARCHAR(10)),
           'acknowledged by a worker that had lost its ack lease, and so the message'
    FROM lost WHERE returned_ns <= lost_ns + {late_ns} AND acked_ns > returned_ns AND acked_ns > lost_ns
)
SELECT violation, gateway, life, topic, subscription, key_digest, slot, message, consumer, told_ns AS at_ns,
       told_ns + ahead_ns AS wall_ns, other, other_consumer, detail
FROM found WHERE told_ns + ahead_ns >= {since_ns} AND told_ns + ahead_ns < {until_ns}
