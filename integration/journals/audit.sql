-- The ordering audit for DuckDB: the same questions as spark_reports/ordering_audit.py, for journals without seeks.
WITH held AS (
    SELECT topic, subscription, key_digest, ledger, entry, batch_index, life, consumer, attempt,
           sent_ns AS given_ns,
           min(CASE WHEN event = 'sent' THEN sent_ns END) AS sent_ns,
           min(at_ns) FILTER (event <> 'sent') AS ended_ns,
           arg_min(event, at_ns) FILTER (event <> 'sent') AS how
    FROM read_parquet('$files')
    GROUP BY ALL
),
by_message AS (
    SELECT *,
           row_number() OVER deliveries AS number,
           lag(how) OVER deliveries AS before_how,
           lag(ended_ns) OVER deliveries AS before_ended_ns,
           lead(sent_ns) OVER deliveries AS next_sent_ns,
           bool_or(how = 'acked') OVER message AS acked,
           max(sent_ns) OVER (PARTITION BY topic, subscription, key_digest, ledger, entry, batch_index, life, consumer)
               AS sent_to_this_consumer_ns
    FROM held
    WINDOW message AS (PARTITION BY topic, subscription, key_digest, ledger, entry, batch_index, life),
           deliveries AS (
               PARTITION BY topic, subscription, key_digest, ledger, entry, batch_index, life
               ORDER BY sent_ns NULLS LAST
           )
),
by_time AS (
    SELECT *,
           lag(consumer) OVER in_time AS consumer_before,
           max(CASE WHEN sent_ns IS NOT NULL THEN coalesce(ended_ns, 9223372036854775807) END) OVER before AS held_until_ns,
           arg_max(consumer, CASE WHEN sent_ns IS NOT NULL THEN coalesce(ended_ns, 9223372036854775807) END) OVER before
               AS held_by,
           max(CASE WHEN sent_ns IS NOT NULL AND number = 1 THEN (ledger, entry, batch_index) END) OVER before AS ahead,
           max(sent_ns) OVER (PARTITION BY topic, subscription, key_digest, life) AS last_sent_ns
    FROM by_message
    WINDOW in_time AS (
               PARTITION BY topic, subscription, key_digest, life
               ORDER BY sent_ns NULLS LAST, ledger, entry, batch_index
           ),
           before AS (
               PARTITION BY topic, subscription, key_digest, life
               ORDER BY sent_ns NULLS LAST, ledger, entry, batch_index
               ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
           )
)
SELECT
    count(*) FILTER (sent_ns IS NOT NULL AND consumer_before <> consumer AND held_by <> consumer
                     AND held_until_ns > sent_ns) AS overlap,
    count(*) FILTER (sent_ns IS NOT NULL AND number = 1 AND attempt = 1
                     AND ahead > (ledger, entry, batch_index)) AS inversion,
    count(*) FILTER (sent_ns IS NOT NULL AND next_sent_ns IS NULL AND how = 'returned'
                     AND NOT coalesce(acked, false) AND last_sent_ns > ended_ns) AS never_acked,
    count(*) FILTER (how = 'acked' AND sent_to_this_consumer_ns IS NULL) AS never_delivered,
    count(*) FILTER (sent_ns IS NOT NULL AND number > 1
                     AND NOT coalesce(before_how IN ('returned', 'dropped') AND before_ended_ns <= sent_ns, false))
        AS repeated
FROM by_time
