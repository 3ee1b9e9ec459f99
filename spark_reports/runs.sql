-- What gateway_runs.py and coverage.py find, for DuckDB: by run, subscription and worker, and by run and subscription.
WITH began AS (
    SELECT topic, subscription, life, min(at_ns) AS began_ns
    FROM events
    WHERE kind = $began AND wall_ns >= $since_ns AND wall_ns < $until_ns
    GROUP BY ALL
),
samples AS (
    SELECT topic, subscription, life, at_ns, value, began_ns,
           lag(at_ns) OVER in_time AS before_ns, lag(value) OVER in_time AS before
    FROM metrics LEFT JOIN began USING (topic, subscription, life)
    WHERE name = $counted AND wall_ns >= $since_ns AND wall_ns < $until_ns
    WINDOW in_time AS (PARTITION BY topic, subscription, life ORDER BY at_ns)
),
counted AS (
    SELECT topic, subscription, life,
           sum(CASE WHEN before <= value THEN value - before ELSE value END)::BIGINT AS counted,
           min(coalesce(before_ns, began_ns)) AS since_ns, max(at_ns) AS until_ns
    FROM samples
    WHERE before_ns IS NOT NULL OR began_ns <= at_ns
    GROUP BY ALL
),
present AS (
    SELECT gateway, life, topic, subscription, consumer, count(*) AS rows,
           min(wall_ns) AS first_wall_ns, max(wall_ns) AS last_wall_ns,
           min(wall_ns - at_ns) AS ahead_min_ns, max(wall_ns - at_ns) AS ahead_max_ns,
           count(*) FILTER (event = 'sent') AS deliveries,
           count(*) FILTER (event = 'sent' AND at_ns > counted.since_ns AND at_ns <= counted.until_ns) AS sent_then
    FROM deliveries LEFT JOIN counted USING (topic, subscription, life)
    WHERE wall_ns >= $since_ns AND wall_ns < $until_ns
    GROUP BY ALL
),
seen AS (
    SELECT gateway, life, rows, deliveries, first_wall_ns, last_wall_ns, ahead_min_ns, ahead_max_ns FROM present
    UNION ALL
    SELECT gateway, life, count(*), 0, min(wall_ns), max(wall_ns), min(wall_ns - at_ns), max(wall_ns - at_ns)
    FROM (
        SELECT gateway, life, at_ns, wall_ns FROM events
        UNION ALL SELECT gateway, life, at_ns, wall_ns FROM drains
        UNION ALL SELECT gateway, life, at_ns, wall_ns FROM redeliveries
        UNION ALL SELECT gateway, life, at_ns, wall_ns FROM metrics
    )
    WHERE wall_ns >= $since_ns AND wall_ns < $until_ns
    GROUP BY ALL
),
runs AS (
    SELECT gateway, life, sum(rows)::BIGINT AS rows, sum(deliveries)::BIGINT AS deliveries,
           min(first_wall_ns) AS first_wall_ns, max(last_wall_ns) AS last_wall_ns,
           max(ahead_max_ns) - min(ahead_min_ns) AS clock_moved_ns
    FROM seen
    GROUP BY ALL
),
beside AS (
    SELECT *, max({'last_wall_ns': last_wall_ns, 'life': life}) OVER (
               PARTITION BY gateway ORDER BY first_wall_ns, life ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
           ) AS before
    FROM runs
),
lost AS (
    SELECT max(value) AS value FROM metrics
    WHERE name = $lost AND wall_ns >= $since_ns AND wall_ns < $until_ns
    GROUP BY life, labels['kind']
)
SELECT
    (SELECT list({
        'gateway': gateway, 'life': life, 'rows': rows, 'deliveries': deliveries, 'first_wall_ns': first_wall_ns,
        'last_wall_ns': last_wall_ns, 'clock_moved_ns': clock_moved_ns,
        'beside': CASE WHEN before.last_wall_ns > first_wall_ns + $odd_ns THEN before.life END,
        'killed': list_contains($killed, life)
    } ORDER BY gateway, first_wall_ns, life) FROM beside) AS runs,
    (SELECT list({'counted': counted, 'sent_then': coalesce(sent_then, 0)})
     FROM counted LEFT JOIN (
         SELECT topic, subscription, life, sum(sent_then)::BIGINT AS sent_then FROM present GROUP BY ALL
     ) USING (topic, subscription, life)) AS counts,
    (SELECT count(DISTINCT (topic, subscription, consumer)) FROM present) AS consumers,
    (SELECT count(DISTINCT life) FROM present) AS lives,
    (SELECT count(DISTINCT gateway) FROM present) AS gateways,
    (SELECT coalesce(sum(value), 0)::BIGINT FROM lost) AS rows_lost
