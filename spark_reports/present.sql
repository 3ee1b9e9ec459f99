-- Who took part in what, in the span and around it, and how much of it was in the span: by run, subscription and worker.
SELECT gateway, life, topic, subscription, consumer,
       count(*) FILTER (WHERE inside) AS rows,
       min(wall_ns) FILTER (WHERE inside) AS first_wall_ns,
       max(wall_ns) FILTER (WHERE inside) AS last_wall_ns,
       min(wall_ns - at_ns) FILTER (WHERE inside) AS ahead_min_ns,
       max(wall_ns - at_ns) FILTER (WHERE inside) AS ahead_max_ns,
       count(*) FILTER (WHERE inside AND event = 'sent') AS deliveries,
       count(*) FILTER (WHERE inside AND event = 'sent' AND at_ns > since_ns AND at_ns <= until_ns) AS sent_then,
       coalesce(max(why = 'whole'), false) AS goes_whole
FROM (
    SELECT *, wall_ns >= {since_ns} AND wall_ns < {until_ns} AS inside
    FROM {deliveries} LEFT JOIN {counted} USING (topic, subscription, life)
    WHERE wall_ns >= {around_since_ns} AND wall_ns < {around_until_ns}
) AS of_span
GROUP BY gateway, life, topic, subscription, consumer
