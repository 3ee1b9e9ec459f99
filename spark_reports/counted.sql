-- What gateways counted by themselves, by run and subscription: messages sent to workers, and between which moments of the
-- run's clock. What a counter had at a first snapshot counts if the subscription's beginning is in the events; a counter
-- that fell restarted at 0.
WITH began AS (
    SELECT topic, subscription, life, min(at_ns) AS began_ns
    FROM {events}
    WHERE kind = 'subscription_began' AND wall_ns >= {since_ns} AND wall_ns < {until_ns}
    GROUP BY topic, subscription, life
),
samples AS (
    SELECT topic, subscription, life, at_ns, value, began_ns,
           lag(at_ns) OVER in_time AS before_ns, lag(value) OVER in_time AS before
    FROM {metrics} LEFT JOIN began USING (topic, subscription, life)
    WHERE name = 'keyline_subscription_sent_messages_total' AND wall_ns >= {since_ns} AND wall_ns < {until_ns}
    WINDOW in_time AS (PARTITION BY topic, subscription, life ORDER BY at_ns)
)
SELECT topic, subscription, life,
       CAST(sum(CASE WHEN before <= value THEN value - before ELSE value END) AS BIGINT) AS counted,
       min(coalesce(before_ns, began_ns)) AS since_ns, max(at_ns) AS until_ns
FROM samples
WHERE before_ns IS NOT NULL OR began_ns <= at_ns
GROUP BY topic, subscription, life
